"""What nodes of Vinifera say to each other: heard as it was said, and whatever else comes is refused."""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.content import SCHEMA, parse_filter
from support.live import live, until, village
from support.own_frames import read_own
from support.strangers import own, shapes_of
from vinecast.core.arrays.profiles import PLACE_BITS, place_of
from vinecast.core.content.names import PLACES, digest_of, name_of, write_places
from vinecast.core.content.names import SCHEMA as HEADER
from vinecast.core.errors import RemoteError
from vinecast.core.events import Message
from vinecast.core.log.batch_signature import sign_events
from vinecast.core.log.event_record import EventRecord
from vinecast.core.machine import NOBODY
from vinecast.lab.localnet.attacker import Attacker
from vinecast.node.api.node import Node
from vinecast.node.api.subscription import Subscription
from vinecast.node.runtime.config import NodeConfig
from vinecast.node.storage.identity_file import make_identity
from vinecast.node.transport.interface import TransportConfig
from vinecast.peer.codecs.codec import Codec
from vinecast.peer.codecs.status_codec import StatusCodec
from vinecast.peer.identity import Identity, verify
from vinecast.peer.limits.misbehaviour import FAULTS_A_CYCLE, TOLD_CYCLES, TOO_MUCH_GOSSIP
from vinecast.peer.streams.messages import CarriedEvents, encode_stream
from vinecast.peer.table.peer_table import PeerTable
from vinecast.peer.wire.handshake import MISBEHAVED
from vinecast.peer.wire.messages import EventFrame, encode, make_card, system_frame
from vinecast.protocols.content_table import WantedRange
from vinecast.protocols.cyclon.machine import CyclonAnswer, CyclonRequest
from vinecast.protocols.load_balance import LOAD_MAX
from vinecast.protocols.tman import TManAnswer, TManEcho, TManProfile, TManRequest
from vinecast.systems.common.router import ME
from vinecast.systems.common.wire import HOPS_MAX, TOPIC_CHARS, CardReference, Entry
from vinecast.systems.vinifera import messages as wire
from vinecast.systems.vinifera.catalogue import ContentShared
from vinecast.systems.vinifera.filter_table import FilterTable
from vinecast.systems.vinifera.router import ContentEncoding
from vinecast.systems.vinifera.settings import ViniferaSettings
from vinecast.systems.vinifera.words import NO_ROOM, AskedForm, ViniferaWords

VINIFERA = NodeConfig(
    period_s=0.1, system="vinifera", topics=64, peers=64, vinifera=ViniferaSettings(requests=128)
)
LAST = (1 << PLACE_BITS) - 1
LIAR = make_identity()
CHEAP = name_of(parse_filter(SCHEMA, 'price < 10 and order = "buy"'))
DEAR = name_of(parse_filter(SCHEMA, "price > 900"))
CARD = make_card(LIAR.sign, "test", LIAR.public, "127.0.0.1:9", 1, (CHEAP, "news"))
NAMES = tuple(sorted(("a", "news", CHEAP, DEAR)))


def filter_name(at: int) -> str:
    """One of many filters."""
    return f"#{digest_of(SCHEMA)};1:{at:08x}-{at:08x}"


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


places = st.integers(0, LAST)
loads = st.integers(0, LOAD_MAX)


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


def row(name: int = 0, index: int = 0, low: int = 0, high: int = 9) -> bytes:
    return wire.ROW.pack(name, index, low, high)


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


Headers = dict[str, str | bytes]


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


# A node among liars.

names = st.sampled_from(
    ["news", "talk", CHEAP, DEAR, filter_name(9), "x" * 255, "x" * 256, "#", "", "a//b", "\U0001f347" * 64]
)
lists = st.lists(names, max_size=4).map(tuple) | names.map(lambda name: (name,) * (wire.NAMES_MAX + 1))
tolds = st.builds(
    wire.ViniferaPeerStatus,
    st.sampled_from([CARD, CardReference(LIAR.id, 1), CardReference(bytes(32), 9)]),
    st.integers(0, 65535),
    places,
    loads,
)
peers = st.lists(tolds, max_size=4).map(tuple)
words = st.integers(0, 2**32 - 1) | st.integers(0, 9)
rows = st.lists(
    st.builds(wire.ROW.pack, st.integers(0, 4), st.integers(0, 6), words, words), max_size=8
).map(b"".join) | st.binary(max_size=24)  # fmt: skip
asked = st.builds(wire.Asked, lists, rows)
counts = st.integers(0, 2**63 - 1)
frames = st.one_of(
    st.builds(wire.ViniferaExchange, st.integers(0, 3), counts, tolds, peers),
    st.builds(wire.ViniferaProfile, st.booleans(), counts, tolds, peers),
    st.builds(wire.FilterRequest, asked),
    st.builds(wire.MayMove, places, loads),
    st.builds(wire.Move, places, loads, asked),
)
headers = st.dictionaries(
    st.sampled_from([HEADER, PLACES]),
    st.sampled_from([digest_of(SCHEMA), "x"]) | st.binary(max_size=20) | st.just(bytes(16)),
)


@st.composite
def event_frames(draw: st.DrawFn) -> bytes:
    sequence, topic = draw(st.integers(1, 2**40)), draw(st.sampled_from(["news", "stocks", "x" * 255]))
    record = EventRecord(topic, LIAR.public, sequence, 0, b"{}", draw(headers))
    (signed,) = sign_events("test", [record], LIAR.sign)
    encoded = signed.block, signed.signature.to_bytes()
    hops, way = draw(st.sampled_from([0, 1, HOPS_MAX])), draw(st.integers(0, 127))
    return encode(EventFrame(hops, (encoded,) * draw(st.integers(1, 2)), way))


shapes = shapes_of(names)


def check_books(node: Node, config: NodeConfig = VINIFERA) -> None:
    """Nothing that a stranger can make grow is larger than it may be, and books agree."""
    driver = node._driver
    system: Any = driver.system
    machine, topics = driver.machine, driver.peer_table.topics
    assert len(topics.numbers) <= config.topics
    assert len(machine.requests) <= config.vinifera.requests
    assert len(driver.counters) <= 80
    for number in system._relayed._held:
        assert topics.names[number] is not None
    filters = system.router._shared.filters
    assert set(filters._spans) == set(topics.numbers.values())
    assert machine.peers_in_use() <= set(driver.peer_table.known())
    for attribute, number in machine.requests._rows:
        assert any(span.attribute == attribute for span in filters.spans(number))
    place = driver.peer_table.profiles.place
    assert ((place >= 0) & (place <= LAST)).all()
    load = system.router._shared.load
    assert ((load >= 0) & (load <= LOAD_MAX)).all()
    assert not system.router._shared.contents


@pytest.mark.parametrize("shape", ["absurd", "any", "cut", "events"])
def test_a_node_takes_whatever_comes_and_goes_on(shape: str) -> None:
    whole = system_frame(wire.Move(5, 5, wire.Asked((CHEAP, "news"), row(0, 1) + row(1))))
    tried = {
        "absurd": frames.map(system_frame),
        "any": (st.tuples(st.integers(-1, 9), names) | shapes).map(own),
        "cut": st.integers(0, len(whole)).map(lambda at: whole[:at]),
        "events": event_frames(),
    }

    async def main() -> None:
        async with village(2, config=VINIFERA) as found:
            one, other = found.nodes
            reader = await one.subscribe(SCHEMA, filter='price < 10 and order = "buy"').ready()
            one._driver.peer_table.meet(Entry(CARD, 0, b"", b""), LIAR.id)

            @settings(max_examples=150, suppress_health_check=list(HealthCheck))
            @given(tried[shape])
            def swallow(data: bytes) -> None:
                one._driver._misbehaviour.begin_cycle(0)
                one._driver.on_frame(LIAR.id, data)
                for timer in ("cyclon", "tman", "tman.profile"):
                    one._driver.cycles.ring(timer)
                check_books(one)

            swallow()
            await still_there(other, one, reader)

    live(main())


VALUES = {"price": 5.0, "order": "buy", "count": 1, "at": "2026-05-01T12:00:00Z"}


async def still_there(publisher: Node, cursor: Node, reader: Subscription) -> None:
    """Events that match still come; it may take some cycles until the ring is what it was."""
    while not reader.waiting:
        await publisher.publish(SCHEMA, VALUES, durable=False)
        await cursor._driver.next_cycle()
    while reader.waiting:
        assert (await anext(reader)).values == VALUES


def by_liar(
    sequence: int,
    price: float = 5,
    durable: bool = False,
    way: int = 0,
    at: float | None = None,
    said: Headers | None = None,
    parents: tuple[bytes, ...] = (),
) -> bytes:
    """A frame with a liar's event; at: where it says it is, if not where its price is; said: its headers, if
    others than an honest publisher's; with parents, its height is wrong."""
    event = SCHEMA.event({**VALUES, "price": price})
    where = write_places(SCHEMA, event if at is None else SCHEMA.event({**VALUES, "price": at}))
    headers: Headers = {HEADER: digest_of(SCHEMA), PLACES: where} if said is None else said
    payload = msgspec.json.encode({**VALUES, "price": price})
    height = durable * (5 if parents else 1)
    record = EventRecord("stocks", LIAR.public, sequence, 0, payload, headers, parents, height)
    (signed,) = sign_events("test", [record], LIAR.sign)
    events = ((signed.block, signed.signature.to_bytes()),)
    return (
        encode_stream(CarriedEvents(1, False, events, way)) if durable else encode(EventFrame(1, events, way))
    )


def prices(reader: Subscription) -> list[float]:
    """Of the events that wait."""
    return [float(event.values["price"]) for event in reader._events]


BUYS = 'price < 10 and order = "buy"'


async def lied_to(lie: Callable[[Node, Subscription], Any], config: NodeConfig = VINIFERA) -> None:
    """Two nodes, one of which wants something and knows a liar, and what the liar says to it."""
    async with village(2, config=config) as found:
        one, other = found.nodes
        reader = await one.subscribe(SCHEMA, filter=BUYS).ready()
        one._driver.peer_table.meet(Entry(CARD, 0, b"", b""), LIAR.id)
        await lie(one, reader)
        check_books(one, config)
        while reader.waiting:
            await anext(reader)
        await still_there(other, one, reader)


# What liars say of events.


def test_events_that_lie_about_where_they_are_go_to_nobody_who_does_not_want_them() -> None:
    async def lie(one: Node, reader: Subscription) -> None:
        for sequence, (price, at) in enumerate([(5, None), (500, 5), (500, None), (5, 500), (6, None)], 1):
            one._driver.on_frame(LIAR.id, by_liar(sequence, price, way=2, at=at))
        assert prices(reader) == [5, 6]
        assert not blamed(one)

    live(lied_to(lie))


def test_events_without_a_place_are_the_topics_only() -> None:
    async def lie(one: Node, reader: Subscription) -> None:
        counters, plain = one._driver.counters, await one.subscribe("stocks").ready()
        odd: list[Headers] = [
            {HEADER: digest_of(SCHEMA)},
            {HEADER: digest_of(SCHEMA), PLACES: b"xyz"},
            {HEADER: digest_of(SCHEMA), PLACES: b"\xff" * 16},
            {HEADER: digest_of(SCHEMA), PLACES: "text"},
            {HEADER: b"bytes", PLACES: bytes(16)},
            {PLACES: bytes(16)},
        ]
        for sequence, said in enumerate(odd, 1):
            one._driver.on_frame(LIAR.id, by_liar(sequence, said=said))
        assert len(prices(plain)) == len(odd)
        assert not blamed(one)
        for sequence, said in enumerate(odd, 10):
            one._driver.on_frame(LIAR.id, by_liar(sequence, way=2, said=said))
        assert counters["refused: event routed by an attribute that it does not have"] == len(odd)
        one._driver.on_frame(LIAR.id, by_liar(20, way=10))
        one._driver.on_frame(LIAR.id, by_liar(21, way=ContentEncoding.count))
        assert counters["refused: events in a message of another system"] == 1
        assert blamed(one) == {LIAR.id: len(odd) + 2}
        assert prices(plain) == [5] * len(odd)
        # Only the first four say that they are of the schema, and nobody brought them for that: they came
        # with the topic, and whoever wants some of it looks at what they are.
        assert prices(reader) == [5] * 4
        await plain.close()

    live(lied_to(lie))


@pytest.mark.parametrize("durable", [False, True], ids=["volatile", "durable"])
def test_old_events_are_not_news(durable: bool) -> None:
    async def lie(one: Node, reader: Subscription) -> None:
        old, number = by_liar(1, 1, durable, way=2), 1
        one._driver.on_frame(LIAR.id, old)
        assert prices(reader) == [1]
        (first,) = reader._events
        while one._driver.machine.has_seen(first._signed.number):
            await one._driver.next_cycle()
            for _ in range(8):
                number += 1
                one._driver.on_frame(LIAR.id, by_liar(number, 500, durable, way=2))
        while not one._driver.counters["refused: event replayed"]:  # until there is room to remember it
            for _ in range(3):
                one._driver.on_frame(LIAR.id, old)
            assert prices(reader) == [1]
            assert not blamed(one)
            await one._driver.next_cycle()

    live(lied_to(lie, replace(VINIFERA, remembered=32, remember_s=0.1)))


def blamed(node: Node) -> dict[bytes, int]:
    """Whom a node blames in this cycle, and how often."""
    return dict(node._driver._misbehaviour._faults)


def test_nobody_is_to_blame_when_there_are_too_many_topics() -> None:
    async def lie(one: Node, reader: Subscription) -> None:
        topics = one._driver.peer_table.topics
        taken = [topics.take(f"invented/{n}", mine=False) for n in range(VINIFERA.topics)]
        assert None in taken
        for sequence in range(1, 2 * TOLD_CYCLES):
            one._driver._misbehaviour.begin_cycle(0)
            one._driver.on_frame(LIAR.id, by_liar(sequence))
            one._driver.on_frame(LIAR.id, by_liar(sequence + 100, durable=True))
            assert not blamed(one)
        for number in taken:
            if number is not None:
                topics.leave(number)

    live(lied_to(lie))


def test_who_passes_on_what_it_cannot_judge_is_not_to_blame(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most nodes on an event's ways do not follow its stream, and do not know which height it should have."""

    async def main() -> None:
        async with village(3, config=VINIFERA) as found:
            relay, *readers = found.nodes
            for node in readers:
                await node.subscribe("stocks").ready()
            relay._driver.peer_table.meet(Entry(CARD, 0, b"", b""), LIAR.id)
            relay._driver.on_frame(LIAR.id, by_liar(1, durable=True, way=1))
            await until(lambda: all(node.log("stocks") for node in readers), "the stream has begun")
            faults: list[bytes] = []
            for node in readers:
                monkeypatch.setattr(node._driver, "blame", faults.append)
            parents = (readers[0].log("stocks")[0]._signed.cid,)
            for sequence in range(2, FAULTS_A_CYCLE):
                relay._driver.on_frame(LIAR.id, by_liar(sequence, durable=True, way=1, parents=parents))
            wrong = "streams.refused wrong height"
            await until(lambda: any(node._driver.counters[wrong] for node in readers), "they are refused")
            await relay._driver.next_cycle()
            assert not faults

    live(main())


# What liars say of places.


def test_moves_that_nobody_asked_for_are_not_made() -> None:
    async def lie(one: Node, reader: Subscription) -> None:
        counters, place = one._driver.counters, one._driver.peer_table.profiles.place
        before = int(place[ME])
        for n in range(5):
            where = (before + 1000 + n) % LAST
            asked = wire.Asked((filter_name(n),), row(0, 2))
            one._driver.on_frame(LIAR.id, system_frame(wire.Move(where, 5, asked)))
            one._driver.on_frame(LIAR.id, system_frame(wire.MayMove(where, LOAD_MAX)))
        assert counters["load_balance.unasked"] == counters["load_balance.refused"] == 5
        assert place[ME] == before
        assert len(one._driver.machine.requests) <= 2
        assert not any(filter_name(n) in one._driver.peer_table.topics.numbers for n in range(5))
        assert not blamed(one)  # an honest answer may be late

    live(lied_to(lie, replace(VINIFERA, vinifera=replace(VINIFERA.vinifera, beta=0))))


def test_a_part_of_no_range_is_counted_and_nothing_else() -> None:
    async def lie(one: Node, reader: Subscription) -> None:
        had = len(one._driver.machine.requests)
        bad = [(9, 3), (LAST + 1, LAST + 1), (0, 2**32 - 1), (2**32 - 1, 0)]
        rows = b"".join(row(0, 1, *ends) for ends in bad)
        one._driver.on_frame(LIAR.id, system_frame(wire.FilterRequest(wire.Asked((CHEAP,), rows))))
        assert one._driver.counters["content_table.refused"] == len(bad)
        assert len(one._driver.machine.requests) == had

    live(lied_to(lie))


# Strangers over real sockets.


async def attacked(attack: Callable[[Node, Attacker], Any], config: NodeConfig = VINIFERA) -> None:
    """A network over real sockets, a stranger in it, and what the stranger does."""
    async with village(2, sockets=True, config=config) as found:
        victim, other = found.nodes
        reader = await victim.subscribe(SCHEMA, filter=BUYS).ready()
        stranger = await Attacker("test").connect(victim.address)
        await stranger.shake_hands(system="vinifera")
        await stranger.send(stranger.introduction())
        await until(lambda: stranger.identity.id in victim._driver.transport.connections(), "a link to it")
        await attack(victim, stranger)
        check_books(victim, config)
        assert other.id in victim._driver.transport.connections()
        await still_there(other, victim, reader)
        await stranger.leave()


def test_who_asks_without_end_takes_no_room_from_others() -> None:
    async def attack(victim: Node, stranger: Attacker) -> None:
        driver, config = victim._driver, VINIFERA
        topics, requests, counters = driver.peer_table.topics, driver.machine.requests, driver.counters
        for begin in range(0, 8 * config.topics, 64):
            asked = wire.Asked(
                tuple(filter_name(n) for n in range(begin, begin + 64)),
                b"".join(row(n, 2, n, n) for n in range(64)),
            )
            await stranger.send(system_frame(wire.FilterRequest(asked)))
        await stranger.answered()
        assert counters[NO_ROOM] > 0
        assert len(requests) <= config.vinifera.requests
        for n in range(10):
            victim.subscribe(SCHEMA, filter=f"count = {n}")
            victim.subscribe(f"own/{n}")
        check_books(victim)
        invented = [name for name in topics.numbers if name >= filter_name(1000)]
        assert len(invented) <= config.topics - config.topics // 4
        await until(
            lambda: not any(filter_name(n) in topics.numbers for n in range(200, 8 * config.topics)),
            "what nobody asks for again is forgotten",
        )

    live(attacked(attack))


def test_who_asks_too_often_is_shunned() -> None:
    async def attack(victim: Node, stranger: Attacker) -> None:
        request = system_frame(wire.FilterRequest(wire.Asked((CHEAP,), row(0, 1))))
        for _ in range(64):
            if not await stranger.send(*[request] * 512):
                break
        assert await stranger.refused() == MISBEHAVED
        assert victim._driver.counters["refused: too many requests"] > 0

    live(attacked(attack))


def test_who_gossips_without_end_is_shunned() -> None:
    async def attack(victim: Node, stranger: Attacker) -> None:
        told = wire.ViniferaPeerStatus(stranger.card((CHEAP,)), 0, 1, 1)
        gossip = system_frame(wire.ViniferaProfile(False, 1, told, ()))
        for _ in range(64):
            if not await stranger.send(*[gossip] * 512):
                break
        assert await stranger.refused() == MISBEHAVED
        assert victim._driver.counters[f"refused: {TOO_MUCH_GOSSIP}"] > 0

    live(attacked(attack, replace(VINIFERA, period_s=0.3)))


def test_who_says_it_is_everywhere_keeps_events_for_a_while_only() -> None:
    """A liar that is nearest to all values can hold back what comes by it, not take the node down."""

    async def attack(victim: Node, stranger: Attacker) -> None:
        for cycle in range(6):
            place = int(victim._driver.peer_table.profiles.place[ME])
            told = wire.ViniferaPeerStatus(stranger.card((CHEAP,)), 0, (place - 1 - cycle) % LAST, LOAD_MAX)
            await stranger.send(system_frame(wire.ViniferaProfile(cycle % 2 == 1, cycle, told, ())))
            await victim._driver.next_cycle()
            check_books(victim)
        await stranger.leave()

    live(attacked(attack))


def test_other_systems_frames_are_refused() -> None:
    async def main() -> None:
        async with village(2, config=VINIFERA) as found:
            driver, peer = found.nodes[0]._driver, found.nodes[1].id
            await until(lambda: driver.peer_table.number_of(peer) != NOBODY, "they have met")
            driver.on_frame(peer, encode(Attacker("test").gossip()))
            assert driver.counters["refused: unknown kind of message"] == 1
            driver.on_frame(peer, own([2, [["a//b"], b""]]))
            assert driver.counters["refused: request for an impossible filter"] == 1
            driver.on_frame(LIAR.id, own([3, 1, 1]))
            assert driver.counters["refused: sender without a card"] == 1

    live(main())
