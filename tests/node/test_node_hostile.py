"""Nodes under attack, over real sockets: whatever a peer does, it is refused with a reason that is counted,
what it can make grow stays bounded, and honest peers are served meanwhile."""

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.live import FAST, Village, live, until, village
from vinecast.core.errors import RemoteError
from vinecast.core.machine import NOBODY
from vinecast.lab.localnet.attacker import Attacker, half_open, stranger_card
from vinecast.node.api.node import Node
from vinecast.node.api.subscription import Subscription
from vinecast.node.runtime.driver import Driver
from vinecast.node.storage.identity_file import make_identity
from vinecast.node.transport.accept_limiter import SHUNNED_MAX, SHUNNED_S, Shunned
from vinecast.peer.identity import verify
from vinecast.peer.limits.misbehaviour import (
    FAULTS_A_CYCLE,
    GOSSIP_A_CYCLE,
    TOLD_CYCLES,
    TOO_MUCH_GOSSIP,
    Misbehaviour,
)
from vinecast.peer.table.peer_table import CHECKED_A_TELLER, TOPICS_A_CHECK, TOPICS_EACH, PeerTable
from vinecast.peer.wire.frames import FrameKind, control, pack_head
from vinecast.peer.wire.handshake import MISBEHAVED
from vinecast.peer.wire.messages import (
    EVENTS_MAX,
    EventFrame,
    Gossip,
    Introduction,
    Leaving,
    encode,
    make_card,
)
from vinecast.systems.common.router import ME
from vinecast.systems.common.wire import AGE_MAX, CYCLE_MAX, HOPS_MAX, VERSION_MAX, Card, CardReference, Entry

CALM = replace(FAST, period_s=0.2)
"""Cycles long enough for a flood to happen in one."""
REASONS_MAX = 80
"""Different counters that a node may have, whatever is done to it."""
BOOK = 64
"""Peers that the victim can know."""


@dataclass
class Scene:
    """Three honest nodes that read each other's news; the first is the victim."""

    found: Village
    readers: list[Subscription]

    @property
    def victim(self) -> Node:
        return self.found.nodes[0]

    @property
    def driver(self) -> Driver:
        return self.victim._driver

    def count(self, reason: str) -> int:
        """How often the victim counted something."""
        counted: int = self.victim.stats()["counters"].get(reason, 0)
        return counted

    async def attacker(self, **rest: Any) -> Attacker:
        """Somebody whose connection to the victim is up, and who has introduced itself."""
        attacker = await Attacker(self.found.network, **rest).connect(self.victim.address)
        await attacker.shake_hands()
        await attacker.send(attacker.introduction())
        await until(
            lambda: attacker.identity.id in self.driver.transport.connections(),
            "a connection to the attacker",
        )
        return attacker

    async def still_serves(self) -> None:
        """News pass from honest peer to honest peer, each way through or past the victim, once each."""
        for sender in self.found.nodes:
            await sender.publish("news", sender.id, durable=False)
        for reader in self.readers:
            async with asyncio.timeout(30):
                got = [(await anext(reader)).payload for _ in self.found.nodes]
            assert sorted(got) == sorted(node.id for node in self.found.nodes)
            assert reader.waiting == 0

    async def serves_again(self) -> None:
        """Sooner or later all honest nodes get one and the same piece of news from the victim."""
        got: list[set[bytes]] = [set() for _ in self.readers]
        async with asyncio.timeout(30):
            for n in itertools.count():
                await self.victim.publish("news", str(n), durable=False)
                await self.driver.next_cycle()
                for reader, seen in zip(self.readers, got, strict=True):
                    seen |= {(await anext(reader)).payload for _ in range(reader.waiting)}
                if set.intersection(*got):
                    return

    def check_bounds(self) -> None:
        """Nothing that a stranger can make grow is larger than it may be."""
        driver, config = self.driver, self.victim.config
        transport: Any = driver.transport
        assert len(driver.peer_table.known()) < config.peers
        assert len(driver.peer_table.topics.known()) <= config.topics
        assert driver.peer_table._topics_held <= TOPICS_EACH * config.topics
        assert len(self.victim.stats()["counters"]) <= REASONS_MAX
        assert len(transport.counters) <= REASONS_MAX
        assert len(transport._connections) <= config.transport.accepted_max + config.transport.dialled_max
        assert len(transport._peers) <= len(transport._connections) + len(transport._tasks)
        assert len(driver.events.replay_window._seen) <= driver.events.replay_window._most
        assert len(driver.trace) <= config.traced
        assert set(driver.system.codec._sent) <= set(transport._peers)
        for connection in transport._connections:
            assert connection.queue.queued_bytes <= config.transport.queue_bytes_max


@contextlib.asynccontextmanager
async def scene(**transport: Any) -> AsyncIterator[Scene]:
    """The honest nodes, with their rings complete; at the end all bounds must hold."""
    config = replace(CALM, peers=BOOK, topics=1024, transport=replace(CALM.transport, **transport))
    async with village(3, sockets=True, config=config) as found:
        readers = [node.subscribe("news") for node in found.nodes]
        await until(lambda: all(node._driver.is_ready("news") for node in found.nodes), "rings complete")
        result = Scene(found, readers)
        yield result
        result.check_bounds()


# Garbage on the wire.


def test_random_bytes_before_and_after_tls_and_after_the_greeting() -> None:
    async def main() -> None:
        async with scene(unauthenticated_s=1.0) as found:
            noise = random.Random(1)
            for _ in range(5):
                async with half_open(found.victim.address, 1, noise.randbytes(500)):
                    stranger = await Attacker("test").connect(found.victim.address)
                    await stranger.say(b"\x7f" + noise.randbytes(500))
                    assert await stranger.refused() == "garbage instead of a frame"
                    guest = await found.attacker()
                    await guest.say(b"\xff" + noise.randbytes(500))
                    assert await guest.refused() == "garbage instead of a frame"
                    await guest.leave()
                    await stranger.leave()
            early = ("TLS handshake failed", "connection lost in the handshake", "no handshake in time")
            await until(lambda: sum(found.count(f"refused: {reason}") for reason in early) == 5)
            assert found.count("refused: garbage instead of a frame") == 10
            await found.still_serves()

    live(main())


def test_truncated_and_oversized_frames() -> None:
    async def main() -> None:
        async with scene() as found:
            half = await found.attacker()
            whole = control(FrameKind.DATA, encode(half.event("news")))
            await half.say(whole[: len(whole) // 2])
            await half.leave()
            await until(lambda: half.identity.id not in found.driver.transport.connections())
            large = await found.attacker()
            await large.say(pack_head(found.victim.config.transport.frame_bytes_max + 1) + bytes(5000))
            assert await large.refused() == "frame too large"
            assert found.count("refused: frame too large") == 1
            await found.still_serves()
            await large.leave()

    live(main())


# Frames of the right form with absurd contents. They go straight to the driver: thousands in a second.

LIAR = make_identity()
around = st.sampled_from
sizes = around([0, 1, 31, 32, 33, 63, 64, 65, 8192])
numbers = around([-(2**63), -1, 0, 1, 255, 256, AGE_MAX, AGE_MAX + 1, CYCLE_MAX, 2**64 - 1])
names = st.text(max_size=4) | around(
    ["news", "x" * 255, "x" * 256, "#", "+", "/", "\0", "a//b", "\U0001f347" * 64]
)
addresses = around(
    ["", "127.0.0.1:9", "[::1]:9", "0.0.0.0:0", "a:99999", ":", "x" * 300, "x" * 301, "\n:1", "é:1"]
)


def bytes_of(size: int) -> bytes:
    return bytes(i % 251 for i in range(size))


def signed(address: str, version: int, topics: list[str]) -> Card:
    return make_card(LIAR.sign, "test", LIAR.public, address, version, tuple(sorted(set(topics))))


versions = around([0, 1, 2, VERSION_MAX - 1, VERSION_MAX])
cards = st.one_of(
    st.builds(
        Card,
        public=st.just(LIAR.public) | st.builds(bytes_of, sizes),
        address=addresses,
        version=numbers,
        topics=st.lists(names, max_size=4).map(tuple),
        signature=st.builds(bytes_of, sizes),
    ),
    st.builds(signed, addresses, versions, st.lists(names, max_size=20)),
    st.builds(CardReference, id=st.just(LIAR.id) | st.builds(bytes_of, sizes), version=numbers),
)
entries = st.builds(
    Entry,
    card=cards,
    age=numbers | around([0, 1, AGE_MAX]),
    coverage=st.binary(max_size=4) | st.builds(bytes_of, sizes),
    gaps=st.binary(max_size=16) | st.builds(bytes_of, sizes),
)
true_entries = st.builds(
    Entry,
    card=st.builds(signed, addresses, versions, st.lists(names, max_size=3)),
    age=around([0, 1, AGE_MAX]),
    coverage=st.binary(max_size=4),
    gaps=st.binary(max_size=16),
)
KINDS = [f"{layer}.{what}" for layer in ("cyclon", "vicinity", "rings") for what in ("request", "answer")]
frames = st.one_of(
    st.builds(
        Gossip,
        kind=around([*KINDS, "poldercast.event", "", "x" * 41]),
        cycle=numbers | around([0, 1, CYCLE_MAX]),
        sender=entries | true_entries,
        entries=st.lists(entries | true_entries, max_size=12).map(tuple)
        | true_entries.map(lambda e: (e,) * 65),
    ),
    st.builds(Introduction, sender=entries | true_entries),
    st.builds(Leaving),
    st.builds(
        EventFrame,
        hops=numbers | around([0, HOPS_MAX, HOPS_MAX + 1]),
        events=st.lists(
            st.tuples(st.binary(max_size=80), st.binary(max_size=80)), max_size=EVENTS_MAX + 1
        ).map(tuple),
    ),
)
shapes = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.binary(max_size=40)
    | names,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(names, inner, max_size=3),
    max_leaves=20,
)


def check_views(driver: Driver) -> None:
    """Nobody stands twice in a view, nor the node itself, nor somebody without a name."""
    machine = driver.machine
    half = machine.config.rings.size // 2
    sides = [side for row in machine.rings.peers for side in (row[:half], row[half:])]
    for view in (machine.cyclon.view, machine.vicinity.peers, *sides):
        peers = [peer for peer in view.tolist() if peer != NOBODY]
        assert ME not in peers
        assert len(set(peers)) == len(peers)
        assert set(peers) <= set(driver.peer_table.known())


def feed(given_frames: st.SearchStrategy[Any], encoded: Callable[[Any], bytes], examples: int) -> None:
    """Let a node in a small network swallow whatever comes out of a strategy."""

    async def main() -> None:
        async with village(3) as found:
            reader = found.nodes[1].subscribe("news")
            found.nodes[0].subscribe("news")
            driver = found.nodes[0]._driver
            await until(lambda: driver.is_ready("news"), "rings complete")

            @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
            @given(given_frames)
            def swallow(frame: Any) -> None:
                driver._misbehaviour.begin_cycle(0)
                driver.on_frame(LIAR.id, encoded(frame))
                driver.cycles.ring("cyclon")
                driver.cycles.ring("vicinity")
                driver.cycles.ring("rings")
                check_views(driver)

            swallow()
            assert len(driver.counters) <= REASONS_MAX
            while not reader.waiting:  # its views may be full of liars for a while
                await found.nodes[0].publish("news", b"still there", durable=False)
                await driver.next_cycle()
            assert (await anext(reader)).payload == b"still there"

    live(main())


def test_valid_frames_with_absurd_values() -> None:
    def encoded(frame: Any) -> bytes:
        try:
            return encode(frame)
        except OverflowError:  # not even MessagePack can say it
            return b""

    feed(frames, encoded, examples=400)


def test_messagepack_of_any_other_shape() -> None:
    feed(st.tuples(around([0, 1, 2, 3, 4, -1]), shapes) | shapes, msgspec.msgpack.encode, examples=300)


def test_frames_cut_short_or_with_something_after() -> None:
    frame = encode(Introduction(Entry(signed("127.0.0.1:9", 1, ["news"]), 0, b"\1", b"\0\0\0\1")))
    cut = st.integers(0, len(frame)).map(lambda at: frame[:at]) | st.binary(max_size=9).map(
        lambda b: frame + b
    )
    feed(cut, bytes, examples=100)


# Who somebody is.


def test_a_peer_that_claims_anothers_id() -> None:
    async def main() -> None:
        async with scene() as found:
            honest = found.found.nodes[1]
            thief = await found.attacker()
            number = found.driver.peer_table.number_of(honest.id)
            before = found.driver.peer_table.topics_of(number)
            await thief.send(Introduction(Entry(honest._driver.peer_table.card, 0, b"", b"")))
            await until(lambda: found.count("refused: speaks for another peer") == 1)
            forged = Card(honest._driver.peer_table.card.public, "127.0.0.1:9", VERSION_MAX, (), bytes(64))
            await thief.send(thief.gossip(forged))
            await until(lambda: found.count("refused: forged card") == 1)
            assert found.driver.peer_table.topics_of(number) == before
            assert str(found.driver.peer_table.address_of(number)) == honest.address
            await found.still_serves()
            await thief.leave()

    live(main())


# Floods: each is over when the victim has had enough.


async def flood(attacker: Attacker, make: Callable[[], Any], batch: int = 50) -> str:
    """Send until the node closes the connection; why it did."""
    async with asyncio.timeout(30):
        while await attacker.send(*(make() for _ in range(batch))):
            await asyncio.sleep(0)
    return await attacker.refused()


FLOODS: dict[str, tuple[Callable[[Attacker], Callable[[], Any]], str]] = {
    "garbage": (lambda one: lambda: b"\xc1 not a frame", "malformed frame (DecodeError)"),
    "forged events": (lambda one: lambda: one.event("news", signer=LIAR), "forged event"),
    "broken events": (
        lambda one: lambda: EventFrame(0, ((b"\xa7", bytes(68)),)),
        "block that is not an event record",
    ),
    "forged cards": (
        lambda one: lambda: one.gossip(Card(LIAR.public, "127.0.0.1:9", 1, (), bytes(64))),
        "forged card",
    ),
    "gossip": (lambda one: partial(encode, one.gossip()), TOO_MUCH_GOSSIP),  # one card: others cost time
    "introductions": (lambda one: partial(encode, one.introduction(["a", "b"])), TOO_MUCH_GOSSIP),
    "unknown messages": (lambda one: lambda: one.gossip(kind="nonsense"), "unknown kind of message"),
}


@pytest.mark.parametrize("what", FLOODS)
def test_a_flood_ends_with_the_link_and_the_peer_is_shunned(what: str) -> None:
    make, reason = FLOODS[what]

    async def main() -> None:
        async with scene() as found:
            attacker = await found.attacker()
            serving = asyncio.create_task(found.still_serves())
            assert await flood(attacker, make(attacker)) == MISBEHAVED
            await serving
            assert found.count(f"refused: {reason}") >= FAULTS_A_CYCLE
            assert found.count(f"refused: {MISBEHAVED}") == 1
            again = await Attacker("test", attacker.identity).connect(found.victim.address)
            assert await again.refused() == MISBEHAVED  # it is not let in again for a while
            assert not found.driver.transport.send(attacker.identity.id, None, b"")
            await found.still_serves()
            await attacker.leave()
            await again.leave()

    live(main())


def test_true_cards_of_invented_peers_do_not_fill_the_book_or_starve_others() -> None:
    async def main() -> None:
        async with scene() as found:
            attacker = await found.attacker()
            invented = [stranger_card("test", ["news", f"t/{i}"]) for i in range(4 * BOOK)]
            for begin in range(0, len(invented), 10):  # whoever believes it looks for them in vain
                await attacker.send(attacker.gossip(*invented[begin : begin + 10]))
            await until(lambda: len(found.driver.peer_table.known()) >= BOOK // 2)
            found.check_bounds()
            honest = await found.found.add()
            await until(honest._driver.joined.is_set, "a newcomer is met")
            await attacker.leave()
            await found.serves_again()

    live(main())


def test_events_nobody_asked_for_are_refused_and_the_sender_told_why() -> None:
    async def main() -> None:
        async with scene() as found:
            attacker = await found.attacker()
            await attacker.send(*(attacker.event("spam") for _ in range(200)))
            await until(lambda: found.count("refused: event on a topic that is not subscribed to") == 200)
            await until(lambda: sum(kind == FrameKind.DATA for kind, _ in attacker.frames) >= 2)
            assert (
                attacker.identity.id in found.driver.transport.connections()
            )  # it may have an old card of ours
            for _ in range(TOLD_CYCLES + 1):  # but it is told in every cycle
                await attacker.send(attacker.event("spam"))
                found.driver._misbehaviour.begin_cycle(0)
                await asyncio.sleep(0)
            assert await flood(attacker, lambda: attacker.event("spam")) == MISBEHAVED
            await found.still_serves()
            await attacker.leave()

    live(main())


def test_old_events_sent_again_by_anybody_are_not_held_against_it() -> None:
    async def main() -> None:
        async with scene() as found:
            attacker = await found.attacker()
            old = attacker.event("news", b"old")
            await attacker.send(old)
            for reader in found.readers:
                async with asyncio.timeout(30):
                    assert (await anext(reader)).payload == b"old"
            found.driver.machine.recent._seen.clear()  # as after a while
            await attacker.send(*[old] * 100)
            await until(lambda: found.count("refused: event replayed") == 100)
            assert attacker.identity.id in found.driver.transport.connections()
            await found.still_serves()
            await attacker.leave()

    live(main())


# Connections.


def test_thousands_of_half_open_connections() -> None:
    async def main() -> None:
        async with scene(handshakes_max=48, handshakes_per_host_max=32, unauthenticated_s=1.0) as found:
            transport: Any = found.driver.transport
            async with half_open(found.victim.address, 2000):
                refused = "refused: too many handshakes from one host"
                await until(lambda: found.count(refused) >= 2000 - 32 * 4, "most are turned away")
                assert len(transport._handshakes) <= 32
                await found.still_serves()
                newcomer = await found.found.add()  # from another host
                await until(newcomer._driver.joined.is_set, "a newcomer is let in")
                await until(
                    lambda: found.count("refused: no handshake in time") >= 32, "they are not waited for"
                )
            await until(lambda: not transport._handshakes)

    live(main())


def test_a_handshake_byte_by_byte_takes_no_longer_than_others() -> None:
    async def main() -> None:
        async with scene(unauthenticated_s=0.5) as found:
            stranger = await Attacker("test").connect(found.victim.address)
            handshake = control(FrameKind.HELLO, bytes(900))
            sent = 0
            while await stranger.say(handshake[sent : sent + 1]) and sent < len(handshake) - 1:
                sent += 1
                await asyncio.sleep(0.02)
            assert await stranger.refused() == ""  # cut off: nothing is owed to such a one
            assert sent < len(handshake) - 1
            assert found.count("refused: no handshake in time") == 1
            await found.still_serves()
            await stranger.leave()

    live(main())


def test_a_peer_that_does_not_read_costs_a_bounded_queue() -> None:
    async def main() -> None:
        limits = {"queue_bytes_max": 600 * 1024, "frame_bytes_max": 512 * 1024, "stalled_s_max": 1.0}
        async with scene(**limits) as found:
            deaf = await Attacker("test").connect(found.victim.address, reads=False)
            await deaf.shake_hands()
            await deaf.send(deaf.introduction(["news"]))
            topics = [f"{i:03}" + "x" * 200 for i in range(250)]
            await deaf.send(*(deaf.gossip(stranger_card("test", topics)) for _ in range(20)))
            for _ in range(5):
                await deaf.send(*(deaf.gossip(kind="vicinity.request") for _ in range(40)))
                await found.still_serves()
                found.check_bounds()
            await deaf.leave()

    live(main())


# The parts.


def test_the_shunned_are_few_and_come_back() -> None:
    shunned = Shunned()
    for n in range(SHUNNED_MAX + 1):
        shunned.add(n.to_bytes(32, "big"), float(n))
    assert len(shunned._until) == SHUNNED_MAX
    last = SHUNNED_MAX.to_bytes(32, "big")
    assert shunned.has(last, SHUNNED_MAX + SHUNNED_S - 1)
    assert not shunned.has(last, SHUNNED_MAX + SHUNNED_S)
    assert len(shunned._until) == SHUNNED_MAX - 1


def hear_often(conduct: Misbehaviour, times: int) -> None:
    for _ in range(times):
        conduct.hear(b"a", 6_500_000)


def test_conduct_is_judged_by_the_cycle_and_a_sleeper_forgiven() -> None:
    conduct = Misbehaviour(period_us=1_000_000)
    conduct.begin_cycle(5_000_000)
    conduct.begin_cycle(6_000_000)
    assert [conduct.blame(b"a") for _ in range(FAULTS_A_CYCLE)] == [False] * (FAULTS_A_CYCLE - 1) + [True]
    assert not conduct.blame(b"b")
    hear_often(conduct, GOSSIP_A_CYCLE)
    with pytest.raises(RemoteError, match=TOO_MUCH_GOSSIP):
        hear_often(conduct, GOSSIP_A_CYCLE)
    for _ in range(10 * GOSSIP_A_CYCLE):
        conduct.hear(b"b", 16_000_000)  # this process slept for ten periods
    conduct.begin_cycle(16_000_000)
    for _ in range(10 * GOSSIP_A_CYCLE):
        conduct.hear(b"b", 16_000_001)
    for n in range(1000):
        conduct.is_news(n.to_bytes(2, "big"))
    conduct.begin_cycle(17_000_000)
    conduct.begin_cycle(18_000_000)
    assert not any((conduct._faults, conduct._gossip, conduct._unwanted))


def book_of(peers: int, topics: int) -> PeerTable:
    me = make_identity()
    return PeerTable(me.public, me.sign, verify, "test", peers, topics)


def test_one_teller_cannot_use_up_the_time_for_cards() -> None:
    peer_table = book_of(64, 1024)
    large = [f"{i:04}" for i in range(TOPICS_A_CHECK * 9)]
    for _ in range(2 * CHECKED_A_TELLER // 10):
        peer_table.meet(Entry(stranger_card("test", large), 0, b"", b""), b"flooder")
        peer_table.release()
    assert peer_table.counters["too many new cards"] > 0
    assert peer_table.meet(Entry(stranger_card("test"), 0, b"", b""), b"somebody else") != NOBODY


def test_cards_without_room_for_their_topics_weigh_as_much_as_others() -> None:
    """Topics beyond the room for their numbers have no place in a profile, but their names are kept."""
    peer_table = book_of(4096, 64)
    for i in range(200):
        peer_table.begin_cycle()
        peer_table.release()
        card = stranger_card("test", [f"{i}/{n}" for n in range(100)])
        assert len(peer_table.known()) > 9 or peer_table.meet(Entry(card, 0, b"", b"")) != NOBODY
        peer_table.meet(Entry(card, 0, b"", b""))
    held = sum(len(peer_table.topics_of(number)) for number in peer_table.known())
    assert held <= TOPICS_EACH * 64


def test_profiles_that_come_and_go_and_shrink_leave_their_places_to_others() -> None:
    peer_table = book_of(1024, 64)
    bound = TOPICS_EACH * 64
    for i in range(400):
        peer_table.begin_cycle()
        peer_table.release()
        somebody = Attacker("test")
        for topics in (40, 1):
            card = somebody.card([f"{n}" for n in range(topics)], address="host:1")
            assert peer_table.meet(Entry(card, 0, b"", b"")) != NOBODY
        assert peer_table.profiles.topics.size <= 8 * bound, i


def test_wide_characters_weigh_what_they_take() -> None:
    peer_table = book_of(64, 1024)
    wide = [f"{i:03}" + "\U0001f347" * 60 for i in range(300)]
    with pytest.raises(RemoteError, match="card too large"):
        peer_table.meet(Entry(stranger_card("test", wide), 0, b"", b""))


def test_own_topics_fit_on_a_card() -> None:
    async def main() -> None:
        async with village(2) as found:
            one, other = found.nodes
            added = one._driver.subscribe([f"{i:03}" + "x" * 250 for i in range(300)])
            assert 200 < len(added) < 300
            await until(
                lambda: (
                    len(other._driver.peer_table.topics_of(other._driver.peer_table.number_of(one.id)))
                    == len(added)
                )
            )
            assert not any("card" in reason for reason in other.stats()["counters"])

    live(main())
