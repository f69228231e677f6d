"""A node of Vinifera among liars: whatever they say of events and places, it goes on and blames who lied."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.content import SCHEMA
from support.node.live import live, until, village
from support.node.strangers import own, shapes_of
from support.systems.vinifera import (
    BUYS,
    CARD,
    CHEAP,
    DEAR,
    LAST,
    LIAR,
    VALUES,
    VINIFERA,
    Headers,
    check_books,
    filter_name,
    loads,
    places,
    row,
    still_there,
)
from vinecast.core.content.names import PLACES, digest_of, write_places
from vinecast.core.content.names import SCHEMA as HEADER
from vinecast.core.events import TimerFired
from vinecast.core.log.batch_signature import sign_events
from vinecast.core.log.event_record import EventRecord
from vinecast.core.machine import NOBODY
from vinecast.lab.localnet.attacker import Attacker
from vinecast.node.api.node import Node
from vinecast.node.api.subscription import Subscription
from vinecast.node.runtime.config import NodeConfig
from vinecast.peer.limits.misbehaviour import FAULTS_A_CYCLE, TOLD_CYCLES, TOO_MUCH_GOSSIP
from vinecast.peer.streams.messages import CarriedEvents, encode_stream
from vinecast.peer.wire.handshake import MISBEHAVED
from vinecast.peer.wire.messages import EventFrame, encode, system_frame
from vinecast.protocols.load_balance import LOAD_MAX
from vinecast.systems.common.router import ME
from vinecast.systems.common.wire import HOPS_MAX, CardReference, Entry
from vinecast.systems.vinifera import messages as wire
from vinecast.systems.vinifera.router import ContentEncoding
from vinecast.systems.vinifera.words import NO_ROOM

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
            one._peer.peer_table.meet(Entry(CARD, 0, b"", b""), LIAR.id)

            @settings(max_examples=150, suppress_health_check=list(HealthCheck))
            @given(tried[shape])
            def swallow(data: bytes) -> None:
                one._peer._misbehaviour.begin_cycle(0)
                one._driver.on_frame(LIAR.id, data)
                for timer in ("cyclon", "tman", "tman.profile"):
                    one._driver.feed(TimerFired(timer))
                check_books(one)

            swallow()
            await still_there(other, one, reader)

    live(main())


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


async def lied_to(lie: Callable[[Node, Subscription], Any], config: NodeConfig = VINIFERA) -> None:
    """Two nodes, one of which wants something and knows a liar, and what the liar says to it."""
    async with village(2, config=config) as found:
        one, other = found.nodes
        reader = await one.subscribe(SCHEMA, filter=BUYS).ready()
        one._peer.peer_table.meet(Entry(CARD, 0, b"", b""), LIAR.id)
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
        counters, plain = one._peer.counters, await one.subscribe("stocks").ready()
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
        while one._peer.machine.has_seen(first._signed.number):
            await one._driver.next_cycle()
            for _ in range(8):
                number += 1
                one._driver.on_frame(LIAR.id, by_liar(number, 500, durable, way=2))
        while not one._peer.counters["refused: event replayed"]:  # until there is room to remember it
            for _ in range(3):
                one._driver.on_frame(LIAR.id, old)
            assert prices(reader) == [1]
            assert not blamed(one)
            await one._driver.next_cycle()

    live(lied_to(lie, replace(VINIFERA, remembered=32, remember_s=0.1)))


def blamed(node: Node) -> dict[bytes, int]:
    """Whom a node blames in this cycle, and how often."""
    return dict(node._peer._misbehaviour._faults)


def test_nobody_is_to_blame_when_there_are_too_many_topics() -> None:
    async def lie(one: Node, reader: Subscription) -> None:
        topics = one._peer.peer_table.topics
        taken = [topics.take(f"invented/{n}", mine=False) for n in range(VINIFERA.topics)]
        assert None in taken
        for sequence in range(1, 2 * TOLD_CYCLES):
            one._peer._misbehaviour.begin_cycle(0)
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
            relay._peer.peer_table.meet(Entry(CARD, 0, b"", b""), LIAR.id)
            relay._driver.on_frame(LIAR.id, by_liar(1, durable=True, way=1))
            await until(lambda: all(node.log("stocks") for node in readers), "the stream has begun")
            faults: list[bytes] = []
            for node in readers:
                monkeypatch.setattr(node._peer, "blame", faults.append)
            parents = (readers[0].log("stocks")[0]._signed.cid,)
            for sequence in range(2, FAULTS_A_CYCLE):
                relay._driver.on_frame(LIAR.id, by_liar(sequence, durable=True, way=1, parents=parents))
            wrong = "streams.refused wrong height"
            await until(lambda: any(node._peer.counters[wrong] for node in readers), "they are refused")
            await relay._driver.next_cycle()
            assert not faults

    live(main())


# What liars say of places.


def test_moves_that_nobody_asked_for_are_not_made() -> None:
    async def lie(one: Node, reader: Subscription) -> None:
        counters, place = one._peer.counters, one._peer.peer_table.profiles.place
        before = int(place[ME])
        for n in range(5):
            where = (before + 1000 + n) % LAST
            asked = wire.Asked((filter_name(n),), row(0, 2))
            one._driver.on_frame(LIAR.id, system_frame(wire.Move(where, 5, asked)))
            one._driver.on_frame(LIAR.id, system_frame(wire.MayMove(where, LOAD_MAX)))
        assert counters["load_balance.unasked"] == counters["load_balance.refused"] == 5
        assert place[ME] == before
        assert len(one._peer.machine.requests) <= 2
        assert not any(filter_name(n) in one._peer.peer_table.topics.numbers for n in range(5))
        assert not blamed(one)  # an honest answer may be late

    live(lied_to(lie, replace(VINIFERA, vinifera=replace(VINIFERA.vinifera, beta=0))))


def test_a_part_of_no_range_is_counted_and_nothing_else() -> None:
    async def lie(one: Node, reader: Subscription) -> None:
        had = len(one._peer.machine.requests)
        bad = [(9, 3), (LAST + 1, LAST + 1), (0, 2**32 - 1), (2**32 - 1, 0)]
        rows = b"".join(row(0, 1, *ends) for ends in bad)
        one._driver.on_frame(LIAR.id, system_frame(wire.FilterRequest(wire.Asked((CHEAP,), rows))))
        assert one._peer.counters["content_table.refused"] == len(bad)
        assert len(one._peer.machine.requests) == had

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
        peer, config = victim._peer, VINIFERA
        topics, requests, counters = peer.peer_table.topics, peer.machine.requests, peer.counters
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
        assert victim._peer.counters["refused: too many requests"] > 0

    live(attacked(attack))


def test_who_gossips_without_end_is_shunned() -> None:
    async def attack(victim: Node, stranger: Attacker) -> None:
        told = wire.ViniferaPeerStatus(stranger.card((CHEAP,)), 0, 1, 1)
        gossip = system_frame(wire.ViniferaProfile(False, 1, told, ()))
        for _ in range(64):
            if not await stranger.send(*[gossip] * 512):
                break
        assert await stranger.refused() == MISBEHAVED
        assert victim._peer.counters[f"refused: {TOO_MUCH_GOSSIP}"] > 0

    live(attacked(attack, replace(VINIFERA, period_s=0.3)))


def test_who_says_it_is_everywhere_keeps_events_for_a_while_only() -> None:
    """A liar that is nearest to all values can hold back what comes by it, not take the node down."""

    async def attack(victim: Node, stranger: Attacker) -> None:
        for cycle in range(6):
            place = int(victim._peer.peer_table.profiles.place[ME])
            told = wire.ViniferaPeerStatus(stranger.card((CHEAP,)), 0, (place - 1 - cycle) % LAST, LOAD_MAX)
            await stranger.send(system_frame(wire.ViniferaProfile(cycle % 2 == 1, cycle, told, ())))
            await victim._driver.next_cycle()
            check_books(victim)
        await stranger.leave()

    live(attacked(attack))


def test_other_systems_frames_are_refused() -> None:
    async def main() -> None:
        async with village(2, config=VINIFERA) as found:
            driver, peer, other = found.nodes[0]._driver, found.nodes[0]._peer, found.nodes[1].id
            await until(lambda: peer.peer_table.number_of(other) != NOBODY, "they have met")
            driver.on_frame(other, encode(Attacker("test").gossip()))
            assert peer.counters["refused: unknown kind of message"] == 1
            driver.on_frame(other, own([2, [["a//b"], b""]]))
            assert peer.counters["refused: request for an impossible filter"] == 1
            driver.on_frame(LIAR.id, own([3, 1, 1]))
            assert peer.counters["refused: sender without a card"] == 1

    live(main())
