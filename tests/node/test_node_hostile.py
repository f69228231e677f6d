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

import pytest

from support.node.live import FAST, Village, live, until, village
from support.node.strangers import REASONS_MAX
from vinecast.lab.localnet.attacker import Attacker, half_open, stranger_card
from vinecast.node.api.node import Node
from vinecast.node.api.subscription import Subscription
from vinecast.node.runtime.driver import Driver
from vinecast.node.storage.identity_file import make_identity
from vinecast.peer.limits.misbehaviour import FAULTS_A_CYCLE, TOLD_CYCLES, TOO_MUCH_GOSSIP
from vinecast.peer.peer import Peer
from vinecast.peer.table.peer_table import TOPICS_EACH
from vinecast.peer.tracing import KNOWN_MAX
from vinecast.peer.wire.frames import FrameKind, control, pack_head
from vinecast.peer.wire.handshake import MISBEHAVED
from vinecast.peer.wire.messages import EventFrame, Introduction, encode
from vinecast.systems.common.wire import VERSION_MAX, Card, Entry

CALM = replace(FAST, period_s=0.2)
"""Cycles long enough for a flood to happen in one."""
BOOK = 64
"""Peers that the victim can know."""
LIAR = make_identity()


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

    @property
    def peer(self) -> Peer:
        return self.victim._peer

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
        peer, config = self.peer, self.victim.config
        transport: Any = self.driver.transport
        assert len(peer.peer_table.known()) < config.peers
        assert len(peer.peer_table.topics.known()) <= config.topics
        assert peer.peer_table._topics_held <= TOPICS_EACH * config.topics
        assert len(self.victim.stats()["counters"]) <= REASONS_MAX
        assert len(transport.counters) <= REASONS_MAX
        assert len(transport._connections) <= config.transport.accepted_max + config.transport.dialled_max
        assert len(transport._peers) <= len(transport._connections) + len(transport._tasks)
        assert len(peer.events.replay_window._seen) <= peer.events.replay_window._most
        assert peer.tracing is not None
        assert not peer.tracing.records
        assert len(peer.tracing._known) <= KNOWN_MAX
        assert set(peer.system.codec._sent) <= set(transport._peers)
        for connection in transport._connections:
            assert connection.queue.queued_bytes <= config.transport.queue_bytes_max


@contextlib.asynccontextmanager
async def scene(**transport: Any) -> AsyncIterator[Scene]:
    """The honest nodes, with their rings complete; at the end all bounds must hold."""
    config = replace(
        CALM, peers=BOOK, topics=1024, traced=True, transport=replace(CALM.transport, **transport)
    )
    async with village(3, sockets=True, config=config) as found:
        readers = [node.subscribe("news") for node in found.nodes]
        await until(lambda: all(node._peer.is_ready("news") for node in found.nodes), "rings complete")
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


# Who somebody is.


def test_a_peer_that_claims_anothers_id() -> None:
    async def main() -> None:
        async with scene() as found:
            honest = found.found.nodes[1]
            thief = await found.attacker()
            number = found.peer.peer_table.number_of(honest.id)
            before = found.peer.peer_table.topics_of(number)
            await thief.send(Introduction(Entry(honest._peer.peer_table.card, 0, b"", b"")))
            await until(lambda: found.count("refused: speaks for another peer") == 1)
            forged = Card(honest._peer.peer_table.card.public, "127.0.0.1:9", VERSION_MAX, (), bytes(64))
            await thief.send(thief.gossip(forged))
            await until(lambda: found.count("refused: forged card") == 1)
            assert found.peer.peer_table.topics_of(number) == before
            assert str(found.peer.peer_table.address_of(number)) == honest.address
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
            await until(lambda: len(found.peer.peer_table.known()) >= BOOK // 2)
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
                found.peer._misbehaviour.begin_cycle(0)
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
            found.peer.machine.recent._seen.clear()  # as after a while
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
