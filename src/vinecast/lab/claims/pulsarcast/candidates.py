"""The systems that PU-5 compares: one more is one more row of ``CANDIDATES``."""

from collections.abc import Callable
from typing import Any

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.machine import NOBODY
from vinecast.protocols.streams import StreamsConfig
from vinecast.sim.engine.wire import FRAME, NUMBER, TOPIC
from vinecast.sim.scenario.costs import PAYLOAD, Candidate, of_system
from vinecast.systems.common.row import Machines
from vinecast.systems.direct.machine import DirectConfig
from vinecast.systems.durable.carriers import over_tree
from vinecast.systems.durable.simulated import DurableConfig, DurableNodes
from vinecast.systems.flooding.machine import FloodingConfig
from vinecast.systems.poldercast.config import PolderCastConfig
from vinecast.systems.poldercast.machine import PolderCast
from vinecast.systems.pulsarcast.machine import PulsarCast, PulsarCastConfig

RECORDS = ("durable.", "streams.")
"""How the kinds of messages begin that carry records and content ids."""
DURABLE = DurableConfig(streams=StreamsConfig(period_s=60.0))
"""Heads are exchanged once a cycle, as all other gossip is."""
NUMBER_BYTES = 8
"""A simulated record's payload: the number of its event."""


def _links(machine: Any) -> list[int]:
    links: list[int] = machine.cyclon.view.tolist()
    return links


def _contacts(machine: PulsarCast) -> list[int]:
    return [peer for peer in machine.peers.tolist() if peer != NOBODY]


def _durable(carrier: Callable[[int, Profiles, int], Any] | None) -> Any:
    """What makes durable machines. carrier: (seed, profiles, node) -> what carries events, or PolderCast"""

    def make(config: Any, seed: int, profiles: Profiles, is_there: Callable[[int], bool]) -> Machines:
        carriers = None if carrier is None else lambda node: carrier(seed, profiles, node)
        return DurableNodes(config, seed, profiles, is_there=is_there, carriers=carriers)

    return make


def _tree(seed: int, profiles: Profiles, node: int) -> Any:
    machine = PulsarCast(PulsarCastConfig(), seed, node, profiles)
    return over_tree(machine, machine.tree)


def weigh_records(message: Any) -> int | None:
    """Bytes of a message that carries records or content ids; None for any other."""
    return FRAME + _weigh(message) if message.kind.startswith(RECORDS) else None


def _weigh(value: Any) -> int:
    if isinstance(value, SignedEvent):
        return len(value.block) - NUMBER_BYTES + PAYLOAD + len(value.signature.to_bytes())
    if isinstance(value, str):  # a topic's name; everywhere else its id stands for it
        return TOPIC
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, tuple):
        return sum(_weigh(part) for part in value)
    if isinstance(value, int):
        return NUMBER
    return sum(_weigh(getattr(value, name)) for name in value.__slots__)


def _kept(machine: Any) -> int:
    """Bytes of a durable node's events, with payloads as large as everywhere."""
    states = [machine.disk.state(topic) for topic in machine.disk.topics()]
    events: int = sum(state.last - state.first + 1 for state in states)
    size: int = machine.disk.size
    return size + events * (PAYLOAD - NUMBER_BYTES)


CANDIDATES = (
    Candidate(
        "direct", of_system("direct"), DirectConfig(), 1, lambda machine: range(machine.profiles.peers)
    ),
    Candidate("flooding", of_system("flooding"), FloodingConfig(), 10, _links),
    Candidate("flooding with relays", of_system("flooding"), FloodingConfig(relays=True), 10, _links),
    Candidate("PolderCast", of_system("poldercast"), PolderCastConfig(), 20, PolderCast.peers_in_use),
    Candidate(
        "PulsarCast's tree", of_system("pulsarcast"), PulsarCastConfig(), 10, _contacts, with_topics=False
    ),
    Candidate(
        "PolderCast, durable", _durable(None), DURABLE, 20,
        lambda machine: machine.carrier.machine.peers_in_use(),
        disk=_kept, weigh=weigh_records, durable=True,
    ),
    Candidate(
        "PulsarCast, durable", _durable(_tree), DURABLE, 10,
        lambda machine: _contacts(machine.carrier.machine), with_topics=False,
        disk=_kept, weigh=weigh_records, durable=True,
    ),
)  # fmt: skip
"""With the cycles that each takes to settle, and whom a node knows."""
