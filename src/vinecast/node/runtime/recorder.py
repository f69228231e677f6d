"""The recorder of a live node: its peer's inputs, on disk, so that what happened can be had again.

``handle`` takes the place of the peer's. Every entry is put in line for the writer within a moment; when a
segment is full a snapshot begins the next one. Whatever goes wrong with the record ends it, with one warning
and a counter; the node goes on. Where the state of the node has outgrown ``record_bytes`` the record pauses,
and goes on as another run when there is room.
"""

import asyncio
import hashlib
import logging
import platform
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from vinecast.core.config import as_table, read
from vinecast.core.errors import InputError
from vinecast.core.version import VERSION
from vinecast.node.runtime.config import WITHOUT_PAYLOADS, NodeConfig
from vinecast.node.storage.record_folder import RECORD_FOLDER
from vinecast.node.storage.record_writer import WAITING_BYTES_MAX, RecordWriter
from vinecast.peer.config import PeerConfig
from vinecast.peer.inputs import PeerInput
from vinecast.peer.links import LinkLimits
from vinecast.peer.outputs import PeerOutput
from vinecast.peer.peer import Peer, PeerPorts
from vinecast.peer.record.recorder import RecordedPeer
from vinecast.peer.record.segment import SegmentHeader, pack_part

log = logging.getLogger("vinecast.node")

ROOMS = ("core", "protocols", "systems", "peer")
"""Whose code a peer is made of."""
SEGMENTS = 8
"""A segment is full at this part of ``record_bytes`` (ours): so much of the past goes at once."""
LARGE_SHARE = 4
"""… or later, at this part of the snapshot that it begins with (ours): a large state is not written all the
time."""
CHUNK_BYTES = 64 * 1024
"""What is written at once (ours)."""
FLUSH_S = 0.25
"""The longest that an entry waits to be put in line (ours): what a process that is killed loses."""
STOPPED, PAUSED = "recording stopped", "recording paused"
PAUSE_S, PAUSE_S_MAX = 60.0, 3600.0
"""After so long a record that has no room is tried again (ours); twice as long each time."""


@lru_cache(maxsize=1)
def code_digest() -> str:
    """A digest of the code that a peer is made of. Takes a moment, the first time."""
    digest, package = hashlib.sha256(), Path(__file__).parents[2]
    for room in ROOMS:
        for path in sorted((package / room).rglob("*.py")):
            data = path.read_bytes()
            digest.update(f"{path.relative_to(package).as_posix()} {len(data)} ".encode() + data)
    return digest.hexdigest()[:32]


class PeerMaking(NamedTuple):
    """What a peer is made of, besides its ports."""

    public: bytes
    network: str
    seed: int
    config: PeerConfig
    limits: LinkLimits
    card_version: int = 0

    def make(self, ports: PeerPorts) -> Peer:
        """The peer."""
        return Peer(self.public, self.network, self.seed, self.config, ports, self.limits, self.card_version)


async def start_recorder(
    config: NodeConfig, folder: Path | None, making: PeerMaking, ports: PeerPorts, life: str
) -> "Recorder | None":
    """The recorder of a node that keeps its files in this folder; None where nothing is recorded."""
    place = record_place(config, folder)
    if place is None:
        return None
    await asyncio.get_running_loop().run_in_executor(None, code_digest)
    return Recorder(place, config.record_bytes, config.record != WITHOUT_PAYLOADS, making, ports, life)


def record_place(config: NodeConfig, folder: Path | None) -> Path | None:
    """Where a node that keeps its files in this folder is recorded; None where nothing is."""
    if not config.record:
        return None
    if config.record_folder:
        return Path(config.record_folder)
    if folder is None:
        raise InputError("a node without a folder needs a record_folder, since it has record set")
    return folder / RECORD_FOLDER


class Recorder:
    """Records one peer, from its beginning. Make it where the node's loop runs."""

    def __init__(
        self,
        folder: Path,
        bytes_max: int,
        with_payloads: bool,
        making: PeerMaking,
        ports: PeerPorts,
        life: str,
    ) -> None:
        """``life``: names this run of the node. InputError when there can be no record there."""
        self.counters: Counter[str] = Counter()
        """Whether recording stopped, and how many times it paused."""
        self._config = _peer_table(making.config)
        making = making._replace(config=read(PeerConfig, self._config))  # and nothing else of the node's
        self._folder, self._with_payloads, self._making = folder, with_payloads, making
        self._run = self._life = life
        self._loop = asyncio.get_running_loop()
        self._recorded = RecordedPeer(making.make, ports, with_payloads, self._note, self._fail)
        self._writer = RecordWriter(folder, making.public, bytes_max, self._on_stopped, self._on_crowded)
        self._pause_s = PAUSE_S
        self._resuming: asyncio.TimerHandle | None = None
        self._entries = self._size = self._chunk_size = 0
        self._chunk: list[bytes] = []
        self._flushing: asyncio.TimerHandle | None = None
        self._bytes_max, self._segment_max = bytes_max, 0
        self._begin_segment()

    @property
    def peer(self) -> Peer:
        """The peer that is recorded."""
        return self._recorded.peer

    def handle(self, what: PeerInput, now_us: int) -> list[PeerOutput]:
        """See ``Peer``."""
        if self._size >= self._segment_max and self._recorded.runs:
            self._pause_s = PAUSE_S  # this one had room
            self._begin_segment()
        return self._recorded.handle(what, now_us)

    async def close(self) -> None:
        """Write what was noted, and end."""
        if self._resuming is not None:
            self._resuming.cancel()
        self._flush()
        self._recorded.stop()
        await self._loop.run_in_executor(None, self._writer.close)

    def _begin_segment(self) -> None:
        self._flush()
        making = self._making
        header = SegmentHeader(
            version=VERSION,
            code=code_digest(),
            python=platform.python_version(),
            network=making.network,
            public=making.public,
            seed=making.seed,
            config=self._config,
            limits=list(making.limits),
            with_payloads=self._with_payloads,
            life=self._life,
            number=0,  # the writer knows
            begins_at=self._entries + 1,
        )
        try:
            snapshot = self._recorded.snapshot()
        except Exception as error:
            self._fail(error)
            return
        self._size = 0
        large = min(len(snapshot) // LARGE_SHARE, self._bytes_max * 3 // SEGMENTS)
        self._segment_max = max(self._bytes_max // SEGMENTS, large)
        self._writer.begin(header, snapshot)

    def _note(self, entry: bytes) -> None:
        part = pack_part(entry)
        self._entries += 1
        self._size += len(part)
        self._chunk_size += len(part)
        self._chunk.append(part)
        if self._chunk_size >= CHUNK_BYTES:
            self._flush()
        elif self._flushing is None:
            self._flushing = self._loop.call_later(FLUSH_S, self._flush)

    def _flush(self) -> None:
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        if not self._chunk or not self._recorded.runs:
            return
        if self._writer.waiting > WAITING_BYTES_MAX:
            self._stop("the disk cannot keep up")
            return
        self._writer.write(self._chunk, self._chunk_size)
        self._chunk, self._chunk_size = [], 0

    # When it pauses.

    def _on_crowded(self, needed: int) -> None:
        """On the writer's thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._pause, needed)

    def _pause(self, needed: int) -> None:
        if not self._recorded.runs or self._resuming is not None:
            return
        if PAUSED not in self.counters:
            log.warning(
                "recording pauses: the state of the node, or one input, does not fit into record_bytes = %s: "
                "set it to %s or more; the node goes on, and recording is tried again after %.0f s and more",
                f"{self._bytes_max:,}",
                f"{needed:,}",
                self._pause_s,
            )
        self.counters[PAUSED] += 1
        self._recorded.stop()
        self._chunk, self._chunk_size = [], 0
        self._resuming = self._loop.call_later(self._pause_s, self._resume)
        self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)

    def _resume(self) -> None:
        self._resuming = None
        if STOPPED in self.counters:
            return
        self._life, self._entries = f"{self._run} after pause {self.counters[PAUSED]}", 0
        self._recorded.resume()
        self._begin_segment()

    # When it ends.

    def _fail(self, error: Exception) -> None:
        log.error("an input could not be recorded", exc_info=error)
        self._stop(f"an input could not be recorded ({type(error).__name__})")

    def _on_stopped(self, why: str) -> None:
        """On the writer's thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop, why)

    def _stop(self, why: str) -> None:
        if STOPPED not in self.counters:
            self.counters[STOPPED] = 1
            log.warning("recording stopped: %s; the node goes on, and %s ends here", why, self._folder)
        self._recorded.stop()
        self._chunk, self._chunk_size = [], 0


def _peer_table(config: PeerConfig) -> dict[str, Any]:
    """The settings of a peer, as a table: those of a node that are not a peer's are left out."""
    return {
        name: value for name, value in as_table(config).items() if name in PeerConfig.__dataclass_fields__
    }
