"""Speed of durable streams on this machine's disk, next to our targets.

Events are as a publisher makes them: signed in batches, each after the one before it. They are taken as they
come from a connection, as bytes: read, their signatures checked, kept, committed with ``fsync``. One core
does all of that, the writer's thread too. On a machine that others use too, CPU time is the stable figure: it
stands beside every rate; and the same bytes, appended to a plain file with as many calls of ``fsync``, say
what the disk is worth.
"""

import asyncio
import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from vinecast.core.errors import Bug, InputError
from vinecast.core.log.batch_signature import SignatureChecker, read_signed_event, sign_events
from vinecast.core.log.blocks import cid_of
from vinecast.core.log.event_record import EventRecord, encode
from vinecast.lab.bench.node import Tell
from vinecast.lab.bench.result import Result
from vinecast.node.api.publisher import HAND
from vinecast.node.runtime.loop import run
from vinecast.node.storage.identity_file import make_identity
from vinecast.node.storage.streams_store import StreamStore
from vinecast.peer.identity import verify

PAYLOAD_BYTES = 256
STORE_MIN, REPLAY_MIN, OPEN_MS_MAX = 8_000, 50_000, 50.0
TOPIC, NETWORK, NODE = "bench/durable", "bench", bytes(32)
TURN = 1000  # ours: events read at a time
OPENED = 5  # ours: how often a store is opened

Raw = tuple[bytes, bytes]
"""A block and its signature, as they travel."""


@dataclass(frozen=True, slots=True)
class DurableSizes:
    """How much is measured."""

    events: int = 50_000
    """Of one round."""
    repeat: int = 3
    stored: int = 1_000_000
    """Of the stream that is opened."""
    missed: int = 100_000
    """Of the stream that is caught up with."""


QUICK = DurableSizes(2_000, 1, 5_000, 2_000)


@dataclass(frozen=True, slots=True)
class Round:
    """What one round took."""

    events: int
    seconds: float
    cpu_s: float

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.events / self.seconds

    @property
    def cpu_us(self) -> float:
        """Of CPU time, an event."""
        return self.cpu_s / self.events * 1e6


class StreamMaker:
    """Makes a stream, a handful at a time."""

    def __init__(self) -> None:
        self._identity = make_identity()
        self._made = 0
        self._last: tuple[bytes, ...] = ()

    def hands(self, events: int) -> list[list[Raw]]:
        """The next events, signed by the handful as ``node/api/publisher`` does."""
        sizes = [min(HAND, events - begin) for begin in range(0, events, HAND)]
        return [self._hand(size) for size in sizes]

    def _hand(self, size: int) -> list[Raw]:
        records = []
        for _ in range(size):
            self._made += 1
            record = EventRecord(
                topic=TOPIC,
                publisher=self._identity.public,
                sequence=self._made,
                time_us=1_700_000_000_000_000 + self._made,
                payload=self._made.to_bytes(8, "big") * (PAYLOAD_BYTES // 8),
                parents=self._last,
                height=self._made,
            )
            self._last = (cid_of(encode(record)),)
            records.append(record)
        signed = sign_events(NETWORK, records, self._identity.sign)
        return [(event.block, event.signature.to_bytes()) for event in signed]


def bench_durable(
    sizes: DurableSizes, folder: Path | None = None, tell: Tell = lambda text: None
) -> Iterator[Result]:
    """All figures. The folder lies on the disk that is measured (None: where temporary files go)."""
    try:
        with tempfile.TemporaryDirectory(prefix="vinecast-bench-", dir=folder) as name, _one_core():
            yield from run(_measure(sizes, Path(name), tell))
    except OSError as error:
        raise InputError(f"cannot measure in {folder or tempfile.gettempdir()}: {error.strerror}") from None


async def _measure(sizes: DurableSizes, folder: Path, tell: Tell) -> list[Result]:
    stored: list[Round] = []
    plain: list[Round] = []
    replayed: list[Round] = []
    for i in range(sizes.repeat):
        tell(f"{sizes.events:,} events, stored and replayed: round {i + 1} of {sizes.repeat}")
        hands = StreamMaker().hands(sizes.events)
        store = await StreamStore.open(folder / f"round-{i}", NODE)
        with _timing(sizes.events, stored):
            await _take(hands, store)
        with _timing(sizes.events, plain):
            _append(hands, folder / f"plain-{i}", store.counters["commits"])
        with _timing(sizes.events, replayed):
            _replay(store, 0, sizes.events)
        await store.close()
    what = f"{PAYLOAD_BYTES}-byte events, one core"
    rows = [
        rate_of(f"verify and store, {what}", stored, STORE_MIN),
        rate_of(f"the same bytes into a plain file, {what}", plain),
        rate_of(f"replay from the store, {what}", replayed, REPLAY_MIN),
    ]
    return rows + await _large(sizes, folder / "large", tell, what)


async def _large(sizes: DurableSizes, folder: Path, tell: Tell, what: str) -> list[Result]:
    """A stream as long as one gets: what its last events cost, and how long it takes to open."""
    publisher = StreamMaker()
    stored: list[Round] = []
    replayed: list[Round] = []
    store = await StreamStore.open(folder, NODE)
    for begin in range(0, sizes.stored, sizes.events):
        tell(f"a long stream: {begin:,} of {sizes.stored:,} events")
        step = min(sizes.events, sizes.stored - begin)
        hands = publisher.hands(step)
        with _timing(step, stored):
            await _take(hands, store)
    with _timing(step, replayed):
        _replay(store, sizes.stored - step, step)
    await store.close()
    opened = [await _open(folder, sizes.stored) for _ in range(OPENED)]
    middle = statistics.median(opened)
    long = f"a stream of {sizes.stored:,} events"
    return [
        rate_of(f"{long}: verify and store the last {step:,}, {what}", stored[-1:]),
        rate_of(f"{long}: replay the last {step:,}, {what}", replayed),
        Result(
            f"{long}: open it",
            f"{middle:.2g} ms ({min(opened):.2g} … {max(opened):.2g})",
            middle,
            f"≤ {OPEN_MS_MAX:g} ms",
            middle <= OPEN_MS_MAX,
        ),
    ]


async def _take(hands: Sequence[Sequence[Raw]], store: StreamStore) -> None:
    """What a node does with events that come over connections, until they are safe."""
    checker = SignatureChecker(verify, NETWORK)
    for hand in hands:
        await store.room()
        events = [read_signed_event(block, cid_of(block), signature) for block, signature in hand]
        if not all(map(checker.holds, events)):
            raise Bug("a signature of the benchmark's own does not hold")
        store.keep(events, time.time_ns() // 1000)
        await asyncio.sleep(0)
    await store.durable()


def _append(hands: Sequence[Sequence[Raw]], path: Path, syncs: int) -> None:
    with path.open("wb") as file:
        for number, hand in enumerate(hands, 1):
            file.write(b"".join(block + signature for block, signature in hand))
            if number * syncs // len(hands) > (number - 1) * syncs // len(hands):
                file.flush()
                os.fsync(file.fileno())


def _replay(store: StreamStore, after: int, events: int) -> None:
    """Read events as a consumer does."""
    end = after + events
    while found := store.after(TOPIC, after, TURN):
        after = found[-1].position
    if after != end:
        raise Bug(f"the benchmark kept events up to {end}, and read up to {after}")


async def _open(folder: Path, events: int) -> float:
    """Milliseconds until a consumer of the stream could read."""
    begun = time.perf_counter()
    store = await StreamStore.open(folder, NODE)
    last = store.state(TOPIC).last
    took_ms = (time.perf_counter() - begun) * 1e3
    await store.close()
    if last != events:
        raise Bug(f"the benchmark kept {events} events, and found {last}")
    return took_ms


@contextlib.contextmanager
def _timing(events: int, into: list[Round]) -> Iterator[None]:
    begun, cpu = time.perf_counter(), time.process_time()
    yield
    into.append(Round(events, time.perf_counter() - begun, time.process_time() - cpu))


@contextlib.contextmanager
def _one_core() -> Iterator[None]:
    """Let this process have one core only, where the system can do that."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def rate_of(what: str, rounds: Sequence[Round], target: float = 0.0) -> Result:
    """A line of the table."""
    rates = [one.rate for one in rounds]
    value = statistics.median(rates)
    among = f" ({min(rates):,.0f} … {max(rates):,.0f})" if len(rates) > 1 else ""
    cpu_us = statistics.median(one.cpu_us for one in rounds)
    measured = f"{value:,.0f}{among} events a second; {cpu_us:.3g} µs of CPU an event"
    return Result(what, measured, value, *((f"≥ {target:,.0f}", value >= target) if target else ()))
