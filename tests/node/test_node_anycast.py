"""Searches between live nodes: what is said is what is heard, subscribers are found, liars gain nothing."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from support.node.live import FAST, Village, live, take, until, village
from support.node.own_frames import read_own
from vinecast.core.errors import RemoteError
from vinecast.core.machine import NOBODY
from vinecast.lab.localnet.attacker import Attacker
from vinecast.node.api.node import Node
from vinecast.node.api.subscription import Subscription
from vinecast.node.runtime.capabilities import scratch_pool
from vinecast.node.runtime.config import NodeConfig
from vinecast.node.storage.identity_file import make_identity
from vinecast.peer.codecs.codec import Codec
from vinecast.peer.codecs.frame_codec import FrameCodec
from vinecast.peer.identity import Identity, verify
from vinecast.peer.limits.misbehaviour import BenignRefusal
from vinecast.peer.table.peer_table import PeerTable
from vinecast.peer.wire.handshake import MISBEHAVED
from vinecast.peer.wire.messages import SystemFrame, encode, make_card, system_frame
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.directed_walk import Walk
from vinecast.protocols.gravity import GravityAsk, GravityLeave, GravityRefuse, GravityUpdate
from vinecast.protocols.vicinity import VicinityConfig
from vinecast.systems.common import anycast_messages as wire
from vinecast.systems.common.anycast import AnycastFound, AnycastSeek
from vinecast.systems.common.router import ME
from vinecast.systems.common.wire import Entry
from vinecast.systems.poldercast import router as poldercast
from vinecast.systems.poldercast.router import REQUESTS_IN_HAND

LIAR = make_identity()
CARD = make_card(LIAR.sign, "test", LIAR.public, "127.0.0.1:9", 1, ("news",))
OFF = replace(FAST, anycast=False)


# The wire.


def book_of(identity: Identity) -> PeerTable:
    return PeerTable(identity.public, identity.sign, verify, "test", 64, 64)


words = st.integers(0, 2**64 - 1)
versions = st.integers(0, 2**63 - 1)
said = st.one_of(
    st.builds(GravityUpdate, versions, versions, st.binary(max_size=wire.HOME_BYTES_MAX)),
    st.sampled_from([GravityAsk(), GravityRefuse(), GravityLeave()]),
    st.builds(
        AnycastSeek,
        words,
        st.builds(
            Walk,
            st.binary(max_size=wire.NEGATIVE_BYTES_MAX),
            st.integers(0, 1000),
            st.integers(-1, wire.CONFIG.gravity.depth),
            words,
        ),
    ),
)


@given(said)
def test_what_is_said_is_what_is_heard(message: Any) -> None:
    codec = FrameCodec(wire.FRAMES, Codec(book_of(make_identity())))
    frame = read_own(system_frame(codec.pack(LIAR.id, message)), wire.FRAMES)
    assert codec.read(LIAR.id, frame) == message


def test_an_answer_names_a_peer_by_its_card() -> None:
    one, other = make_identity(), make_identity()
    here, there = book_of(one), book_of(other)
    speaks, listens = FrameCodec(wire.FRAMES, Codec(here)), FrameCodec(wire.FRAMES, Codec(there))
    third = here.meet(Entry(CARD, 0, b"", b""))
    for _ in range(2):  # the second time the card itself is not sent
        frame = speaks.pack(other.id, AnycastFound(2**64 - 1, third))
        heard = listens.read(one.id, frame)
        assert isinstance(heard, AnycastFound)
        assert heard.number == 2**64 - 1
        assert there.id_of(heard.peer) == LIAR.id
        assert there.topics_of(heard.peer) == ("news",)
    with pytest.raises(BenignRefusal):
        FrameCodec(wire.FRAMES, Codec(book_of(make_identity()))).read(one.id, frame)


@pytest.mark.parametrize(
    "value",
    [
        [0, 1, 0, b"\xff" * (wire.HOME_BYTES_MAX + 1)],
        [0, -1, 0, b""],
        [4, 1, bytes(wire.NEGATIVE_BYTES_MAX + 1), 9, 0, 1],
        [4, -1, b"", 9, 0, 1],
        [4, 1, b"", 9, 99, 1],
        [5, 1, None],
        [9],
        "home",
    ],
)
def test_what_is_out_of_bounds_is_refused(value: Any) -> None:
    frame = encode(SystemFrame(Raw(msgspec.msgpack.encode(value))))
    with pytest.raises(RemoteError, match="malformed message"):
        read_own(frame, wire.FRAMES)


# Finding.


@pytest.fixture
def sparse(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nodes know few others, so that a dozen of them are several hops apart."""
    monkeypatch.setattr(poldercast, "CyclonConfig", partial(CyclonConfig, view_size=3, gossip_size=2))
    monkeypatch.setattr(poldercast, "VicinityConfig", partial(VicinityConfig, view_size=3, gossip_size=2))
    scratch_pool().take.cache_clear()
    yield
    scratch_pool().take.cache_clear()


def knows_a_subscriber(node: Node, topic: str) -> bool:
    peer = node._peer
    number = peer.peer_table.topics.take(topic)
    assert number is not None
    try:
        found = peer.machine._subscriber(number, 0, node._driver.clock.now_us())
        return bool(found != NOBODY)
    finally:
        peer.peer_table.topics.leave(number)


def total(found: Village, counter: str) -> int:
    return sum(node._peer.counters[counter] for node in found.nodes)


async def publish_from_afar(found: Village) -> tuple[Subscription, bool]:
    """Publish on a topic from nodes that know no subscriber, until one of them has found one: on a busy
    machine too late for its first event. The subscription, and whether it came to that."""
    reader = found.nodes[-1].subscribe("rare")
    for _ in range(4):  # everybody is met by somebody
        await found.nodes[0]._driver.next_cycle()
    tries = 0
    while tries < 5:
        strangers: list[Node] = []

        def somebody(strangers: list[Node] = strangers) -> bool:
            strangers[:] = [node for node in found.nodes[:-1] if not knows_a_subscriber(node, "rare")]
            return bool(strangers)

        await until(somebody, "a node that knows no subscriber")
        publisher = strangers[0]
        receipt = await publisher.publish("rare", b"anybody there?", durable=False)
        for _ in range(10 if not receipt.neighbours else 0):
            await publisher._driver.next_cycle()
        if publisher._peer.counters["anycast.found"]:
            while not (await publisher.publish("rare", b"anybody there?", durable=False)).neighbours:
                await publisher._driver.next_cycle()
            return reader, True
        if not receipt.neighbours:  # else it met a subscriber by chance meanwhile
            tries += 1
    return reader, False


@pytest.mark.parametrize("sockets", [True, False])
@pytest.mark.usefixtures("sparse")
def test_a_publisher_that_knows_no_subscriber_finds_one_several_hops_away(sockets: bool) -> None:
    async def main() -> None:
        async with village(10, sockets=sockets, config=replace(FAST, period_s=0.1)) as found:
            reader, handed = await publish_from_afar(found)
            assert handed
            assert (await take(reader, 1))[0].payload == b"anybody there?"
            assert total(found, "anycast.found") >= 1
            assert total(found, "anycast.passed on") >= 1  # two hops at least

    live(main())


@pytest.mark.usefixtures("sparse")
def test_and_does_not_where_it_is_switched_off() -> None:
    async def main() -> None:
        async with village(10, config=OFF) as found:
            _, handed = await publish_from_afar(found)
            assert not handed
            assert total(found, "events dropped: no subscriber known") >= 5
            assert not any(name.startswith("anycast") for node in found.nodes for name in node._peer.counters)

    live(main())


@pytest.mark.usefixtures("sparse")
def test_a_newcomer_finds_what_only_others_know() -> None:
    """It has no filters yet: whom it joined has."""

    async def main() -> None:
        async with village(8) as found:
            reader = await found.nodes[5].subscribe("rare").ready()
            newcomer = await found.add()
            await newcomer._driver.joined.wait()
            while not (await newcomer.publish("rare", b"new here", durable=False)).neighbours:
                await newcomer._driver.next_cycle()
            assert (await take(reader, 1))[0].payload == b"new here"

    live(main())


def test_who_does_not_search_refuses_politely() -> None:
    """Nodes with searches and nodes without are on one network, and nobody is shunned for it."""

    async def main() -> None:
        async with village(2) as found:
            await found.add(config=OFF)
            without = found.nodes[2]
            await until(lambda: without._peer.counters["refused: searches are off here"] > 0)
            readers = [node.subscribe("news") for node in found.nodes]
            await until(lambda: all(node._peer.is_ready("news") for node in found.nodes))
            await without.publish("news", b"all the same", durable=False)
            for reader in readers:
                assert [event.payload for event in await take(reader, 1)] == [b"all the same"]
            for node in found.nodes[:2]:
                links, number = (
                    node._peer.machine.anycast.gravity,
                    node._peer.peer_table.number_of(without.id),
                )
                await until(lambda links=links, number=number: number not in links.links)  # type: ignore[misc]

    live(main())


def test_nobody_waits_long_for_a_topic_without_subscribers() -> None:
    async def main() -> None:
        async with village(3) as found:
            await until(lambda: all(node._peer.count_others() == 2 for node in found.nodes))
            receipts = [await found.nodes[1].publish("nothing", b"x", durable=False) for _ in range(50)]
            assert not any(receipt.neighbours for receipt in receipts)
            assert found.nodes[1]._peer.counters["anycast.found nobody"] <= 1  # it is searched for once

    live(main())


# Liars.


def check_books(node: Node) -> None:
    """Nothing that a stranger can make grow is larger than it may be."""
    anycast = node._peer.machine.anycast
    assert len(anycast.gravity.links) <= anycast.config.gravity.degree
    assert len(node._peer.counters) <= 100


names = st.sampled_from(["", "news", "x" * 300])
shapes = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | names | st.binary(max_size=40),
    lambda inner: st.lists(inner, max_size=5),
    max_leaves=12,
)
said_by_liars: st.SearchStrategy[Any] = st.one_of(
    st.builds(wire.Home, versions, st.integers(0, 3), st.binary(max_size=64)),
    st.builds(wire.Home, versions, st.just(0), st.sampled_from([b"\xff", b"\x55"]).map(lambda b: b * 1536)),
    st.builds(
        wire.SeekSubscriber, words, st.binary(max_size=64), st.integers(0, 1000), st.integers(-1, 3), words
    ),
    st.builds(wire.FoundSubscriber, words, st.just(Entry(CARD, 0, b"", b""))),
    st.sampled_from([wire.AskHome(), wire.RefuseHome(), wire.LeaveHome()]),
)
frames = said_by_liars.map(system_frame)


@pytest.mark.parametrize("shape", ["absurd", "any"])
def test_a_node_takes_whatever_comes_and_goes_on(shape: str) -> None:
    tried = {
        "absurd": frames,
        "any": shapes.map(lambda v: encode(SystemFrame(Raw(msgspec.msgpack.encode(v))))),
    }

    async def main() -> None:
        async with village(2) as found:
            one, other = found.nodes
            reader = await one.subscribe("news").ready()
            one._peer.peer_table.meet(Entry(CARD, 0, b"", b""), LIAR.id)

            @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
            @given(tried[shape])
            def swallow(data: bytes) -> None:
                one._peer._misbehaviour.begin_cycle(0)
                one._driver.on_frame(LIAR.id, data)
                check_books(one)

            swallow()
            while not reader.waiting:
                await other.publish("news", b"still there", durable=False)
                await one._driver.next_cycle()
            assert (await anext(reader)).payload == b"still there"

    live(main())


def level_of(node: Node, stranger: Identity) -> int | None:
    """Which levels of a stranger's home a node believes, if it has one."""
    number = node._peer.peer_table.number_of(stranger.id)
    peers, _, levels = node._peer.machine.anycast.gravity.neighbours
    found = dict(zip(peers.tolist(), levels.tolist(), strict=True))
    return found.get(number)


def test_full_foreign_and_stale_filters_over_real_sockets() -> None:
    """A stranger that claims everything is heard, counted, and drawn to by nobody."""

    async def main() -> None:
        async with village(2, sockets=True) as found:
            victim = found.nodes[0]
            counters = victim._peer.counters
            stranger = await Attacker("test").connect(victim.address)
            await stranger.shake_hands()
            await stranger.send(stranger.introduction())
            await until(lambda: victim._peer.peer_table.number_of(stranger.identity.id) != NOBODY)

            async def send(*frames: msgspec.Struct) -> None:
                await stranger.send(*map(system_frame, frames))

            await send(wire.Home(1, 0, b"\xff" * wire.HOME_BYTES_MAX))
            await until(lambda: counters["gravity.too full"] == 1)
            assert level_of(victim, stranger.identity) == 0
            await send(wire.Home(1, 0, bytes(wire.HOME_BYTES_MAX)))
            await until(lambda: counters["gravity.outdated"] == 1)
            await send(wire.Home(2, 0, b"\xff" * 100))
            await until(lambda: counters["gravity.wrong size"] == 1)
            await send(wire.Home(9, 7, b""))
            await until(lambda: counters["gravity.gap"] == 1)
            malformed = "refused: malformed message (ValidationError)"
            await stranger.send(encode(SystemFrame(Raw(msgspec.msgpack.encode([0, 3, 0, bytes(10**5)])))))
            await until(lambda: counters[malformed] == 1)
            for other in found.nodes:
                assert not other._peer.machine.anycast.gravity.home[1:].all()
            await send(wire.Home(10, 0, bytes(wire.HOME_BYTES_MAX)))
            await until(lambda: level_of(victim, stranger.identity) == 7)
            await stranger.leave()

    live(main())


def test_walks_without_end_go_nowhere_and_their_sender_is_shunned() -> None:
    async def main() -> None:
        async with village(3, sockets=True, config=NodeConfig()) as found:
            victim = found.nodes[0]
            stranger = await Attacker("test").connect(victim.address)
            await stranger.shake_hands()
            await stranger.send(stranger.introduction())
            await until(lambda: victim._peer.peer_table.number_of(stranger.identity.id) != NOBODY)
            seeks = [
                system_frame(wire.SeekSubscriber(5, b"", 24, -1, n)) for n in range(4 * REQUESTS_IN_HAND)
            ]
            while await stranger.send(*seeks):
                pass
            assert await stranger.refused() == MISBEHAVED
            assert victim._peer.counters["anycast.too many walks"] > 0
            assert total(found, "refused: too many requests") > 0
            honest = [node for node in found.nodes if node is not victim]
            assert all(victim._driver.transport.is_connected(node.id) for node in honest)
            assert victim._peer.peer_table.number_of(victim.id) == ME

    live(main())
