"""Hostile peers over real sockets: they speak just enough TCP, TLS and Vinecast to do harm.

An ``Attacker`` has an identity of its own, as anybody can, and says whatever it likes. ``half_open`` makes
connections that never say anything.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Sequence
from typing import Any, Self

from vinecast.core.log.batch_signature import sign_events
from vinecast.core.log.event_record import EventRecord
from vinecast.node.storage.identity_file import make_identity
from vinecast.node.transport.tls import contexts
from vinecast.peer.address import Address
from vinecast.peer.identity import Identity
from vinecast.peer.wire.frames import FrameKind, Splitter, control
from vinecast.peer.wire.handshake import Handshake
from vinecast.peer.wire.messages import EventFrame, Frame, Gossip, Introduction, encode, make_card
from vinecast.systems.common.wire import Card, Entry

ELSEWHERE = "127.0.0.2"
"""Where attackers come from, so that what is counted by host is not counted against honest peers."""
BATCH = 32
"""Connections that are made at once: fewer than a listening socket keeps for later (ours)."""
LOOK_S = 0.01
"""Between two looks at what the node said (ours)."""


class Attacker:
    """Somebody with a key of its own. ``connect`` gets as far as TLS; nothing has been said then."""

    def __init__(self, network: str, identity: Identity | None = None) -> None:
        self.network = network
        self.identity = identity or make_identity()
        self.frames: list[tuple[int, bytes]] = []
        """What the node said."""
        self._version = 0
        self._sequence = 0
        self._writer: asyncio.StreamWriter | None = None
        self._listening: asyncio.Task[None] | None = None

    async def connect(self, target: str, reads: bool = True) -> Self:
        """Come as far as TLS; ``reads``: whether it ever takes in what the node says."""
        address = Address.parse(target)
        reader, self._writer = await asyncio.open_connection(
            address.host,
            address.port,
            ssl=contexts(self.identity)[1],
            server_hostname="",
            local_addr=(ELSEWHERE, 0),
            limit=2**16,
        )
        if reads:
            self._listening = asyncio.create_task(self._listen(reader))
        return self

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        splitter = Splitter(2**24 - 1)
        with contextlib.suppress(OSError):
            while data := await reader.read(2**16):
                self.frames += splitter.feed(data)

    async def say(self, data: bytes) -> bool:
        """Send bytes as they are; whether the connection still took them."""
        assert self._writer is not None
        with contextlib.suppress(OSError):
            self._writer.write(data)
            await self._writer.drain()
            return not self._writer.is_closing()
        return False

    async def shake_hands(self, **changes: Any) -> bool:
        """Say HELLO as a decent node would, but for the changes."""
        handshake = Handshake(1, 1, self.network, "0", ELSEWHERE, 9, b"attacker")
        return await self.say(
            Handshake(
                **{f: changes.get(f, getattr(handshake, f)) for f in handshake.__struct_fields__}
            ).frame()
        )

    async def send(self, *frames: Frame | bytes) -> bool:
        """Send data frames, in one piece."""
        bodies = (frame if isinstance(frame, bytes) else encode(frame) for frame in frames)
        return await self.say(b"".join(control(FrameKind.DATA, body) for body in bodies))

    async def refused(self) -> str:
        """Wait until the node has had enough; why, if it said so."""
        assert self._listening is not None
        async with asyncio.timeout(30):
            await self._listening
        reasons = [body.decode() for kind, body in self.frames if kind == FrameKind.REFUSED]
        return reasons[-1] if reasons else ""

    async def answered(self) -> None:
        """Wait until the node has looked at all that was said, or has had enough."""
        assert self._listening is not None
        pongs = sum(kind == FrameKind.PONG for kind, _ in self.frames)
        await self.say(control(FrameKind.PING, bytes(8)))
        while sum(kind == FrameKind.PONG for kind, _ in self.frames) == pongs and not self._listening.done():
            await asyncio.sleep(LOOK_S)

    async def leave(self) -> None:
        """Break the connection."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
        if self._writer is not None:
            self._writer.transport.abort()

    # What it can say. All of it has the right form; whether it is true is another matter.

    def card(self, topics: Sequence[str] = (), version: int | None = None, address: str = "") -> Card:
        """A card of its own, newer than the last unless told otherwise."""
        self._version = self._version + 1 if version is None else version
        who = self.identity
        return make_card(
            who.sign, self.network, who.public, address, self._version, tuple(sorted(set(topics)))
        )

    def introduction(self, topics: Sequence[str] = ()) -> Introduction:
        """The first frame of an honest peer."""
        return Introduction(Entry(self.card(topics), 0, b"", b""))

    def gossip(self, *cards: Card, kind: str = "cyclon.request", cycle: int = 1) -> Gossip:
        """A message that hands on some cards."""
        return Gossip(
            kind, cycle, Entry(self.card(), 0, b"", b""), tuple(Entry(c, 0, b"", b"") for c in cards)
        )

    def event(self, topic: str, payload: bytes = b"", signer: Identity | None = None) -> EventFrame:
        """An event of its own; or, signed by somebody else, a forged one."""
        self._sequence += 1
        record = EventRecord(topic, self.identity.public, self._sequence, 0, payload)
        (signed,) = sign_events(self.network, [record], (signer or self.identity).sign)
        return EventFrame(0, ((signed.block, signed.signature.to_bytes()),))


def stranger_card(network: str, topics: Sequence[str] = (), address: str = f"{ELSEWHERE}:9") -> Card:
    """A true card of somebody who does not exist."""
    return Attacker(network).card(topics, address=address)


@contextlib.asynccontextmanager
async def half_open(target: str, count: int, said: bytes = b"") -> AsyncIterator[list[socket.socket]]:
    """So many connections on which nothing is ever said, or no more than this."""
    address, loop = Address.parse(target), asyncio.get_running_loop()
    sockets: list[socket.socket] = []

    async def call(one: socket.socket) -> None:
        one.setblocking(False)
        one.bind((ELSEWHERE, 0))
        with contextlib.suppress(OSError):
            await loop.sock_connect(one, (address.host, address.port))
            await loop.sock_sendall(one, said)

    try:
        for begin in range(0, count, BATCH):
            batch = [socket.socket() for _ in range(min(BATCH, count - begin))]
            sockets += batch
            await asyncio.gather(*map(call, batch))
            for _ in batch:  # attacker and victim share a loop: let it look at each
                await asyncio.sleep(0)
        yield sockets
    finally:
        for one in sockets:
            one.close()
