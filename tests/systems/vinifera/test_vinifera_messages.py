"""What nodes of Vinifera say to each other: heard as it was said, and whatever else comes is refused."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.content import SCHEMA
from support.node.own_frames import read_own
from support.node.strangers import own
from support.systems.vinifera import CARD, CHEAP, DEAR, LAST, LIAR, Headers, filter_name, loads, places, row
from vinecast.core.arrays.profiles import place_of
from vinecast.core.content.names import PLACES, digest_of
from vinecast.core.content.names import SCHEMA as HEADER
from vinecast.core.errors import RemoteError
from vinecast.core.events import Message
from vinecast.core.log.batch_signature import sign_events
from vinecast.core.log.event_record import EventRecord
from vinecast.core.machine import NOBODY
from vinecast.node.transport.interface import TransportConfig
from vinecast.peer.codecs.codec import Codec
from vinecast.peer.codecs.status_codec import StatusCodec
from vinecast.peer.identity import Identity, verify
from vinecast.peer.table.peer_table import PeerTable
from vinecast.peer.wire.messages import make_card, system_frame
from vinecast.protocols.content_table import WantedRange
from vinecast.protocols.cyclon.machine import CyclonAnswer, CyclonRequest
from vinecast.protocols.load_balance import LOAD_MAX
from vinecast.protocols.tman import TManAnswer, TManEcho, TManProfile, TManRequest
from vinecast.systems.common.router import ME
from vinecast.systems.common.wire import TOPIC_CHARS, CardReference, Entry
from vinecast.systems.vinifera import messages as wire
from vinecast.systems.vinifera.catalogue import ContentShared
from vinecast.systems.vinifera.filter_table import FilterTable
from vinecast.systems.vinifera.router import ContentEncoding
from vinecast.systems.vinifera.words import NO_ROOM, AskedForm, ViniferaWords

NAMES = tuple(sorted(("a", "news", CHEAP, DEAR)))


class Side:
    """One node, as far as its codec is concerned."""

    def __init__(self, number: int, names: Sequence[str] = NAMES, topics: int = 64) -> None:
        self.identity = Identity(hashlib.sha256(b"%d" % number).digest())
        public, sign = self.identity.public, self.identity.sign
        self.peer_table = peer_table = PeerTable(public, sign, verify, "test", 64, topics)
        peer_table.has_filters = True
        self.filters = FilterTable(peer_table.topics, len, lambda then: then())
        for name in ("something else", filter_name(3))[:number]:
            peer_table.topics.take(name)  # the same name has other numbers there
        peer_table.renew("127.0.0.1:9", 1, names)
        self.shared = ContentShared(peer_table.profiles, self.filters, 4)
        self.counters = Counter[str]()
        self.codec = StatusCodec(Codec(peer_table), peer_table, ViniferaWords(peer_table, self.shared))

    def asked(self, room: int = 1024) -> AskedForm:
        """What it reads of requests, and writes of them. room: for parts of ranges"""
        return AskedForm(self.peer_table, self.filters, self.peer_table.topics.take, room, self.counters)

    @property
    def id(self) -> bytes:
        return self.identity.id

    def meets(self, other: "Side") -> int:
        entry = other.peer_table.describe(ME, 0)
        assert entry is not None
        return self.peer_table.meet(entry, other.id)

    def tell(self, other: "Side", message: Message) -> tuple[int, Any]:
        """What another one makes of a message of this one."""
        inner = heard(system_frame(self.codec.pack(other.id, message)))
        assert isinstance(inner, wire.ViniferaExchange | wire.ViniferaProfile)
        return other.codec.read(self.id, inner)


def heard(data: bytes) -> Any:
    return read_own(data, wire.FRAMES, wire.ViniferaExchange, wire.ViniferaProfile)


@given(
    st.sampled_from([CyclonRequest, CyclonAnswer, TManRequest, TManAnswer, TManProfile, TManEcho]),
    st.integers(0, 2**63 - 1),
    st.lists(st.tuples(st.integers(0, 65535), places, loads), max_size=2),
)
@settings(max_examples=40)
def test_gossip_is_heard_as_it_was_said(
    kind: type[Any], cycle: int, told: list[tuple[int, int, int]]
) -> None:
    here, there = Side(0), Side(1)
    here.peer_table.profiles.place[ME], here.shared.load[ME] = 77, 99
    others = [Side(5 + n, NAMES[:n]) for n in range(0 if kind is TManProfile else len(told))]
    numbers = [here.meets(other) for other in others]
    for number, (_, place, load) in zip(numbers, told, strict=False):
        here.peer_table.profiles.place[number], here.shared.load[number] = place, load
    ages = [age for age, _, _ in told][: len(others)]
    message = kind(cycle, np.array([ME, *numbers], np.int32), np.array([0, *ages], np.uint16))
    for _ in range(2):  # the second time, cards are not sent again
        sender, got = here.tell(there, message)
        assert there.peer_table.id_of(sender) == here.id
        assert (type(got), got.cycle) == (kind, cycle)
        assert got.ages.tolist() == [0, *ages]
        met = got.peers.tolist()
        assert [there.peer_table.id_of(peer) for peer in met] == [here.id, *(other.id for other in others)]
        assert (there.peer_table.profiles.place[sender], there.shared.load[sender]) == (77, 99)
        for number, (_, place, load) in zip(met[1:], told, strict=False):
            assert (there.peer_table.profiles.place[number], there.shared.load[number]) == (place, load)


def test_where_a_peer_is_is_believed_from_whoever_heard_last() -> None:
    here, there, third = Side(0), Side(1), Side(2)
    here.meets(there)
    number = here.meets(third)
    own = place_of(int.from_bytes(third.id[:8], "big"))
    for age, place, believed in ((5, 50, 50), (7, 70, 50), (2, 20, 20), (2, 3, 3)):
        here.peer_table.profiles.place[number] = place
        peers, ages = np.array([number], np.int32), np.array([age], np.uint16)
        _, got = here.tell(there, TManRequest(1, peers, ages))
        assert there.peer_table.profiles.place[int(got.peers[0])] == believed
    me = there.peer_table.describe(ME, 0)
    assert me is not None
    mine = int(there.peer_table.profiles.place[ME])
    told = wire.ViniferaPeerStatus(me.card, 0, (mine + 1) % LAST, 5)
    there.codec.read(
        here.id,
        wire.ViniferaExchange(0, 1, wire.ViniferaPeerStatus(CardReference(here.id, 1), 0, 1, 1), (told,)),
    )
    assert there.peer_table.profiles.place[ME] == mine  # nobody tells a node where it is
    assert there.peer_table.profiles.place[there.meets(Side(9))] != own


wanted_rows = st.lists(
    st.tuples(st.sampled_from([*NAMES, "b", filter_name(5)]), st.integers(0, 1), places, places), max_size=30
)


@given(wanted_rows)
def test_requests_are_heard_as_they_were_said(rows: list[tuple[str, int, int, int]]) -> None:
    here, there = Side(0), Side(1)
    wanted = []
    for name, at, low, high in rows:
        number = here.peer_table.topics.take(name)
        assert number is not None
        spans = here.filters.spans(number)
        wanted.append(WantedRange(spans[at % len(spans)].attribute, number, low, high))
    said = [
        (name, here.filters.index_of(one.filter, one.attribute), one.low, one.high)
        for (name, *_), one in zip(rows, wanted, strict=True)
    ]
    got: list[WantedRange] = []
    for asked, things in here.asked().pack(tuple(wanted)):
        assert things == len(asked.names)
        inner = heard(system_frame(wire.FilterRequest(asked)))
        assert isinstance(inner, wire.FilterRequest)
        got += there.asked().read(b"", inner.wanted)
        assert not there.counters[NO_ROOM]
    names = there.peer_table.topics.names
    assert said == [
        (names[one.filter], there.filters.index_of(one.filter, one.attribute), one.low, one.high)
        for one in got
    ]


def test_requests_are_cut_to_fit_into_frames() -> None:
    """Also those for the longest names, in letters of four bytes."""
    count = 2 * wire.NAMES_MAX
    here = Side(0, (), topics=2 * count)
    filters = [here.peer_table.topics.take(filter_name(n)) or 0 for n in range(count)]
    letters = [chr(0x1F300 + n) for n in range(64)]
    longest = [
        here.peer_table.topics.take(letters[n // 64] + letters[n % 64] + letters[0] * (TOPIC_CHARS - 2)) or 0
        for n in range(count)
    ]
    most = TransportConfig().frame_bytes_max
    for numbers, each in ((filters, 5), (longest, 4)):
        wanted = [
            WantedRange(here.filters.spans(number)[0].attribute, number, n, n)
            for number in numbers
            for n in range(each)
        ]
        cut = [asked for asked, _ in here.asked().pack(tuple(wanted))]
        assert sum(len(asked.rows) for asked in cut) == len(wanted) * wire.ROW.size
        for asked in cut:
            data = system_frame(wire.FilterRequest(asked))
            assert len(data) <= most
            assert len(system_frame(wire.Move(LAST, LOAD_MAX, asked))) <= most
            assert isinstance(heard(data), wire.FilterRequest)


@pytest.mark.parametrize(
    ("names", "rows", "fault"),
    [
        (("news",), b"x", "malformed request"),
        (("news",), row() + b"x", "malformed request"),
        (("a//b",), row(), "impossible filter"),
        (("#",), row(), "impossible filter"),
        (("news", f"#{digest_of(SCHEMA)};٣:00000001-00000002"), row(), "impossible filter"),
        (("news", CHEAP + "\n"), row(), "impossible filter"),
        ((), row(), "for nothing"),
        (("news",), row(1), "for nothing"),
        (("news",), row(65535), "for nothing"),
        (("news",), row(0, 1), "does not have"),
        ((CHEAP,), row(0, 0), "does not have"),
        ((CHEAP,), row(0, 2), "does not have"),
        ((CHEAP,), row(0, 255), "does not have"),
        ((DEAR, CHEAP), row(0, 1) + row(0, 4), "does not have"),
    ],
)
def test_requests_that_nobody_makes_are_refused(names: tuple[str, ...], rows: bytes, fault: str) -> None:
    there = Side(1)
    with pytest.raises(RemoteError, match=fault):
        there.asked().read(b"", wire.Asked(names, rows))


def test_names_beyond_the_room_are_left_out() -> None:
    there = Side(1, ())
    names = tuple(filter_name(n) for n in range(100, 110))
    rows = b"".join(row(n, 2, n, n) for n in range(10))
    asked = there.asked(4)
    assert [one.low for one in asked.read(b"", wire.Asked(names, rows))] == [0, 1, 2, 3]
    assert there.counters[NO_ROOM] == 6
    assert asked.read(b"", wire.Asked(names, rows)) == ()
    assert there.counters[NO_ROOM] == 16
    small = Side(1, (), topics=4)
    wanted = small.asked().read(b"", wire.Asked(names, rows))
    assert len(wanted) + small.counters[NO_ROOM] == 10
    assert len(small.peer_table.topics.numbers) <= 4


@pytest.mark.parametrize(
    "value",
    [
        [2, [["news"] * (wire.NAMES_MAX + 1), b""]],
        [2, [["news"], bytes(wire.ROW.size * wire.ROWS_MAX + 1)]],
        [2, [[""], b""]],
        [2, [["x" * 256], b""]],
        [2, [[b"news"], b""]],
        [2, [["news"], "text"]],
        [2, []],
        [2],
        [3, LAST + 1, 0],
        [3, -1, 0],
        [3, 0, LOAD_MAX + 1],
        [3, 0, -1],
        [3, 0.5, 0],
        [4, 0, LOAD_MAX + 1, [[], b""]],
        [4, LAST + 1, 0, [[], b""]],
        [4, 0, 0],
        [0, 4, 1, None, []],
        [0, 0, 1, [[1, bytes(32), 1], 0, LAST + 1, 0], []],
        [0, 0, 1, [[1, bytes(32), 1], 0, 0, LOAD_MAX + 1], []],
        [0, 0, 1, [[1, bytes(32), 1], 65536, 0, 0], []],
        [1, False, 1, [[1, bytes(32), 1], 0, 0, 0], [[[1, bytes(32), 1], 0, 0, 0]] * (wire.MET_MAX + 1)],
        [5],
        [],
        None,
        {"tag": 2},
    ],
)
def test_what_is_out_of_bounds_is_malformed(value: Any) -> None:
    with pytest.raises(RemoteError, match="malformed message"):
        heard(own(value))


def test_nobody_speaks_for_others() -> None:
    here, there = Side(0), Side(1)
    there.meets(here)
    told = wire.ViniferaPeerStatus(CardReference(here.id, 1), 0, 5, 5)
    with pytest.raises(RemoteError, match="another peer"):
        there.codec.read(LIAR.id, wire.ViniferaExchange(0, 1, told, ()))
    unknown = wire.ViniferaPeerStatus(CardReference(LIAR.id, 1), 0, 5, 5)
    with pytest.raises(RemoteError, match="without a card"):
        there.codec.read(LIAR.id, wire.ViniferaProfile(False, 1, unknown, ()))


# Cards with filters.


@pytest.mark.parametrize("bad", ["#", "#x", CHEAP + ";", CHEAP.upper(), CHEAP + "/a", "a/#"])
def test_cards_with_what_is_no_name_are_refused(bad: str) -> None:
    there = Side(1)
    for names in ((bad,), tuple(sorted(("news", CHEAP, bad)))):
        card = make_card(LIAR.sign, "test", LIAR.public, "127.0.0.1:9", 1, names)
        with pytest.raises(RemoteError, match="malformed card"):
            there.peer_table.meet(Entry(card, 0, b"", b""), LIAR.id)
    assert there.peer_table.number_of(LIAR.id) == NOBODY


def test_only_content_systems_have_filters_on_cards() -> None:
    there = Side(1)
    assert there.peer_table.names_of(there.peer_table.meet(Entry(CARD, 0, b"", b""), LIAR.id)) == CARD.topics
    there = Side(1)
    there.peer_table.has_filters = False
    with pytest.raises(RemoteError, match="malformed card"):
        there.peer_table.meet(Entry(CARD, 0, b"", b""), LIAR.id)


# Ways of events.


def sealed_with(headers: Headers) -> Any:
    record = EventRecord("stocks", LIAR.public, 1, 0, b"", headers)
    (signed,) = sign_events("test", [record], LIAR.sign)
    return signed


def test_an_event_goes_by_attributes_that_it_has() -> None:
    ways = ContentEncoding()
    where: Headers = {HEADER: "d", PLACES: bytes(8)}
    for way in range(6):
        message = ways.read(way, 3, sealed_with(where), 9)
        assert (message.topic, message.hops, message.values) == (3, 9, ("d", 0, 0))
        assert (message.attribute, message.up) == divmod(way, 2)
        assert ways.form_of(message) == way
    for way in range(6, ways.count):
        with pytest.raises(RemoteError, match="an attribute that it does not have"):
            ways.read(way, 3, sealed_with(where), 9)
    without: list[Headers] = [{}, {HEADER: "d", PLACES: b"xyz"}, {HEADER: "d", PLACES: b"\xff" * 4}]
    for headers in without:
        assert ways.read(1, 3, sealed_with(headers), 0).values == ("",)
        with pytest.raises(RemoteError, match="an attribute that it does not have"):
            ways.read(2, 3, sealed_with(headers), 0)
