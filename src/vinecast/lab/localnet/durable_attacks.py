"""The attacker of durable streams: a process that sends what no honest node sends, in every way that we know.

Started by ``lab/localnet/durable_kinds`` as ``python -m vinecast.lab.localnet.durable_attacks``; see
``lab/localnet/attacks``. It has keys of its own, so that it can sign what it likes. Events of its own that
stand where they should are not among what it sends: anybody may publish those.
"""

import asyncio
import hashlib
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from vinecast.core.log.batch_signature import sign_events
from vinecast.core.log.blocks import CID_BYTES, CID_HEAD
from vinecast.core.log.event_record import EventRecord
from vinecast.core.log.name_record import LIFETIME_US, decode_name, encode_name, sign_name
from vinecast.lab.localnet.attacker import LOOK_S, Attacker
from vinecast.lab.localnet.attacks import HEARD_S, Kinds, Target, card_at, serve
from vinecast.node.runtime.loop import run
from vinecast.peer.streams import messages as wire
from vinecast.peer.wire.frames import FrameKind
from vinecast.peer.wire.messages import StreamFrame, decode
from vinecast.protocols.streams.messages import ALWAYS

TRIES = 8  # ours: of one kind, on one connection
LISTED = 64  # ours: true events that are played again
SEQUENCE = 1 << 40  # ours: of a forged name record, higher than any owner has come

Event = tuple[bytes, bytes]
"""A block and its signature, as they travel."""
T = TypeVar("T", bound=wire.Inner)


def _nobody(target: Target) -> bytes:
    """A content id that nobody has anything for."""
    return CID_HEAD + hashlib.sha256(target.draw.randbytes(16)).digest()


def _event(attacker: Attacker, target: Target, height: int, *parents: bytes, publisher: bytes = b"") -> Event:
    """An event that the attacker signs, in its own name or in another's."""
    record = EventRecord(
        target.topic,
        publisher or attacker.identity.public,
        target.draw.getrandbits(32),
        time.time_ns() // 1000,
        b"a lie",
        parents=parents,
        height=height,
    )
    (signed,) = sign_events(target.network, [record], attacker.identity.sign)
    return signed.block, signed.signature.to_bytes()


def _heard(attacker: Attacker, kind: type[T]) -> Iterator[T]:
    """What the node has said of a kind."""
    for code, body in list(attacker.frames):
        frame = decode(body) if code == FrameKind.DATA else None
        inner = wire.decode_stream(frame) if isinstance(frame, StreamFrame) else None
        if isinstance(inner, kind):
            yield inner


async def _ask(attacker: Attacker, question: wire.Inner, kind: type[T]) -> T:
    """Ask the node something that it answers to anybody."""
    await attacker.send(wire.encode_stream(question))
    async with asyncio.timeout(HEARD_S):
        while not (found := list(_heard(attacker, kind))):
            await asyncio.sleep(LOOK_S)
    return found[-1]


async def _say(target: Target, make: Callable[[Attacker], Awaitable[list[wire.Inner]]]) -> int:
    """Say something on a new connection, and wait until the node has looked at it."""
    attacker = await target.enter()
    try:
        lies = await make(attacker)
        await attacker.send(*map(wire.encode_stream, lies))
        async with asyncio.timeout(HEARD_S):
            await attacker.answered()
    finally:
        await attacker.leave()
    return len(lies)


async def _forged(target: Target) -> int:
    """Events in another's name, as from its neighbour and as to a replica."""
    victim = (await card_at(target, target.other)).public

    async def make(attacker: Attacker) -> list[wire.Inner]:
        events = [_event(attacker, target, 1, publisher=victim) for _ in range(TRIES)]
        carried = [wire.CarriedEvents(1, True, (event,)) for event in events[1:]]
        return [wire.Push(target.topic, tuple(events[:1])), *carried]

    return await _say(target, make)


async def _last_of(attacker: Attacker, target: Target) -> tuple[bytes, int]:
    """A true event of the stream, and its height."""
    listed = await _ask(attacker, wire.ListStream(target.topic, 0, b""), wire.StreamListing)
    return listed.cids[-1], listed.height


async def _wrong_heights(target: Target) -> int:
    """Events that follow a true one, far too high."""

    async def make(attacker: Attacker) -> list[wire.Inner]:
        parent, height = await _last_of(attacker, target)
        events = [_event(attacker, target, height + 2 + i, parent) for i in range(TRIES)]
        return [wire.CarriedEvents(1, False, (event,)) for event in events]

    return await _say(target, make)


async def _without_parents(target: Target) -> int:
    """Events whose parents never existed."""

    async def make(attacker: Attacker) -> list[wire.Inner]:
        events = [_event(attacker, target, 2 + i, _nobody(target)) for i in range(TRIES)]
        return [wire.CarriedEvents(1, True, (event,)) for event in events]

    return await _say(target, make)


async def _unasked(target: Target) -> int:
    """Answers that nobody asked for."""

    async def make(attacker: Attacker) -> list[wire.Inner]:
        events = [_event(attacker, target, 7, _nobody(target)) for _ in range(TRIES)]
        return [wire.EventBatch(target.topic, (event,), ()) for event in events]

    return await _say(target, make)


async def _impossible_heads(target: Target) -> int:
    """Heads that are no content ids."""

    async def make(attacker: Attacker) -> list[wire.Inner]:
        told = wire.StreamStatusEntry(target.topic, (bytes(CID_BYTES),), 1 << 20, 0, 0)
        return [wire.Heads((told,), ALWAYS)] * TRIES

    return await _say(target, make)


async def _wrong_bytes(target: Target) -> int:
    """A head that does not exist; asked for it, another event."""
    attacker = await target.enter()
    try:
        _, height = await _last_of(attacker, target)
        told = wire.StreamStatusEntry(target.topic, (_nobody(target),), height + 1, 0, 0)
        await _ask(attacker, wire.Heads((told,), ALWAYS), wire.WantEvents)
        await attacker.send(
            wire.encode_stream(wire.EventBatch(target.topic, (_event(attacker, target, 1),), ()))
        )
        async with asyncio.timeout(HEARD_S):
            await attacker.answered()
    finally:
        await attacker.leave()
    return 1


async def _replayed(target: Target) -> int:
    """True events once more, in every way that events come."""

    async def make(attacker: Attacker) -> list[wire.Inner]:
        listed = await _ask(attacker, wire.ListStream(target.topic, 0, b""), wire.StreamListing)
        batch = await _ask(attacker, wire.WantEvents(target.topic, listed.cids[:LISTED]), wire.EventBatch)
        again: list[wire.Inner] = [wire.Push(target.topic, batch.events), wire.EventBatch(*_again(batch))]
        return again + [wire.CarriedEvents(1, True, (event,)) for event in batch.events]

    return await _say(target, make)


def _again(batch: wire.EventBatch) -> tuple[str, tuple[Event, ...], tuple[bytes, ...]]:
    return batch.topic, batch.events, ()


async def _names(target: Target) -> int:
    """An owner's old name record again; records that the attacker signed; and what is none."""
    old = decode_name(target.record)

    async def make(attacker: Attacker) -> list[wire.Inner]:
        now_us = time.time_ns() // 1000
        sign = attacker.identity.sign
        forged = sign_name(target.network, old.topic, old.owner, old.value, SEQUENCE, now_us, sign)
        own = sign_name(
            target.network, old.topic, attacker.identity.public, old.value, SEQUENCE, now_us, sign
        )
        lies = [target.record, encode_name(forged), encode_name(own), target.record[:-1], b"no record"]
        return [wire.StoreValue(i, old.key, value, LIFETIME_US) for i, value in enumerate(lies)]

    return await _say(target, make)


NAMES = "name records, old and forged"
KINDS: Kinds = {
    "events in another's name": _forged,
    "events at wrong heights": _wrong_heights,
    "events whose parents never existed": _without_parents,
    "answers that nobody asked for": _unasked,
    "heads that are none": _impossible_heads,
    "wrong bytes for a content id": _wrong_bytes,
    "true events again": _replayed,
    NAMES: _names,
}


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, who ends our input
    run(serve(sys.argv[1], int(sys.argv[2]), KINDS))
