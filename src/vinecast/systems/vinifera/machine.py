"""Vinifera (S2 ch. 4): content filters on a bounded number of links, without a broker.

    Cyclon        a random sample of all nodes
    T-Man         a table of neighbours: ring, long links, friends            (who is linked)
    order ring    which node owns which values of every attribute             (who is asked)
    content table who asked for which filter, on the way to the owners        (who is sent what)
    load balance  nodes move to where the load is                             (who owns how much)

A node asks for its filters along one attribute, its *primary* one, on which most of its neighbours want
similar values: their requests take the same ways and are aggregated. An event goes to the owner of its value
of every attribute, and from each down the ways that requests came, matched at every step.

A filter that says nothing about the primary attribute is asked for along the attribute of which it wants the
least; one that says nothing at all is asked for everywhere.
"""

from collections.abc import Callable
from dataclasses import dataclass

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.topic_overlap import Scratch
from vinecast.core.config import check, limited
from vinecast.core.errors import InputError
from vinecast.core.events import Count, Effect, Event, Received
from vinecast.core.machine import NOBODY
from vinecast.protocols.content_table import ContentRequest, WantedRange
from vinecast.protocols.load_balance import LoadBalance, ShiftAsk, ShiftGrant
from vinecast.protocols.order_ring import predecessor, successor
from vinecast.protocols.small_world import LinkChoice
from vinecast.systems.vinifera.catalogue import CIRCLE, Content, ContentProfiles, ContentShared
from vinecast.systems.vinifera.events import ContentConfig, ContentSystem
from vinecast.systems.vinifera.rules import select_neighbours, select_primary


@dataclass(frozen=True, slots=True)
class ViniferaConfig(ContentConfig):
    """How the table is divided, and when load is balanced."""

    long_links: int = limited(0, at_least=0, at_most=998)
    """Links at random distances (K_sw), besides the two of the ring; the others are friends (S2 §4.6.2: none,
    of ten)."""
    beta: int = limited(4, at_least=0, at_most=1_000_000)
    """How many times as much load a successor must have for a node to move (β; the number is ours); 0: nodes
    never move."""

    def __post_init__(self) -> None:
        check(self)
        ContentConfig.__post_init__(self)
        if self.long_links + 2 > self.tman.table_size:
            raise InputError(
                f"long_links + 2 must be at most tman.table_size ({self.tman.table_size}), not "
                f"{self.long_links + 2}"
            )


class Vinifera(ContentSystem):
    """The machine. ``profiles`` is the table of peers, ``shared`` what they say besides; ``scratch`` is
    working memory that machines may share."""

    def __init__(
        self,
        config: ViniferaConfig,
        seed: int,
        me: int,
        profiles: Profiles,
        scratch: Scratch,
        shared: ContentShared,
    ) -> None:
        self.config = config
        self.primary = 0
        self.balance = LoadBalance(config.beta, CIRCLE, self._wanted_within)
        super().__init__("vinifera", config, seed, me, profiles, scratch, shared)

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        if isinstance(event, Received):
            message = event.message
            if isinstance(message, ShiftAsk):
                return self._let_move(event.sender, message)
            if isinstance(message, ShiftGrant):
                return self._move(event.sender, message)
        return super().handle(event, now_us)

    def _select(self, count: int) -> int:
        choice = LinkChoice(self.me, self.seed, self.config.long_links)
        table, ranges = self.profiles.table, self.shared.ranges
        return select_neighbours(choice, self.primary, count, self._table_size, table, ranges, self._scratch)

    def _wanted(self, number: int) -> WantedRange:
        spans = self.filters.spans(number)
        found = next((span for span in spans if span.attribute == self.primary and span.constrained), None)
        if found is None:
            found = min(spans, key=lambda span: span.high - span.low)
        return WantedRange(found.attribute, number, found.low, found.high)

    def _place(self, content: Content, attribute: int) -> int:
        return content.places[attribute]

    def _refresh(self) -> None:
        self.shared.load[self.me] = self.balance.load

    def _start(self) -> None:
        super()._start()
        self.balance.clear()

    def _build(self) -> list[Effect]:
        """Algorithms 8, 11 and 12."""
        self.primary = select_primary(self.me, self.primary, self.tman.peers, self.shared.ranges)
        return super()._build() + self._balance()

    # Load.

    def _own(self) -> None:
        self.balance.note()

    def _balance(self) -> list[Effect]:
        self.balance.turn()
        after = successor(self.me, *self._near, self.profiles.table)
        if after == NOBODY or self.config.beta == 0:
            return []
        place, load = self.profiles.place, self.shared.load
        return self.balance.consider(int(place[self.me]), after, int(place[after]), int(load[after]))

    def _let_move(self, sender: int, ask: ShiftAsk) -> list[Effect]:
        before = predecessor(self.me, *self._near, self.profiles.table)
        place = self.profiles.place
        below = int(place[before]) if before != NOBODY else 0
        return self.balance.hear_ask(sender, ask, before, below, int(place[self.me]))

    def _move(self, sender: int, grant: ShiftGrant) -> list[Effect]:
        shift = self.balance.hear_grant(sender, grant)
        if shift is None:
            return [Count("load_balance.unasked")]
        self.requests.adopt(sender, ContentRequest(tuple(WantedRange(*wanted) for wanted in shift.wanted)))
        self.profiles.place[self.me] = shift.place
        return [Count("load_balance.moves")]


def vinifera_machines(config: ViniferaConfig, seed: int, profiles: Profiles) -> Callable[[int], Vinifera]:
    """Who makes the machine of each node of a simulated population."""
    known = content_profiles_of(profiles)
    scratch = config.make_scratch(known)
    return lambda node: Vinifera(config, seed, node, known, scratch, known.shared)


def content_profiles_of(profiles: Profiles) -> ContentProfiles:
    """The profiles, which must be of a content system."""
    if not isinstance(profiles, ContentProfiles):
        raise InputError("a content system needs filters, not topics")
    return profiles
