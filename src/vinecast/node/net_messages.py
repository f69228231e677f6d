"""What the parent of a local network and its processes say to each other: lines of JSON over pipes."""

from typing import Any

import msgspec
from msgspec import Struct


class Begin(Struct, tag="begin"):
    """The first line to a worker: what its nodes have in common. ``config`` is a table of ``NodeConfig``."""

    network: str
    config: dict[str, Any]
    report_s: float
    folder: str | None = None
    """Where each node has a folder of its own; without one, nodes forget."""


class StartNode(Struct, tag="start"):
    """Start a node, which subscribes to these topics and joins at these addresses.

    Without topics, one that has a folder reads what it did before.
    """

    node: int
    topics: list[str]
    join: list[str]


class StopNode(Struct, tag="stop"):
    """Let a node leave."""

    node: int


class PublishOn(Struct, tag="publish"):
    """Let a node publish the event of this number."""

    node: int
    topic: str
    number: int


class Follow(Struct, tag="follow"):
    """Let a node read one more topic, with a rest after each event."""

    node: int
    topic: str
    pause_s: float


class PublishMuch(Struct, tag="publish much"):
    """Let a node publish for some seconds: at a rate, or, if that is 0, so many at once all the time."""

    node: int
    topic: str
    seconds: float
    payload_bytes: int
    rate: float
    at_once: int


class Warm(Struct, tag="warm"):
    """A worker is ready to start nodes."""


class Up(Struct, tag="up"):
    """A node is up; ``point`` is its point on the circle, ``topics`` what it brought from before."""

    node: int
    point: int
    address: str
    topics: list[str]


class Ready(Struct, tag="ready"):
    """All subscriptions of a node are ready."""

    node: int


class Following(Struct, tag="following"):
    """What a node was told to follow would reach it now."""

    node: int


class PublishedMuch(Struct, tag="published much"):
    """What became of it, as far as the publisher was told."""

    node: int
    seconds: float
    published: int
    unheard: int
    """Published, and taken by no neighbour."""
    refused: int
    """Not published: the publisher was told to wait."""


class Down(Struct, tag="down"):
    """A node has left."""

    node: int


class Failed(Struct, tag="failed"):
    """Something could not be done."""

    node: int
    why: str


class Report(Struct, tag="report"):
    """What happened in a worker since the last report."""

    deliveries: list[tuple[int, int, int]]
    """(event, node, hops)"""
    neighbours: list[tuple[int, str, int, int]]
    """(node, topic, points of its lower and its higher ring neighbour; −1: none), where they changed."""
    published: int
    """Since the worker began, as are the following."""
    first: int
    again: int
    outside: int
    """Deliveries of events that others than the network's own nodes published."""
    unreported: int
    """Deliveries for which there was no room in a report."""
    refused: dict[str, int]
    """What was refused or dropped, by reason."""
    resident_bytes: int
    cpu_s: float
    latencies_us: list[int] = []
    """What events took over one link, from publication to the application; some of them."""
    followed: list[tuple[int, int, int, int]] = []
    """(node, events read, waiting, dropped) of nodes that were told to follow something."""


class Attack(Struct):
    """A line to the attacker: attack a node, which reads this topic, in one of the ways that it knows.

    ``other`` is the address of another node, whose name can be misused.
    """

    kind: str
    target: str
    other: str
    topic: str


class Attacked(Struct):
    """Its answer: how many times it tried."""

    tried: int


Command = StartNode | StopNode | PublishOn | Follow | PublishMuch
Told = Warm | Up | Ready | Following | PublishedMuch | Down | Failed | Report

LINE_BYTES_MAX = 16 * 1024 * 1024

begin_decoder = msgspec.json.Decoder(Begin)
command_decoder = msgspec.json.Decoder(Command)
told_decoder = msgspec.json.Decoder(Told)
attack_decoder = msgspec.json.Decoder(Attack)
attacked_decoder = msgspec.json.Decoder(Attacked)
_encoder = msgspec.json.Encoder()


def line(message: Begin | Command | Told | Attack | Attacked) -> bytes:
    """A message as a line."""
    return _encoder.encode(message) + b"\n"
