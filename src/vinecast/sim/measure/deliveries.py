"""What a run tells of its events, as tables: every delivery, or only how many there were of each sort.

A *delivery* is what became of one event at one subscription: whether it was due, hops, copies, latency. That
is the reduced form of trace records, and the same for both engines. ``Counter`` adds them up while the run
goes on: counts by class (sim/measure/metrics.py) for every publication, and distributions for the whole run
and for its last publication. Whoever adds up deliveries afterwards comes to the same numbers.

Latencies are counted by their first three digits: a percentile read from such a distribution is off by half a
per cent at the most, and distributions of many runs can be added up without keeping every value.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.dissemination import MISSED, Dissemination
from vinecast.core.machine import NOBODY
from vinecast.sim.measure.histograms import rounded
from vinecast.sim.measure.metrics import BY, CLASSES, COUNTED, Reach, popularity

WHENS = ("run", "last")
"""All publications together, and the last one."""
DELIVERY_COLUMNS: dict[str, str] = {
    "cycle": "int32",
    "topic": "int32",
    "node": "int32",
    "subscribers": "int32",
    "subscriptions": "int32",
    "due": "bool_",
    "hops": "int16",
    "copies": "int32",
    "latency_us": "int64",
}
"""One row an event and subscriber that it was due to or reached: how many subscribe to the topic and how many
topics the node has, hops (−1: never arrived), copies received, and latency (null where it is not known)."""

PUBLICATION_COLUMNS: dict[str, str] = {
    "cycle": "int32",
    "until_us": "int64",
    **dict.fromkeys(("topics", "published", "disconnected", "expected", "missing", "hops_max"), "int64"),
}
"""One row a publication: the cycle, when it was measured, topics there are, topics with an event, those whose
event missed somebody, nodes held to it, those that missed something, and the most hops."""

COUNT_COLUMNS: dict[str, str] = {
    "cycle": "int32",
    "by": "string",
    "from": "int64",
    **dict.fromkeys(COUNTED, "int64"),
}
"""One row a publication and class, counted as ``metrics.COUNTED`` says."""

HISTOGRAM_COLUMNS: dict[str, str] = {
    "when": "string",
    "by": "string",
    "from": "int64",
    "what": "string",
    "value": "int64",
    "count": "int64",
}
"""Distributions by class."""


def schema_of(columns: dict[str, str]) -> pa.Schema:
    """An Arrow schema from names and types."""
    return pa.schema([pa.field(name, getattr(pa, kind)()) for name, kind in columns.items()])


class SubscriptionColumns:
    """The pool's subscriptions with whom and what they are about, worked out once. All: [pool]"""

    def __init__(self, profiles: Profiles) -> None:
        owner = profiles.owners()
        self.row = np.flatnonzero(owner != NOBODY)
        self.node = owner[self.row]
        self.topic = profiles.topics[self.row]
        self.subscribers = popularity(profiles)[self.topic]
        self.subscriptions = profiles.cnt[self.node]
        self.size_class = np.stack(
            [np.floor(np.log2(size)).astype(np.int64) for size in (self.subscribers, self.subscriptions)]
        )
        """[BY, subscription]"""


def delivery_table(
    cycle: int, held: SubscriptionColumns, dissemination: Dissemination, expected: NDArray[np.bool_]
) -> pa.Table:
    """The deliveries of one publication, in order of topic and node. expected: [node]"""
    hops, copies = dissemination.hops[held.row], dissemination.copies[held.row]
    due = expected[held.node]
    told = (dissemination.publisher[held.topic] != NOBODY) & (due | (hops != MISSED) | (copies > 0))
    chosen = np.flatnonzero(told)
    chosen = chosen[np.lexsort((held.node[chosen], held.topic[chosen]))]
    latency = pa.nulls(chosen.size, pa.int64())
    if dissemination.latency_us is not None:
        took = dissemination.latency_us[held.row][chosen]
        latency = pa.array(took, mask=took == MISSED)
    columns = [
        np.full(chosen.size, cycle), held.topic[chosen], held.node[chosen], held.subscribers[chosen],
        held.subscriptions[chosen], due[chosen], hops[chosen], copies[chosen],
    ]  # fmt: skip
    schema = schema_of(DELIVERY_COLUMNS)
    arrays = [pa.array(column).cast(field.type) for column, field in zip(columns, schema, strict=False)]
    return pa.Table.from_arrays([*arrays, latency], schema=schema)


class DeliveryWriter:
    """Writes every delivery of a run, publication by publication. For ``simulate`` as its
    ``on_dissemination``."""

    def __init__(self, path: Path, run_id: str) -> None:
        self.rows = 0
        self._run_id = run_id
        self._schema = pa.schema([pa.field("run_id", pa.string()), *schema_of(DELIVERY_COLUMNS)])
        self._writer = pq.ParquetWriter(path, self._schema, compression="zstd")
        self._held: SubscriptionColumns | None = None

    def __call__(
        self,
        cycle: int,
        profiles: Profiles,
        dissemination: Dissemination,
        expected: NDArray[np.bool_],
        reach: Reach,
    ) -> None:
        """One publication."""
        self._held = self._held or SubscriptionColumns(profiles)
        table = delivery_table(cycle, self._held, dissemination, expected)
        run_id = pa.array([self._run_id] * table.num_rows, pa.string())
        self._writer.write_table(table.add_column(0, self._schema.field(0), run_id))
        self.rows += table.num_rows

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()


class Counter:
    """Adds up a run's deliveries. For ``simulate`` as its ``on_dissemination``."""

    def __init__(self, period_us: int) -> None:
        self.publications: list[dict[str, Any]] = []
        self.counts: list[dict[str, Any]] = []
        self._period_us = period_us
        self._held: SubscriptionColumns | None = None
        self._found: dict[tuple[str, str, int, str], dict[int, int]] = {}

    def __call__(
        self,
        cycle: int,
        profiles: Profiles,
        dissemination: Dissemination,
        expected: NDArray[np.bool_],
        reach: Reach,
    ) -> None:
        """One publication."""
        self._held = self._held or SubscriptionColumns(profiles)
        row = {"cycle": cycle, "until_us": (cycle + 1) * self._period_us, "topics": profiles.topic_ids.size}
        for name in PUBLICATION_COLUMNS:
            if name not in row:
                row[name] = getattr(reach, name)
        self.publications.append(row)
        for by, name in enumerate(BY):
            for size in np.flatnonzero(reach.tally[by].any(axis=1)).tolist():
                counts = dict(zip(COUNTED, reach.tally[by, size].tolist(), strict=True))
                self.counts.append({"cycle": cycle, "by": name, "from": 2**size, **counts})
        self._found = {key: counts for key, counts in self._found.items() if key[0] == "run"}
        self._count(self._held, dissemination)

    def _count(self, held: SubscriptionColumns, dissemination: Dissemination) -> None:
        hops = dissemination.hops[held.row]
        have = (hops != MISSED) & (dissemination.publisher[held.topic] != NOBODY)
        received = have & (hops > 0)
        told: list[tuple[str, NDArray[Any], NDArray[np.bool_]]] = [
            ("hops", hops, received),
            ("copies", dissemination.copies[held.row], have),
        ]
        if dissemination.latency_us is not None:
            told.append(("latency_us", rounded(dissemination.latency_us[held.row]), received))
        for what, values, counted in told:
            value = values[counted].astype(np.int64)
            for by, name in enumerate(BY):
                self._add(name, what, held.size_class[by][counted], value)

    def _add(self, by: str, what: str, size: NDArray[np.int64], value: NDArray[np.int64]) -> None:
        """Count values by class. size: [delivery], its class"""
        distinct, place = np.unique(value, return_inverse=True)
        counts = np.bincount(place * CLASSES + size, minlength=distinct.size * CLASSES)
        for key in np.flatnonzero(counts).tolist():
            at, c = divmod(key, CLASSES)
            for when in WHENS:
                found = self._found.setdefault((when, by, 2**c, what), {})
                found[int(distinct[at])] = found.get(int(distinct[at]), 0) + int(counts[key])

    def histograms(self) -> list[dict[str, Any]]:
        """The distributions so far."""
        names = tuple(HISTOGRAM_COLUMNS)
        return [
            dict(zip(names, (*key, value, count), strict=True))
            for key, counts in sorted(self._found.items())
            for value, count in sorted(counts.items())
        ]
