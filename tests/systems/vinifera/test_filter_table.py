"""The filters that a live node knows, by number: what is found is what a look at each would find."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vinecast.core.arrays.profiles import PLACE_BITS
from vinecast.core.content.filters_index import INDEXED_FROM, WhenCompiled
from vinecast.core.content.names import Box, is_filter, read_name
from vinecast.core.content.schemas import ATTRIBUTES_MAX
from vinecast.core.draws import below, stream
from vinecast.peer.table.topic_numbers import TopicNumbers
from vinecast.systems.vinifera import filter_table as requests
from vinecast.systems.vinifera.catalogue import Span
from vinecast.systems.vinifera.filter_table import AT_HAND, TOPIC, UNKNOWN, WIDER_MAX, FilterTable

LAST = (1 << PLACE_BITS) - 1
DIGESTS = "0" * 32, "1" * 32
TOPICS = ["stocks", "news", "weather"]


def place_of(topic: str) -> int:
    return 1000 + len(topic)


def name(digest: str, bounds: dict[int, tuple[int, int]]) -> str:
    return f"#{digest}" + "".join(f";{at}:{low:08x}-{high:08x}" for at, (low, high) in sorted(bounds.items()))


def box_of(filter_name: str) -> Box:
    box = read_name(filter_name)
    assert box is not None
    return box


def holds(box: Box, digest: str, places: Sequence[int]) -> bool:
    """Whether an event lies in a box."""
    return box.digest == digest and all(
        at < len(places) and low <= places[at] <= high for at, low, high in box.bounds
    )


def covers(wide: Box, narrow: Box) -> bool:
    """Whether all that lies in one box lies in the other."""
    own = {bound.attribute: bound for bound in narrow.bounds}
    return wide.digest == narrow.digest and all(
        at in own and low <= own[at].low and own[at].high <= high for at, low, high in wide.bounds
    )


def at_once(then: Callable[[], None]) -> None:
    then()


@dataclass
class Book:
    """Names that come and go, their numbers, and the filters that are told of them."""

    room: int = 64
    uses: dict[str, int] = field(default_factory=dict)
    most: int = 0
    """Attributes that were constrained at once, at the most."""
    when_compiled: WhenCompiled = at_once

    def __post_init__(self) -> None:
        self.topics = TopicNumbers(self.room)
        self.filters = FilterTable(self.topics, place_of, self.when_compiled)

    def take(self, one: str) -> int | None:
        number = self.topics.take(one)
        if number is not None:
            self.uses[one] = self.uses.get(one, 0) + 1
        pairs = {(box.digest, bound.attribute) for box in self.boxes().values() for bound in box.bounds}
        self.most = max(self.most, len(pairs))
        return number

    def leave(self, one: str) -> None:
        self.topics.leave(self.topics.numbers[one])
        self.uses[one] -= 1
        if not self.uses[one]:
            del self.uses[one]

    def boxes(self) -> dict[int, Box]:
        """By number."""
        return {self.topics.numbers[one]: box_of(one) for one in self.uses if is_filter(one)}

    def check(self) -> None:
        """All that is known of filters is what their names say."""
        boxes, attributes = self.boxes(), dict[tuple[str, int], int]()
        for number, box in boxes.items():
            spans = self.filters.spans(number)
            assert [(span.low, span.high) for span in spans] == [bound[1:] for bound in box.bounds]
            assert all(span.constrained for span in spans)
            for span, bound in zip(spans, box.bounds, strict=True):
                known = attributes.setdefault((box.digest, bound.attribute), span.attribute)
                assert known == span.attribute
                assert self.filters.index_of(number, span.attribute) == 1 + bound.attribute
                assert self.filters.attribute_of(number, 1 + bound.attribute) == span.attribute
            named = {1 + bound.attribute for bound in box.bounds}
            for index in set(range(ATTRIBUTES_MAX + 2)) - named:
                assert self.filters.attribute_of(number, index) == UNKNOWN
            wider = {other for other, found in boxes.items() if other != number and covers(found, box)}
            found = self.filters.wider(number)
            assert len(set(found)) == len(found) == min(len(wider), WIDER_MAX)
            assert set(found) <= wider
        assert len(set(attributes.values())) == len(attributes), "two attributes with one number"
        assert all(TOPIC < number <= self.most for number in attributes.values()), "numbers are used again"
        for one in self.uses:
            if not is_filter(one):
                number = self.topics.numbers[one]
                place = place_of(one)
                assert self.filters.spans(number) == (Span(TOPIC, place, place, True),)
                assert self.filters.wider(number) == ()
                assert self.filters.index_of(number, TOPIC) == TOPIC
                assert self.filters.attribute_of(number, TOPIC) == TOPIC
                assert self.filters.attribute_of(number, 1) == UNKNOWN
        free = set(range(-1, self.room)) - {self.topics.numbers[one] for one in self.uses}
        assert all(self.filters.spans(number) == () for number in free)
        assert all(self.filters.wider(number) == () for number in free)

    def check_event(self, topic: int, digest: str, places: tuple[int, ...]) -> None:
        """Which filters an event lies in."""
        content = self.filters.content(topic, (digest, *places))
        assert content is not None
        boxes = self.boxes()
        assert content.matching == {topic} | {n for n, box in boxes.items() if holds(box, digest, places)}
        topic_name = self.topics.names[topic]
        assert topic_name is not None
        assert content.places == (place_of(topic_name), *places)
        constrained = {
            bound.attribute: span.attribute
            for number, box in boxes.items()
            for bound, span in zip(box.bounds, self.filters.spans(number), strict=True)
            if box.digest == digest
        }
        expected = [TOPIC, *(constrained.get(at, UNKNOWN) for at in range(len(places)))]
        assert list(content.attributes) == expected


small = st.integers(0, 6)
bounds = st.dictionaries(
    st.sampled_from([0, 1, 2, 5, ATTRIBUTES_MAX - 1]),
    st.tuples(small, small).map(lambda ends: (min(ends), max(ends))),
    min_size=1,
    max_size=3,
)
names = st.one_of(st.sampled_from(TOPICS), st.builds(name, st.sampled_from(DIGESTS), bounds))
places = st.one_of(st.lists(small, min_size=1, max_size=6), st.just([3] * ATTRIBUTES_MAX)).map(tuple)
steps = st.tuples(st.integers(0, 2), st.integers(0, 2**16), st.sampled_from(DIGESTS), places)


@pytest.mark.parametrize("indexed_from", [1, 3, 10_000], ids=["index", "later", "scan"])
def test_what_is_found_is_what_names_say(indexed_from: int) -> None:
    @settings(max_examples=100)
    @given(st.lists(names, min_size=1, max_size=12), st.lists(steps, max_size=40))
    def check(pool: list[str], story: list[tuple[int, int, str, tuple[int, ...]]]) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(requests, "INDEXED_FROM", indexed_from)
            peer_table = Book()
            topic = peer_table.take("topic")
            assert topic is not None
            for step, at, digest, where in story:
                if step and peer_table.uses.get(one := pool[at % len(pool)]):
                    peer_table.leave(one)
                else:
                    peer_table.take(pool[at % len(pool)])
                peer_table.check()
                peer_table.check_event(topic, digest, where)
                peer_table.check_event(topic, digest, where)  # the second time, it is at hand

    check()


def random_names(seed: int, count: int, attributes: int) -> list[str]:
    """Different filters of one schema."""
    key, found = stream(seed, 0, 0, 0), dict[str, None]()
    draws = iter(range(100 * count))
    while len(found) < count:
        of = {
            at: (low, low + below(key, next(draws), LAST - low))
            for at in range(attributes)
            for low in [below(key, next(draws), LAST)]
            if below(key, next(draws), 4)
        }
        if of:
            found[name(DIGESTS[0], of)] = None
    return list(found)


def drawn_places(seed: int, count: int, attributes: int) -> list[tuple[int, ...]]:
    key = stream(seed, 1, 0, 0)
    return [tuple(below(key, n * attributes + at, LAST) for at in range(attributes)) for n in range(count)]


def test_many_filters_are_found_by_an_index() -> None:
    """With some that leave, and an attribute that nobody constrained before."""
    peer_table = Book(room=1024)
    topic = peer_table.take("stocks")
    assert topic is not None
    known = random_names(1, 3 * INDEXED_FROM, 3)
    for one in known:
        peer_table.take(one)
    family = peer_table.filters._families[DIGESTS[0]]
    assert family._index is not None
    for where in drawn_places(1, 20, 3):
        peer_table.check_event(topic, DIGESTS[0], where)
    for one in known[::2]:
        peer_table.leave(one)
    for one in random_names(2, INDEXED_FROM, 6):
        peer_table.take(one)
    peer_table.check()
    assert len(family._index) == len(family.boxes)
    for length in (1, 3, 5, 6, 9, ATTRIBUTES_MAX):
        for where in drawn_places(length, 5, length):
            peer_table.check_event(topic, DIGESTS[0], where)
            peer_table.check_event(topic, DIGESTS[1], where)


@pytest.mark.parametrize("leaves", [0, INDEXED_FROM // 2, INDEXED_FROM - 1, INDEXED_FROM])
def test_an_index_that_comes_later_finds_those_who_are_there_then(leaves: int) -> None:
    waiting: list[Callable[[], None]] = []
    peer_table = Book(room=1024, when_compiled=waiting.append)
    topic = peer_table.take("stocks")
    assert topic is not None
    known = random_names(3, 2 * INDEXED_FROM, 3)
    for one in known[:INDEXED_FROM]:
        peer_table.take(one)
    for one in known[:leaves]:
        peer_table.leave(one)
    for then in waiting:
        then()
    assert len(waiting) == 1
    for one in known[INDEXED_FROM:]:
        peer_table.take(one)
    for where in drawn_places(4, 20, 3):
        peer_table.check_event(topic, DIGESTS[0], where)


def test_who_is_no_topic_has_no_events() -> None:
    peer_table = Book()
    topic, filter_ = peer_table.take("stocks"), peer_table.take(name(DIGESTS[0], {0: (1, 2)}))
    assert topic is not None
    assert filter_ is not None
    assert peer_table.filters.content(filter_, (DIGESTS[0], 1)) is None
    for number in (-1, 2, 10**9):
        assert peer_table.filters.content(number, (DIGESTS[0], 1)) is None
    peer_table.check_event(topic, "", ())
    peer_table.leave("stocks")
    assert peer_table.filters.content(topic, (DIGESTS[0], 1)) is None


def test_nothing_is_left_of_those_who_left() -> None:
    peer_table = Book(room=256)
    filters = peer_table.filters
    topic = peer_table.take("stocks")
    assert topic is not None
    for turn in range(3):
        known = [*random_names(turn, 100, 4), "news"]
        numbers = [peer_table.take(one) for one in known]
        assert None not in numbers
        for where in drawn_places(turn, AT_HAND + 10, 4):
            filters.content(topic, (DIGESTS[0], *where))
        assert len(filters._at_hand) == AT_HAND
        peer_table.check()
        for one in known:
            peer_table.leave(one)
        assert not filters._families
        assert not filters._digests
        assert not filters._attributes
        assert not filters._at_hand
        assert list(filters._spans) == [topic]
        assert sorted(filters._free) == [1, 2, 3, 4, 5]


def test_there_is_room_for_so_many() -> None:
    peer_table = Book(room=8)
    known = random_names(5, 12, 2)
    numbers = [peer_table.take(one) for one in known]
    assert numbers == [*range(8), None, None, None, None]
    peer_table.check()
    peer_table.leave(known[3])
    assert peer_table.take(known[11]) == 3
    peer_table.check()
    assert peer_table.topics.take(known[10], mine=False) is None


def test_of_many_wider_ones_some_are_found() -> None:
    peer_table = Book(room=256)
    for n in range(60):
        peer_table.take(name(DIGESTS[0], {0: (100 - n, 100 + n), 7: (5, 6 + n)}))
    for n in range(0, 60, 3):
        peer_table.leave(name(DIGESTS[0], {0: (100 - n, 100 + n), 7: (5, 6 + n)}))
    peer_table.check()


def test_of_too_many_nobody_looks_for_wider_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "COVERED_MAX", 3)
    peer_table = Book()
    known = [name(DIGESTS[0], {0: (0, high)}) for high in range(1, 5)]
    numbers = [peer_table.topics.take(one) for one in known[:3]]
    assert numbers == [0, 1, 2]
    assert set(peer_table.filters.wider(0)) == {1, 2}
    peer_table.topics.take(known[3])
    assert peer_table.filters.wider(0) == ()
    peer_table.topics.leave(2)
    assert set(peer_table.filters.wider(0)) == {1, 3}
