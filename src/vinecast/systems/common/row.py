"""A system's row: what whoever runs systems needs to know of one, simulated and live. It stands in the
system's own folder, and imports nothing above."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.events import Event
from vinecast.core.machine import Machine
from vinecast.core.sweep import Sweep
from vinecast.protocols.kademlia import Kademlia
from vinecast.systems.common.measures import SweepMeasures
from vinecast.systems.common.router import LiveParts, RouterPorts
from vinecast.systems.common.wire import FrameSpec

Machines = Callable[[int], Machine]
"""node -> its machine"""

REQUESTS_IN_HAND = 4096
"""Questions that a peer may ask at once (ours): after a process slept, all that came meanwhile comes at
once."""


def cyclon_view(machine: Any) -> NDArray[np.int32]:
    """The peers that a machine with a Cyclon knows."""
    peers: NDArray[np.int32] = machine.cyclon.peers
    return peers


@dataclass(frozen=True, slots=True)
class WarmUp:
    """What is compiled before a live node needs it: some machines talk to each other for a few cycles."""

    name: str
    machines: Callable[[], Sequence[Machine]]
    timers: tuple[str, ...]
    """Fired in each cycle, in this order."""
    finish: Callable[[Sequence[Any]], object] = lambda machines: None
    """What else has to be called once."""
    last: Event | None = None
    """What happens to the first of them in the end, if anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSystem:
    """How a live node runs a system."""

    make: Callable[[Any, RouterPorts], LiveParts]
    """(settings of the node, ports) -> the system of one node."""
    first_timer: str
    """With which a cycle begins."""
    last_timer: str
    """After which all layers have had their turn."""
    carries: tuple[type[Any], ...]
    """Its messages that carry an event."""
    messages: tuple[FrameSpec, ...] = ()
    """Its other messages, in the order in which those that wait are sent."""
    gossip: tuple[type[Any], ...] = ()
    """Messages of gossip layers that tell of peers by their cards and rings; all have the same fields."""
    requests_in_hand: int = REQUESTS_IN_HAND
    """Questions that a peer may ask at once."""
    gossips: bool = True
    """Whether everybody's card comes round by gossip; else a new one is told to those with a link."""
    pulls: type[Any] | None = None
    """The message that asks for an event by number: events that came by lately are then kept at hand."""
    many_ways: bool = False
    """Whether an event that came before may come another way, and is then of use."""
    relays: bool = False
    """Whether nodes pass on events of streams that they do not follow."""
    by_content: bool = False
    """Whether it also brings events of streams that the node does not follow, since they match a filter."""
    names_peers: bool = False
    """Whether it numbers peers of whom only the name is known."""
    kademlia: Callable[[Any], Kademlia] | None = None
    """(machine) -> its own Kademlia, with which the replicas of streams are then found."""
    regularity: Callable[[Any], Any] = lambda machine: None
    """(machine) -> when the node is on line (``OwnRegularity``), or None where that does not matter."""
    warm_up: WarmUp | None = None
    """What is compiled beforehand."""


@dataclass(frozen=True, slots=True)
class System:
    """How to build a system and look at its links."""

    config: type[Any]
    """Its configuration dataclass; has ``period_us``, the length of a cycle."""
    machines: Callable[[Any, int, Profiles], Machines]
    """(config, seed, profiles) -> who makes the machine of each node."""
    view_of: Callable[[Any], NDArray[np.int32]] = cyclon_view
    """The peers that a machine knows; empty slots hold NOBODY. [slot]"""
    sweep_of: str = ""
    """"folder.module:class" in ``systems`` of the whole population at once, for systems that have a sweep:
    only who runs one loads it."""
    measures_of: str = ""
    """"folder.module:name" of how the sweep's topics are measured (``SweepMeasures``)."""
    has_topics: bool = True
    """Whether its nodes subscribe to topics and publish on them."""
    has_content: bool = False
    """Whether they subscribe by filters instead, over the profiles of systems/vinifera/catalogue.py."""
    settings: tuple[str, ...] = ("sequential", "synchronous")
    """What its sweep offers, the default first (docs/exchange.md)."""
    live: LiveSystem | None = None
    """How a live node runs it, if one can."""

    @property
    def sweep(self) -> Callable[[Any, int, Profiles], Sweep] | None:
        """(config, seed, profiles) -> the whole population; None for systems without a sweep."""
        made: Callable[[Any, int, Profiles], Sweep] | None = _load(self.sweep_of)
        return made

    @property
    def measures(self) -> SweepMeasures | None:
        """How the sweep's topics are measured; None for systems without a sweep or without topics."""
        found: SweepMeasures | None = _load(self.measures_of)
        return found


def _load(path: str) -> Any:
    """What "folder.module:name" stands for; None for nothing."""
    module, _, name = path.partition(":")
    return getattr(import_module(f"vinecast.systems.{module}"), name) if path else None
