"""What a peer may send of streams and in Kademlia that is wrong, each over a real connection: refused with a
reason that is counted, held against the peer, nothing stored, nothing delivered."""

import asyncio
import contextlib
import hashlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from support.node.live import FAST, live, until, village
from vinecast.core.log.batch_signature import SignedEvent, sign_events
from vinecast.core.log.blocks import cid_of
from vinecast.core.log.event_record import BLOCK_BYTES_MAX, EventRecord
from vinecast.core.log.name_record import encode_name, name_key, sign_name
from vinecast.lab.localnet.attacker import Attacker
from vinecast.node.api.node import Node
from vinecast.node.api.subscription import Subscription
from vinecast.node.storage.identity_file import make_identity
from vinecast.peer.identity import Identity
from vinecast.peer.limits.misbehaviour import Misbehaviour
from vinecast.peer.streams import durable_runtime
from vinecast.peer.streams import messages as wire
from vinecast.peer.wire.frames import FrameKind
from vinecast.peer.wire.messages import StreamFrame, decode
from vinecast.protocols.kademlia import Kademlia, Operation

TOPIC, NETWORK = "news", "test"
NEVER = cid_of(b"nobody ever said this")
BLOCK_KEY = hashlib.sha256(b"a block").digest()
KEEP_US = 3_600_000_000
ANOTHER = make_identity()


@dataclass
class Scene:
    """A node that reads a topic, in which it has said two things, and a peer that is up to no good."""

    victim: Node
    reader: Subscription
    liar: Attacker
    last: SignedEvent
    """What the node said last, at height 2."""
    faults: Counter[bytes]
    """How often each peer was blamed."""
    true: list[bytes] = field(default_factory=list)
    """Values that it is right to keep in Kademlia."""

    @property
    def table(self) -> Kademlia:
        table = self.victim._peer.streams.replicas.table
        assert table is not None
        return table

    def event(
        self, *parents: bytes, height: int, signer: Identity | None = None, topic: str = TOPIC
    ) -> SignedEvent:
        """An event of the liar's own, with whatever place it claims."""
        record = EventRecord(topic, self.liar.identity.public, 1, 0, b"lies", parents=parents, height=height)
        return sign_events(NETWORK, [record], (signer or self.liar.identity).sign)[0]

    async def carry(self, *events: SignedEvent | tuple[bytes, bytes], own: bool = False) -> None:
        """Send events as a neighbour does, or as their publisher."""
        await self.say(wire.CarriedEvents(1, own, tuple(map(packed, events))))

    async def say(self, message: wire.Inner) -> None:
        """Send a message of streams or of Kademlia."""
        await self.liar.send(wire.encode_stream(message))

    async def asked(self, kind: type[Any]) -> Any:
        """Wait until the victim asks the liar something of a kind; the last that it did."""
        await until(lambda: bool(self._heard(kind)), f"the victim asks ({kind.__name__})")
        return self._heard(kind)[-1]

    def _heard(self, kind: type[Any]) -> list[Any]:
        frames = [decode(body) for sort, body in self.liar.frames if sort == FrameKind.DATA]
        inner = [wire.decode_stream(frame) for frame in frames if isinstance(frame, StreamFrame)]
        return [message for message in inner if isinstance(message, kind)]


def packed(signed: SignedEvent | tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    return (signed.block, signed.signature.to_bytes()) if isinstance(signed, SignedEvent) else signed


@contextlib.asynccontextmanager
async def scene(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    faults: Counter[bytes] = Counter()
    blame = Misbehaviour.blame

    def noting(self: Misbehaviour, peer: bytes) -> bool:
        faults[peer] += 1
        return blame(self, peer)

    monkeypatch.setattr(Misbehaviour, "blame", noting)
    monkeypatch.setattr(durable_runtime, "ANSWER_S", 0.02)
    async with village(1, sockets=True, config=replace(FAST, publish_wait_s=0.0)) as found:
        (victim,) = found.nodes
        reader = victim.subscribe(TOPIC)
        said = await victim.publish_all(TOPIC, [b"the truth", b"and nothing else"])
        last = victim._peer.streams.store.get(said[-1].cid)
        assert last is not None
        assert [(await anext(reader)).id for _ in said] == [receipt.id for receipt in said]
        await until(lambda: victim._peer.streams.repair.topics[TOPIC].opened, "where the stream begins")
        liar = await Attacker(NETWORK).connect(victim.address)
        await liar.shake_hands()
        await liar.send(liar.introduction([TOPIC]))
        try:
            await until(lambda: victim._peer.peer_table.number_of(liar.identity.id) > 0, "they have met")
            yield Scene(victim, reader, liar, last, faults)
        finally:
            await liar.leave()


# What it does. Each says which counter rises.


async def forged(scene: Scene) -> str:
    await scene.carry(scene.event(scene.last.cid, height=3, signer=ANOTHER))
    return "durable.refused forged event"


async def forged_in_an_answer(scene: Scene) -> str:
    signed = scene.event(scene.last.cid, height=3, signer=ANOTHER)
    await scene.say(wire.EventBatch(TOPIC, (packed(signed),), ()))
    return "durable.refused forged event"


async def truncated(scene: Scene) -> str:
    block, signature = packed(scene.event(scene.last.cid, height=3))
    await scene.carry((block[:-1], signature))
    return "refused: block cut short or with bytes after its end"


async def oversized(scene: Scene) -> str:
    signature = packed(scene.event(height=1))[1]
    await scene.carry((bytes(BLOCK_BYTES_MAX + 1), signature))
    return "refused: malformed message (ValidationError)"


async def too_high_above_its_parent(scene: Scene) -> str:
    await scene.carry(scene.event(scene.last.cid, height=7))
    return "streams.refused wrong height"


async def not_above_its_parent(scene: Scene) -> str:
    """As every event of a circle would be somewhere: heights cannot rise all the way round."""
    await scene.carry(scene.event(scene.last.cid, height=2))
    return "streams.refused wrong height"


async def a_parent_twice(scene: Scene) -> str:
    honest = scene.event(scene.last.cid, scene.last.cid[:-1] + b"\0", height=3)
    block = honest.block.replace(scene.last.cid[:-1] + b"\0", scene.last.cid)
    await scene.carry((block, honest.signature.to_bytes()))
    return "refused: event with a parent named twice"


async def parents_of_a_first_event(scene: Scene) -> str:
    block, signature = packed(scene.event(scene.last.cid, height=3))
    assert block.count(b"height\x03") == 1
    await scene.carry((block.replace(b"height\x03", b"height\x01"), signature))
    return "refused: event with an impossible height"


async def parents_that_never_existed(scene: Scene) -> str:
    await scene.say(wire.Heads((wire.StreamStatusEntry(TOPIC, (NEVER,), 6, 0, 0),), 0))
    await scene.carry(scene.event(NEVER, height=6), own=True)
    await scene.asked(wire.WantEvents)
    return "streams.given up"


async def wrong_bytes_for_what_was_asked(scene: Scene) -> str:
    await scene.carry(scene.event(NEVER, height=6))
    asked = await scene.asked(wire.WantEvents)
    assert asked.cids == (NEVER,)
    await scene.say(wire.EventBatch(TOPIC, (packed(scene.event(height=1)),), ()))
    return "streams.refused event that was not asked for"


async def heads_that_cannot_be(scene: Scene) -> str:
    await scene.say(wire.Heads((wire.StreamStatusEntry(TOPIC, (bytes(36),), 6, 0, 0),), 0))
    return "streams.refused impossible heads"


def name(sequence: int, signer: Identity, topic: str = TOPIC) -> bytes:
    now_us = time.time_ns() // 1000
    value = cid_of(b"%d" % sequence)
    return encode_name(sign_name(NETWORK, topic, ANOTHER.public, value, sequence, now_us, signer.sign))


NAME_KEY = name_key(ANOTHER.public, TOPIC)


async def an_old_name_again(scene: Scene) -> str:
    before, newer = name(1, ANOTHER), name(2, ANOTHER)
    scene.true.append(newer)
    await scene.say(wire.StoreValue(1, NAME_KEY, newer, KEEP_US))
    await until(lambda: scene.table.storage.records == 1, "the newer one is kept")
    await scene.say(wire.StoreValue(2, NAME_KEY, before, KEEP_US))
    return "kademlia.refused_older"


async def a_forged_name(scene: Scene) -> str:
    await scene.say(wire.StoreValue(1, NAME_KEY, name(2, scene.liar.identity), KEEP_US))
    return "kademlia.refused_values"


async def a_name_under_anothers_key(scene: Scene) -> str:
    await scene.say(wire.StoreValue(1, NAME_KEY, name(2, ANOTHER, "another"), KEEP_US))
    return "kademlia.refused_values"


async def wrong_bytes_to_keep(scene: Scene) -> str:
    await scene.say(wire.StoreValue(1, BLOCK_KEY, b"another block", KEEP_US))
    return "kademlia.refused_values"


async def wrong_bytes_for_a_key(scene: Scene) -> str:
    found: list[Any] = []
    streams = scene.victim._peer.streams
    streams.replicas.await_answer(Operation.GET, BLOCK_KEY, found.append)
    streams.table.do(lambda table, now_us: table.get(BLOCK_KEY, now_us))
    await until(lambda: any(find.key == BLOCK_KEY for find in scene._heard(wire.FindPeers)), "it is asked")
    find = next(find for find in scene._heard(wire.FindPeers) if find.key == BLOCK_KEY)
    await scene.say(wire.FindAnswer(find.number, (), (), b"another block"))
    await until(lambda: bool(found), "the lookup is over")
    assert found[0].value == b""
    return "kademlia.refused_values"


async def an_answer_to_another_question(scene: Scene) -> str:
    scene.victim._peer.streams.table.do(lambda table, now_us: table.get(BLOCK_KEY, now_us))
    find = await scene.asked(wire.FindPeers)
    await scene.say(wire.ValueStored(find.number, True))
    return "kademlia.refused_answers"


async def nonsense(scene: Scene) -> str:
    await scene.liar.send(wire.encode_stream(wire.Ping(1)).replace(b"\x08", b"\x63"))
    return "refused: malformed message (ValidationError)"


DEEDS: tuple[Callable[[Scene], Awaitable[str]], ...] = (
    forged,
    forged_in_an_answer,
    truncated,
    oversized,
    too_high_above_its_parent,
    not_above_its_parent,
    a_parent_twice,
    parents_of_a_first_event,
    parents_that_never_existed,
    wrong_bytes_for_what_was_asked,
    heads_that_cannot_be,
    an_old_name_again,
    a_forged_name,
    a_name_under_anothers_key,
    wrong_bytes_to_keep,
    wrong_bytes_for_a_key,
    an_answer_to_another_question,
    nonsense,
)


@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.__name__)
def test_what_is_wrong_is_refused_counted_and_blamed(
    deed: Callable[[Scene], Awaitable[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with scene(monkeypatch) as found:
            peer = found.victim._peer
            reason = await deed(found)
            await until(lambda: peer.counters[reason] > 0, reason)
            liar = found.liar.identity.id
            await until(lambda: found.faults[liar] > 0, "it is held against the peer")
            assert set(found.faults) == {liar}
            repair = peer.streams.repair
            await until(lambda: not repair.intake.pending and not repair.seeking.is_busy, "all waits end")
            state = peer.streams.store.state(TOPIC)
            assert (state.last, state.heads) == (2, (found.last.cid,))
            table = peer.streams.replicas.table
            assert ([] if table is None else [held.value for held in table.storage.values]) == found.true
            await found.liar.answered()
            assert found.reader.waiting == 0
            await found.victim.publish(TOPIC, b"still here")
            async with asyncio.timeout(30):
                assert (await anext(found.reader)).payload == b"still here"

    live(main())
