"""What a node remembers: its subscriptions, the peers it met, when it was on line, which numbers it used.

All of it is small and held in memory, where reading it costs nothing; the file (``node/storage/store_file``)
is read once, at the start, and from then on only written, behind the node's back
(``node/storage/store_writer``): every method returns at once, and whoever must know that something is safe
waits for ``durable``.

Sequence numbers are reserved in blocks, a block ahead and safe against power failure, so that one is never
used twice; a crash skips what was left of a block, a close in good order skips none.

The store has no clock: times are arguments, in microseconds since the epoch.
"""

import asyncio
import heapq
import logging
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self, cast

from vinecast.core.config import check, limited
from vinecast.core.errors import ClosedError, InputError
from vinecast.node.storage.online_log import OnlineLog, Session
from vinecast.node.storage.store_file import KnownPeer, StoreFile, Write
from vinecast.node.storage.store_writer import SEQUENCE, Key, StoreWriter
from vinecast.peer.address import Address

log = logging.getLogger("vinecast.node.store")


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """How much a store remembers, and how it writes."""

    peers_max: int = limited(1000, at_least=1)
    """Peers remembered; the one not seen for longest is forgotten first."""
    sessions_max: int = limited(4096, at_least=1)
    """Sessions in the on-line log; the oldest is forgotten first."""
    gap_s_max: float = limited(300.0, above=0)
    """Marks further apart than this belong to two sessions (ours: the shortest slot of S4)."""
    sequence_block: int = limited(65_536, at_least=2)
    """Sequence numbers reserved at a time."""
    commit_after_s: float = limited(0.1, at_least=0)
    """How long changes are collected before they are committed."""
    retry_s: float = limited(0.5, above=0)
    """When a commit that failed is first tried again; doubled with every further failure."""
    retry_s_max: float = limited(30.0, above=0)
    """The longest wait before a commit is tried again."""

    def __post_init__(self) -> None:
        check(self)


class Store:
    """One node's memory. Use it from one event loop; open it with ``open`` or ``in_memory``."""

    def __init__(self, file: StoreFile, thread: ThreadPoolExecutor, config: StoreConfig) -> None:
        self._config = config
        times = (config.commit_after_s, config.retry_s, config.retry_s_max)
        self._writer = StoreWriter(file, thread, *times, self._written)
        kept = file.contents
        self._subscriptions = {topic: slot for slot, topic in kept.subscriptions.items()}
        self._subscription_slots = _Slots(kept.subscriptions)
        self._peers = {peer.id: (slot, peer) for slot, peer in kept.peers.items()}
        self._peer_slots = _Slots(kept.peers)
        self._online = OnlineLog(config.sessions_max, round(config.gap_s_max * 1_000_000), kept.sessions)
        self._meta = kept.meta
        self._next = self._reserved = self._asked = kept.sequence
        self._closed = False
        while len(self._peers) > config.peers_max:
            self.drop_peer(next(iter(self._peers)))

    @classmethod
    async def open(cls, folder: Path, node: bytes, config: StoreConfig | None = None) -> Self:
        """The store in a folder, made if there is none; InputError when it cannot be this node's."""
        return await cls._open(folder, node, config or StoreConfig())

    @classmethod
    async def in_memory(cls, node: bytes, config: StoreConfig | None = None) -> Self:
        """A store that is forgotten when it is closed."""
        return await cls._open(None, node, config or StoreConfig())

    @classmethod
    async def _open(cls, folder: Path | None, node: bytes, config: StoreConfig) -> Self:
        thread = ThreadPoolExecutor(1, thread_name_prefix="vinecast-store")
        try:
            file = await asyncio.get_running_loop().run_in_executor(thread, StoreFile, folder, node)
            store = cls(file, thread, config)
        except BaseException:
            thread.shutdown(wait=False)
            raise
        try:
            store._reserve()
            await store.durable()
        except BaseException:
            await store._writer.close()
            raise
        return store

    async def close(self) -> None:
        """Write what is noted, and let go of the file. A failure is reported like any other, not raised."""
        if self._closed:
            return
        self._closed = True
        self._writer.note(SEQUENCE, "UPDATE sequence SET bound = ?", self._next)
        try:
            await self.durable()
        except InputError as error:
            log.error("closing with changes that could not be written: %s", error)
        finally:
            await self._writer.close()

    async def durable(self) -> None:
        """Wait until everything up to now is committed; InputError when that failed (it is tried again)."""
        await self._writer.durable()

    @property
    def counters(self) -> Counter[str]:
        """Commits, commits failed, writes (rows in those that did not)."""
        return self._writer.counters

    @property
    def trouble(self) -> str | None:
        """Why the last commit failed; None when it did not."""
        return self._writer.trouble

    # What is remembered.

    def subscriptions(self) -> list[str]:
        """The topics and patterns subscribed to, in the order of their names."""
        return sorted(self._subscriptions)

    def add_subscription(self, topic: str) -> None:
        """Remember that the application subscribed to a topic or pattern."""
        if topic not in self._subscriptions:
            _check_values(topic)
            self._subscriptions[topic] = slot = self._subscription_slots.take()
            self._writer.note(
                ("subscription", slot), "INSERT OR REPLACE INTO subscriptions VALUES (?, ?)", slot, topic
            )

    def drop_subscription(self, topic: str) -> None:
        """Forget a subscription."""
        slot = self._subscriptions.pop(topic, None)
        if slot is not None:
            self._subscription_slots.free(slot)
            self._writer.note(("subscription", slot), "DELETE FROM subscriptions WHERE slot = ?", slot)

    def peers(self) -> list[KnownPeer]:
        """The peers last met, the latest first."""
        return [peer for _, peer in reversed(self._peers.values())]

    def add_peer(self, peer: bytes, address: Address, seen_us: int) -> None:
        """Remember where a peer was just met."""
        _check_values(address.host, address.port, seen_us)
        slot, _ = self._peers.pop(peer, (None, None))  # so that the order is that of being seen
        if slot is None:
            if len(self._peers) == self._config.peers_max:
                self.drop_peer(next(iter(self._peers)))
            slot = self._peer_slots.take()
        self._peers[peer] = slot, KnownPeer(peer, address, seen_us)
        values = (slot, peer, address.host, address.port, seen_us)
        self._writer.note(("peer", slot), "INSERT OR REPLACE INTO peers VALUES (?, ?, ?, ?, ?)", *values)

    def drop_peer(self, peer: bytes) -> None:
        """Forget a peer."""
        slot, _ = self._peers.pop(peer, (None, None))
        if slot is not None:
            self._peer_slots.free(slot)
            self._writer.note(("peer", slot), "DELETE FROM peers WHERE slot = ?", slot)

    def meta(self, key: str) -> bytes | None:
        """What was put under a key."""
        return self._meta.get(key)

    def put_meta(self, key: str, value: bytes) -> None:
        """Remember something small under a key."""
        _check_values(key)
        self._meta[key] = value
        self._writer.note(("meta", key), "INSERT OR REPLACE INTO meta VALUES (?, ?)", key, value)

    # When the node was on line.

    def mark_on(self, now_us: int) -> None:
        """The node came on line."""
        _check_values(now_us)
        self._note_session(self._online.mark_on(now_us))

    def mark_still_on(self, now_us: int) -> None:
        """The node is still on line: say so every minute or so."""
        _check_values(now_us)
        self._note_session(self._online.mark_still_on(now_us))

    def mark_off(self, now_us: int) -> None:
        """The node leaves in good order."""
        _check_values(now_us)
        self._note_session(self._online.mark_off(now_us))

    def online(self, now_us: int) -> list[tuple[int, int]]:
        """When the node was on line up to now: (on, off) in order and apart."""
        return self._online.online(now_us)

    def sessions(self) -> tuple[Session, ...]:
        """The on-line log as it was written."""
        return self._online.sessions()

    def _note_session(self, session: Session) -> None:
        values = (session.number, session.on_us, session.last_us, int(session.graceful))
        place = session.number % self._config.sessions_max  # bounds what is noted, as it bounds the log
        self._writer.note(("session", place), "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?)", *values)
        self._writer.note(("sessions", 0), "DELETE FROM sessions WHERE number < ?", self._online.oldest)

    # Which sequence numbers were used.

    async def next_sequence(self) -> int:
        """A number for an event of this node, never given before. Waits only when a block could not be
        reserved in time; InputError when it cannot be at all."""
        while self._next >= self._reserved and not self._closed:
            if self._next >= self._asked:  # others may have taken what was reserved while we waited
                self._reserve()
            await self.durable()
        if self._closed:
            raise ClosedError("the store is closed")
        self._next += 1
        if self._next + self._config.sequence_block // 2 >= self._asked:
            self._reserve()
        return self._next - 1

    def _reserve(self) -> None:
        self._asked += self._config.sequence_block
        self._writer.note(SEQUENCE, "UPDATE sequence SET bound = ?", self._asked)

    def _written(self, noted: dict[Key, Write]) -> None:
        if SEQUENCE in noted:
            self._reserved = cast(int, noted[SEQUENCE][1][0])


class _Slots:
    """Numbers of rows, the smallest free one first."""

    def __init__(self, taken: Iterable[int]) -> None:
        used = set(taken)
        self._end = max(used, default=-1) + 1
        self._free = [slot for slot in range(self._end) if slot not in used]  # ascending: a heap

    def take(self) -> int:
        if self._free:
            return heapq.heappop(self._free)
        self._end += 1
        return self._end - 1

    def free(self, slot: int) -> None:
        heapq.heappush(self._free, slot)


def _check_values(*values: str | int) -> None:
    """Refuse what SQLite cannot hold, before it is noted: it would make every later commit fail."""
    for value in values:
        if isinstance(value, int):
            if not -(2**63) <= value < 2**63:
                raise InputError(f"a store holds numbers of 64 bits, not {value}")
        else:
            try:
                value.encode()
            except UnicodeEncodeError:
                raise InputError(f"a store holds valid Unicode, not {value[:80]!r}") from None
