"""Content systems at rest: machines with given links, and messages that arrive in any order.

There is no gossip here: ``turn`` gives everybody its links and lets it ask for what it wants. So trials are
fast, and what is delivered can be held against a central matcher thousands of times.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vinecast.core.content.filters import Filter
from vinecast.core.content.schemas import Event as Values
from vinecast.core.content.schemas import Schema
from vinecast.core.draws import below, purpose, stream
from vinecast.core.events import Deliver, Effect, Event, Publish, Received, Send, TimerFired
from vinecast.core.machine import NOBODY
from vinecast.protocols.content_table import ContentRequest
from vinecast.protocols.load_balance import ShiftAsk, ShiftGrant
from vinecast.protocols.tman import TManConfig
from vinecast.protocols.tman.machine import PROFILE_TIMER
from vinecast.systems.ferry.machine import FerryConfig, ferry_machines
from vinecast.systems.vinifera.catalogue import Catalogue, ContentProfiles
from vinecast.systems.vinifera.events import ContentEvent
from vinecast.systems.vinifera.machine import ViniferaConfig, vinifera_machines

CARRIED = (ContentRequest, ContentEvent, ShiftAsk, ShiftGrant)
TABLE = 6

_LINKS = purpose("tests.content links")
_ORDER = purpose("tests.content order")


def machines_of(system: str, profiles: ContentProfiles, seed: int, **rest: Any) -> list[Any]:
    """A machine a node."""
    make: Callable[[int], Any]
    tman = TManConfig(table_size=TABLE)
    if system == "vinifera":
        make = vinifera_machines(ViniferaConfig(tman=tman, **rest), seed, profiles)
    else:
        make = ferry_machines(FerryConfig(tman=tman, **rest), seed, profiles)
    return [make(node) for node in range(profiles.peers)]


class ContentNet:
    """A population. ``wants[node]``: its filters; order: messages arrive as sent, or in a keyed order."""

    def __init__(
        self,
        system: str,
        schemas: Sequence[Schema],
        wants: Sequence[Sequence[Filter]],
        seed: int,
        shuffles: bool = False,
        **rest: Any,
    ) -> None:
        self.wants = wants
        self.seed = seed
        self.catalogue = Catalogue(schemas, (one for found in wants for one in found))
        own = [[self.catalogue.numbers[one] for one in found] for found in wants]
        self.profiles = ContentProfiles.populate(seed, self.catalogue, own)
        self.machines = machines_of(system, self.profiles, seed, **rest)
        self.delivered: Counter[tuple[int, int]] = Counter()
        """(node, event) -> how often"""
        self.received: Counter[int] = Counter()
        """event -> copies"""
        self.published: dict[int, tuple[int, Values]] = {}
        self._shuffles = shuffles
        self._waiting: list[tuple[int, int, Any]] = []
        self._steps = 0

    @property
    def nodes(self) -> int:
        return len(self.machines)

    def links(self, node: int) -> list[int]:
        """Two neighbours on either side of the ring, and random ones."""
        key = stream(self.seed, _LINKS, 0, node)
        random = [below(key, i, self.nodes) for i in range(TABLE - 4)]
        ring = np.argsort(self.profiles.place, kind="stable").tolist()
        at = ring.index(node)
        near = [ring[(at + 1) % self.nodes], ring[at - 1], ring[(at + 2) % self.nodes], ring[at - 2]]
        return [peer for peer in dict.fromkeys([*near, *random]) if peer != node][:TABLE]

    def link(self, absent: int = NOBODY) -> None:
        """Give everybody its links, but for links to one who is absent."""
        for node, machine in enumerate(self.machines):
            links = [peer for peer in self.links(node) if peer != absent]
            machine.tman.peers[:] = NOBODY
            machine.tman.peers[: len(links)] = links
            machine.tman.missed[:] = 0

    def turn(self, absent: int = NOBODY) -> None:
        """A cycle: everybody has its links, and asks."""
        self.link(absent)
        for node, machine in enumerate(self.machines):
            if hasattr(machine, "balance"):
                self.profiles.shared.load[node] = machine.balance.load
            if node != absent:
                self.handle(node, TimerFired(PROFILE_TIMER))

    def handle(self, node: int, event: Event) -> None:
        self._apply(node, self.machines[node].handle(event, 0))

    def _apply(self, node: int, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, CARRIED):
                self._waiting.append((node, effect.to, effect.message))
            elif isinstance(effect, Deliver):
                self.delivered[node, effect.event] += 1

    def step(self) -> bool:
        """Let one message arrive; False if none is on its way."""
        if not self._waiting:
            return False
        self._steps += 1
        at = below(stream(self.seed, _ORDER, self._steps, 0), 0, len(self._waiting)) if self._shuffles else 0
        sender, to, message = self._waiting.pop(at)
        if isinstance(message, ContentEvent):
            self.received[message.event] += 1
        self.handle(to, Received(sender, message))
        return True

    def run(self) -> None:
        """Let everything arrive."""
        while self.step():
            assert self._steps < 1_000_000, "messages that never come to rest"

    def publish(self, node: int, schema: int, values: Values) -> int:
        event = len(self.published)
        self.published[event] = schema, values
        self.profiles.contents[event] = values
        self.handle(node, Publish(schema, event))
        return event

    def check(self) -> None:
        """Everybody got what a central matcher says it should, once, and nothing else."""
        due = {
            (node, event)
            for event, (schema, values) in self.published.items()
            for node, found in enumerate(self.wants)
            if any(one.schema == self.catalogue.schemas[schema] and one.matches(values) for one in found)
        }
        assert set(self.delivered) == due
        assert set(self.delivered.values()) <= {1}
