"""The content routing table of one node."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from vinecast.core.events import Count, Effect, Send

ENTRIES_MAX = 1 << 20
"""Requests that a node keeps, at the most, if nothing else is said (ours)."""
PARTS_MAX = 1024
"""Parts of a filter's range that are asked for in a cycle one by one; then all between them is (ours)."""
SHARE = 4
"""Of the room that there is, one peer's requests take one in so many (ours)."""


class WantedRange(NamedTuple):
    """What is asked for: whatever a filter matches, if its place by an attribute lies in a part."""

    attribute: int
    filter: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class ContentRequest:
    """Send me events of these, from now on and for some cycles, and ask for them in turn."""

    kind: ClassVar[str] = "content_table.request"
    wanted: tuple[WantedRange, ...]


class _Entry:
    """What somebody asked for: the part of this cycle, and that of the one before, in case the way of some of
    it has just changed."""

    __slots__ = ("before_high", "before_low", "high", "low", "turn")

    def __init__(self, low: int, high: int, turn: int) -> None:
        self.turn = turn
        self.low = self.before_low = low
        self.high = self.before_high = high

    def repeat(self, low: int, high: int, turn: int) -> None:
        if turn == self.turn:
            self.low, self.high = min(low, self.low), max(high, self.high)
        else:
            self.before_low, self.before_high = self.low, self.high
            self.low, self.high, self.turn = low, high, turn

    def holds(self, place: int) -> bool:
        return self.low <= place <= self.high or self.before_low <= place <= self.before_high


Parts = Callable[[int, int], Iterable[tuple[int, int, int]]]
"""(first, last place) -> whom to ask for which part of what is not one's own: peer, first, last"""


class ContentTable:
    """The table. ``parts`` divides a range among others; ``wider`` says which filters cover one;
    ``is_known`` whether there are such an attribute and filter; ``kept``: for how many cycles a request
    lasts; ``room``: for how many there is room."""

    def __init__(
        self,
        parts: Parts,
        wider: Callable[[int], Collection[int]],
        is_known: Callable[[WantedRange], bool],
        kept: int,
        room: int = ENTRIES_MAX,
    ) -> None:
        self._room = room
        self._parts = parts
        self._wider = wider
        self._is_known = is_known
        self._kept = kept
        self._turn = 0
        self._rows: dict[tuple[int, int], dict[int, _Entry]] = {}
        """(attribute, filter) -> who asked for it"""
        self._asked: dict[tuple[int, int], list[tuple[int, int]]] = {}
        """(attribute, filter) -> the parts that were passed on in this cycle"""
        self._size = 0
        self._uses: Counter[int] = Counter()
        """filter -> how many entries it has"""
        self._held: Counter[int] = Counter()
        """peer -> the same"""

    def __len__(self) -> int:
        return self._size

    def clear(self) -> None:
        """Forget everything."""
        self._rows, self._asked, self._size = {}, {}, 0
        self._uses.clear()
        self._held.clear()

    def asks_for(self, number: int) -> bool:
        """Whether anybody asked for a filter."""
        return number in self._uses

    def peers(self) -> set[int]:
        """Who asked for anything."""
        return set(self._held)

    def turn(self) -> None:
        """A cycle begins: what was not repeated for too long is forgotten."""
        self._turn += 1
        self._asked = {}
        oldest = self._turn - self._kept
        for key in list(self._rows):
            row = self._rows[key]
            self._drop(key, [peer for peer, entry in row.items() if entry.turn <= oldest])

    def forget(self, peer: int) -> None:
        """Drop what a peer asked for that is known to be gone."""
        for key in list(self._rows):
            if peer in self._rows[key]:
                self._drop(key, [peer])

    def _drop(self, key: tuple[int, int], peers: list[int]) -> None:
        row = self._rows[key]
        for peer in peers:
            del row[peer]
            self._held[peer] -= 1
            if not self._held[peer]:
                del self._held[peer]
        self._size -= len(peers)
        self._uses[key[1]] -= len(peers)
        if not self._uses[key[1]]:
            del self._uses[key[1]]
        if not row:
            del self._rows[key]

    def hear(self, sender: int, request: ContentRequest) -> list[Effect]:
        """Somebody asks."""
        known = [wanted for wanted in request.wanted if self._is_known(wanted)]
        effects = self.ask([wanted for wanted in known if self._take(sender, wanted)])
        if refused := len(request.wanted) - len(known):
            effects.append(Count("content_table.refused", refused))
        return effects

    def adopt(self, sender: int, request: ContentRequest) -> None:
        """Write down what somebody asks for, and ask nobody."""
        for wanted in request.wanted:
            if self._is_known(wanted):
                self._take(sender, wanted)

    def _take(self, sender: int, wanted: WantedRange) -> bool:
        """Whether it is written down: it is not if a wider filter of the sender's says as much."""
        attribute, number, low, high = wanted
        for other in self._wider(number):
            entry = self._rows.get((attribute, other), {}).get(sender)
            if entry is not None and entry.turn == self._turn and entry.low <= low and high <= entry.high:
                return False
        entry = self._rows.get((attribute, number), {}).get(sender)
        if entry is not None:
            entry.repeat(low, high, self._turn)
        elif self._size < self._room and self._held[sender] < max(self._room // SHARE, 1):
            self._rows.setdefault((attribute, number), {})[sender] = _Entry(low, high, self._turn)
            self._size += 1
            self._uses[number] += 1
            self._held[sender] += 1
        else:
            return False
        return True

    def ask(self, wanted: Iterable[WantedRange]) -> list[Effect]:
        """Ask others for what is not one's own, unless that has been done in this cycle."""
        asked: dict[int, list[WantedRange]] = {}
        for attribute, number, low, high in wanted:
            if self._has_asked(attribute, number, low, high):
                continue
            parts = self._asked.setdefault((attribute, number), [])
            if len(parts) == PARTS_MAX:
                low, high = min(low, *(part[0] for part in parts)), max(high, *(part[1] for part in parts))
                parts.clear()
            parts.append((low, high))
            for peer, first, last in self._parts(low, high):
                asked.setdefault(peer, []).append(WantedRange(attribute, number, first, last))
        return [Send(peer, ContentRequest(tuple(parts))) for peer, parts in asked.items()]

    def ask_again(self, own: Iterable[WantedRange]) -> list[Effect]:
        """Who was asked is gone: ask for all that oneself or anybody wants once more, of whoever is next."""
        self._asked = {}
        rows = self._rows.items()
        others = [WantedRange(*key, entry.low, entry.high) for key, row in rows for entry in row.values()]
        return self.ask([*own, *others])

    def _has_asked(self, attribute: int, number: int, low: int, high: int) -> bool:
        return any(
            first <= low and high <= last
            for one in (number, *self._wider(number))
            for first, last in self._asked.get((attribute, one), ())
        )

    def askers(self, attribute: int, matching: Collection[int], place: int) -> list[int]:
        """Who asked for an event that these filters match, and that has this place; ascending."""
        found: set[int] = set()
        for number in matching:
            row = self._rows.get((attribute, number))
            if row is not None:
                found.update(peer for peer, entry in row.items() if entry.holds(place))
        return sorted(found)

    def within(self, low: int, high: int) -> Iterator[WantedRange]:
        """All that anybody asked for in a part of the circle, cut to it; a filter and part once."""
        found: dict[WantedRange, None] = {}
        for (attribute, number), row in self._rows.items():
            for entry in row.values():
                first, last = min(entry.low, entry.before_low), max(entry.high, entry.before_high)
                if first <= high and low <= last:
                    found[WantedRange(attribute, number, max(first, low), min(last, high))] = None
        return iter(found)
