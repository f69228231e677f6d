"""What the parent of a local network and its processes say to each other: lines of JSON over pipes."""

from typing import Any

import msgspec
from msgspec import Struct

from vinecast.sim.measure.reduction import RunFacts


class Begin(Struct, tag="begin"):
    """The first line to a worker: what its nodes have in common. ``config`` is a table of ``NodeConfig``."""

    network: str
    config: dict[str, Any]
    report_s: float
    folder: str | None = None
    """Where each node has a folder of its own; without one, nodes forget."""
    latency_ms: float = 0.0
    """What a message takes over a connection in the median, at the least; see ``lab/localnet/distance``."""
    seed: int = 0
    measured: list[str] = []
    """Topics whose events are measured, by the traces of the nodes; none: nothing is."""


class StartNode(Struct, tag="start"):
    """Start a node, which subscribes to these topics and joins at these addresses.

    Without topics, one that has a folder reads what it did before.
    """

    node: int
    topics: list[str]
    join: list[str]
    streams: list[str] | None = None
    """Instead of the topics: streams that it reads from their beginning, for the parent as consumer."""


class StopNode(Struct, tag="stop"):
    """Tells a process that one of its nodes is to leave."""

    node: int


class PublishOn(Struct, tag="publish"):
    """Let a node publish an event."""

    node: int
    topic: str


class FollowTopic(Struct, tag="follow"):
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


class PublishStream(Struct, tag="publish stream"):
    """Let a node publish these, to be kept."""

    node: int
    topic: str
    payloads: list[bytes]


class AckStream(Struct, tag="ack stream"):
    """The consumer is done with all of a stream up to this offset."""

    node: int
    topic: str
    offset: int


class TellStream(Struct, tag="tell stream"):
    """Which events of a topic does a node keep?"""

    node: int
    topic: str


class EndTraces(Struct, tag="end traces"):
    """Nothing that happens to the nodes of this process from now on is part of the run. Answered with
    ``TracesEnded``, after a last report."""

    node: int


class CutConnections(Struct, tag="cut links"):
    """Break all connections of a node."""

    node: int


class CreateTopic(Struct, tag="create topic"):
    """Let a node describe a new topic of its own, and add it to another of its own if one is named."""

    node: int
    topic: str
    parent: str


class ShowTopic(Struct, tag="show topic"):
    """Let a node look up what an owner's topic is."""

    node: int
    topic: str
    owner: bytes


class TracesEnded(Struct, tag="traces ended"):
    """The traces of a process are over, and told."""

    node: int


class Warm(Struct, tag="warm"):
    """A worker is ready to start nodes."""


class Up(Struct, tag="up"):
    """A node is up; ``point`` is its point on the circle, ``topics`` what it brought from before."""

    node: int
    point: int
    address: str
    topics: list[str]
    key: bytes
    """Its public key."""


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


class Safe(Struct, tag="safe"):
    """An event of a node's own has its receipt. ``held_by``: the points of those who hold it."""

    node: int
    block: bytes
    signature: bytes
    holders: int
    held_by: list[int]


class Unpublished(Struct, tag="unpublished"):
    """A node could not publish something."""

    node: int
    payload: bytes
    why: str


class Handed(Struct, tag="handed"):
    """The consumer of a stream is handed events: offset, block and signature of each."""

    node: int
    topic: str
    events: list[tuple[int, bytes, bytes]]


class Consumed(Struct, tag="consumed"):
    """Its acknowledgement up to this offset is safe."""

    node: int
    topic: str
    offset: int


class Stream(Struct, tag="stream"):
    """The events that a node keeps, in the order that all nodes share."""

    node: int
    topic: str
    cids: list[bytes]


class Shown(Struct, tag="shown"):
    """What a node knows of a topic: its name record."""

    node: int
    record: bytes


class Down(Struct, tag="down"):
    """A node has left."""

    node: int


class Failed(Struct, tag="failed"):
    """Something could not be done."""

    node: int
    why: str


class WorkerReport(Struct, tag="report"):
    """What happened in a worker since the last report."""

    neighbours: list[tuple[int, str, int, int]]
    """(node, topic, points of its lower and its higher ring neighbour; −1: none), where they changed."""
    facts: RunFacts
    """What its nodes' traces told."""
    refused: dict[str, int]
    """What was refused or dropped, by reason, since the worker began."""
    resident_bytes: int
    cpu_s: float
    followed: list[tuple[int, int, int, int]] = []
    """(node, events read, waiting, dropped) of nodes that were told to follow something."""


class Attack(Struct):
    """A line to the attacker: attack a node, which reads this topic, in one of the ways that it knows.

    ``other`` is the address of another node, whose name can be misused; ``record`` a name record, as anybody
    can look it up.
    """

    kind: str
    target: str
    other: str
    topic: str
    record: bytes = b""


class Attacked(Struct):
    """Its answer: how many times it tried."""

    tried: int


StreamCommand = PublishStream | AckStream | TellStream | CutConnections | CreateTopic | ShowTopic
StreamMessage = Safe | Unpublished | Handed | Consumed | Stream | Shown
Command = StartNode | StopNode | PublishOn | FollowTopic | PublishMuch | EndTraces | StreamCommand
NodeMessage = Up | Ready | Following | PublishedMuch | Down | Failed | TracesEnded
WorkerMessage = Warm | NodeMessage | WorkerReport | StreamMessage

LINE_BYTES_MAX = 16 * 1024 * 1024

begin_decoder = msgspec.json.Decoder(Begin)
command_decoder = msgspec.json.Decoder(Command)
worker_message_decoder = msgspec.json.Decoder(WorkerMessage)
attack_decoder = msgspec.json.Decoder(Attack)
attacked_decoder = msgspec.json.Decoder(Attacked)
_encoder = msgspec.json.Encoder()


def line(message: Begin | Command | WorkerMessage | Attack | Attacked) -> bytes:
    """A message as a line."""
    return _encoder.encode(message) + b"\n"
