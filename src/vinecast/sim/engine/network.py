"""The network between simulated nodes: how long a message takes, and whether it arrives at all.

Latency is *constant*, *sampled* (uniform, anew for every message, so that messages overtake each other) or
read from a *matrix* of round-trip times, half of which is the way there. On top of it a message can be
lost, doubled, delayed so that later ones overtake it, or cut off by a partition. The fate of a message
is drawn with a key of its own (the sender and its count of messages), so that a change in one corner of a
run does not reshuffle the luck of everybody else.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vinecast.core.config import check, limited
from vinecast.core.draws import below_array, purpose, stream, unit, unit_array
from vinecast.core.errors import InputError
from vinecast.core.machine import SECOND_US
from vinecast.core.rule import rule
from vinecast.protocols.ringcast.timed import Delays
from vinecast.sim.workload.textfile import lines_of

MS_US = 1000
RTT_MS_MAX = 3_600_000
_SITES = purpose("network.sites")
_SIDES = purpose("network.sides")
_FATE = purpose("network.fate")


@dataclass(frozen=True, slots=True)
class Partition:
    """For a while, the network falls into two parts that hear nothing of each other."""

    from_s: float = limited(at_least=0)
    """Seconds into the run at which it begins."""
    to_s: float = limited(at_least=0, at_most=1e10)
    """Seconds into the run at which it heals."""
    share: float = limited(0.5, at_least=0, at_most=1)
    """Share of the nodes on the smaller side; which ones is a keyed draw."""

    def __post_init__(self) -> None:
        check(self)
        if self.to_s <= self.from_s:
            raise InputError(f"to_s ({self.to_s}) must be later than from_s ({self.from_s})")


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """How the simulated network treats messages."""

    latency: str = limited("constant", one_of=("constant", "sampled", "matrix"))
    """Where latencies come from."""
    latency_ms: float = limited(50.0, at_least=0, at_most=3_600_000)
    """One-way latency in milliseconds; the smallest one when it is sampled."""
    latency_ms_max: float | None = limited(None, at_least=0, at_most=3_600_000)
    """The largest one-way latency in milliseconds, when it is sampled."""
    matrix: str | None = None
    """A square table of round-trip times in milliseconds, plain or gzipped text."""
    loss: float = limited(0.0, at_least=0, at_most=1)
    """Probability that a message never arrives."""
    duplication: float = limited(0.0, at_least=0, at_most=1)
    """Probability that a message arrives twice."""
    reordering: float = limited(0.0, at_least=0, at_most=1)
    """Probability that a message is held back by up to ``reordering_ms``, so that later ones overtake it."""
    reordering_ms: float = limited(1000.0, at_least=0, at_most=3_600_000)
    """The longest that a message is held back, in milliseconds."""
    partitions: tuple[Partition, ...] = ()
    """When the network is cut in two."""

    def __post_init__(self) -> None:
        check(self)
        if self.latency == "sampled" and (
            self.latency_ms_max is None or self.latency_ms_max < self.latency_ms
        ):
            raise InputError("sampled latency needs latency_ms_max, not below latency_ms")
        if (self.latency == "matrix") != (self.matrix is not None):
            raise InputError('matrix goes with latency = "matrix", and the other way round')


def read_matrix(path: Path) -> NDArray[np.float64]:
    """Read a square table of round-trip times in ms. [site, site]"""
    rows: list[NDArray[np.float64]] = []
    for number, line in lines_of(path):
        try:
            rows.append(matrix_row(line, rows[0].size if rows else None))
        except ValueError as error:
            raise InputError(f"{path}:{number}: {error}") from None
    columns = rows[0].size if rows else 0
    if fault := squareness_fault(len(rows), columns):
        raise InputError(f"{path}: {fault}")
    return np.vstack(rows)


def matrix_row(line: str, columns: int | None) -> NDArray[np.float64]:
    """One row of round-trip times, of as many columns as the first. ValueError says what is wrong. [site]"""
    try:
        row = np.array(line.split(), dtype=np.float64)
    except ValueError:
        raise ValueError("not a row of numbers") from None
    if not ((row >= 0) & (row <= RTT_MS_MAX)).all():
        raise ValueError(f"a round-trip time must be between 0 and {RTT_MS_MAX:,} ms")
    if columns is not None and row.size != columns:
        raise ValueError(f"{row.size} columns where the first row has {columns}")
    return row


def squareness_fault(rows: int, columns: int) -> str | None:
    """What is wrong with the shape of a matrix, if anything is."""
    return None if rows == columns > 0 else f"not a square matrix ({rows} rows, {columns} columns)"


def site_latencies(rtt_ms: NDArray[np.float64]) -> NDArray[np.int64]:
    """One-way latencies in µs. Two nodes at one site are as far apart as that site's nearest other one."""
    one_way = np.rint(rtt_ms * (MS_US / 2)).astype(np.int64)
    apart = np.where(np.eye(len(one_way), dtype=bool), np.iinfo(np.int64).max, one_way)
    nearest = apart.min(axis=1) if len(one_way) > 1 else np.zeros(1, dtype=np.int64)
    np.fill_diagonal(one_way, nearest)
    return one_way


@rule
def fate(
    seed: int, number: int, sender: int, loss: float, duplication: float, reordering: float
) -> tuple[bool, bool, float, float, float]:
    """What happens to a sender's number-th message: (lost, doubled, held back, two units for its latencies).

    *Held back* is the share of the longest delay, 0 when it is not.
    """
    key = stream(seed, _FATE, number, sender)
    lost = unit(key, 0) < loss
    doubled = unit(key, 1) < duplication
    held = unit(key, 3) if unit(key, 2) < reordering else 0.0
    return lost, doubled, held, unit(key, 4), unit(key, 5)


class Network:
    """A configured network over ``nodes`` nodes; ``rtt_ms`` [site, site] goes with matrix latencies."""

    def __init__(
        self, config: NetworkConfig, seed: int, nodes: int, rtt_ms: NDArray[np.float64] | None = None
    ) -> None:
        self.config = config
        self.seed = seed
        self.number = [0] * nodes
        self.latency_us = round(config.latency_ms * MS_US)
        self.spread_us = 0
        if config.latency_ms_max is not None and config.latency == "sampled":
            self.spread_us = round(config.latency_ms_max * MS_US) - self.latency_us
        self.rows: list[list[int]] | None = None
        self.sites: list[int] = []
        if rtt_ms is not None:
            latencies = site_latencies(rtt_ms)
            key = stream(seed, _SITES, 0, 0)
            self.sites = below_array(key, np.arange(nodes), len(latencies)).tolist()
            self.rows = latencies.tolist()
        self.cuts = [self._cut(i, partition) for i, partition in enumerate(config.partitions)]
        self.even = not (config.loss or config.duplication or config.reordering or self.spread_us)

    def _cut(self, index: int, partition: Partition) -> tuple[int, int, list[bool]]:
        units = unit_array(stream(self.seed, _SIDES, index, 0), np.arange(len(self.number)))
        side = (units < partition.share).tolist()
        return round(partition.from_s * SECOND_US), round(partition.to_s * SECOND_US), side

    def base_latency_us(self, sender: int, receiver: int) -> int:
        """The latency of a link before anything random happens."""
        if self.rows is None:
            return self.latency_us
        return self.rows[self.sites[sender]][self.sites[receiver]]

    def delays(self) -> Delays:
        """All base latencies at once, for a sweep's events."""
        if self.rows is None:
            one_way, sites = [[self.latency_us]], [0] * len(self.number)
        else:
            one_way, sites = self.rows, self.sites
        return Delays(np.array(one_way, dtype=np.int64), np.array(sites, dtype=np.int64))

    def is_cut(self, sender: int, receiver: int, now_us: int) -> bool:
        """Whether a partition stands between two nodes now."""
        return any(begin <= now_us < end and side[sender] != side[receiver] for begin, end, side in self.cuts)

    def transit(self, sender: int, receiver: int, now_us: int) -> tuple[int, ...]:
        """How long each copy of a message takes, in µs; no copies when it is lost."""
        base = self.base_latency_us(sender, receiver)
        if self.even:
            return (base,)
        number = self.number[sender]
        self.number[sender] = number + 1
        config = self.config
        lost, doubled, held, first, second = fate(
            self.seed, number, sender, config.loss, config.duplication, config.reordering
        )
        if lost:
            return ()
        late = int(held * config.reordering_ms * MS_US)
        delay = base + int(first * self.spread_us) + late
        return (delay, base + int(second * self.spread_us)) if doubled else (delay,)
