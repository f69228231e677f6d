"""Synthetic inputs for the pipeline's benchmark: the size of real ones, the same bytes every time."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from vinecast.core.arrays.regularity import DAY_S
from vinecast.core.errors import InputError
from vinecast.pipeline.lake import Lake
from vinecast.pipeline.tables import SESSIONS

SEED = 1
REGULAR = 0.004  # of the nodes: on line most of every day; about as many as S4 found in KAD (RE-3)
SESSIONS_A_NODE, SESSION_S = 8, 8.5 * 3600  # with these, some 7,000 of 400,000 nodes are on line, as in RE-1
SITES = 60


@dataclass(frozen=True, slots=True)
class PipelineSizes:
    """How large everything is. The defaults are what the targets are stated for."""

    edges: int = 20_000_000
    users: int = 1_000_000
    sample: int = 10_000
    """Users in the sample."""
    trace_nodes: int = 400_000
    trace_days: int = 180
    deliveries: int = 100_000_000
    measured_nodes: int = 5_000
    """Nodes of the run whose deliveries are measured."""
    publications: int = 20
    """Events that it has for every topic."""
    runs: int = 200
    run_nodes: int = 300
    run_cycles: int = 40
    """Of a short run of the sweep."""

    def __post_init__(self) -> None:
        if self.sample > self.users:
            raise InputError(f"a sample of {self.sample:,} does not come from {self.users:,} users")


QUICK = PipelineSizes(
    edges=20_000,
    users=2_000,
    sample=200,
    trace_nodes=2_000,
    trace_days=15,
    deliveries=40_000,
    measured_nodes=150,
    publications=3,
    runs=6,
    run_nodes=40,
    run_cycles=6,
)


def write_graph(path: Path, sizes: PipelineSizes) -> None:
    """An edge list: the popularity of users follows a power law; some edges are loops or come twice."""
    random = np.random.default_rng(SEED)
    names = random.permutation(sizes.users)
    chunk = 2_000_000
    with csv.CSVWriter(
        path,
        pa.schema({"source": pa.int64(), "target": pa.int64()}),
        write_options=csv.WriteOptions(include_header=False, delimiter="\t"),
    ) as writer:
        for begin in range(0, sizes.edges, chunk):
            count = min(chunk, sizes.edges - begin)
            source = names[(random.random(count) ** 1.5 * sizes.users).astype(np.int64)]
            target = names[(random.random(count) ** 3 * sizes.users).astype(np.int64)]
            writer.write_table(pa.table({"source": source, "target": target}))


def write_trace(lake: Lake, dataset: str, sizes: PipelineSizes) -> int:
    """The table ``sessions`` of a trace as large as KAD's; how many sessions it has."""
    random = np.random.default_rng(SEED)
    nodes, days = sizes.trace_nodes, sizes.trace_days
    horizon = days * DAY_S
    daily = math.ceil(nodes * REGULAR)
    begin = np.arange(days) * DAY_S + random.integers(0, DAY_S // 3, (daily, days))
    length = DAY_S * random.uniform(0.3, 0.66, (daily, 1)) * random.uniform(0.8, 1.0, (daily, days))
    lists = [(begin.astype(np.float64), np.minimum(begin + np.rint(length), horizon))]
    others = nodes - daily
    come = np.sort(random.integers(0, horizon, (others, SESSIONS_A_NODE)), axis=1).astype(np.float64)
    until = np.concatenate([come[:, 1:], np.full((others, 1), horizon)], axis=1)
    lists.append((come, np.minimum(come + np.rint(random.exponential(SESSION_S, come.shape)), until)))
    on, off = (np.concatenate([pair[i].ravel() for pair in lists]) for i in range(2))
    sizes_of = np.concatenate([np.full(daily, days), np.full(others, SESSIONS_A_NODE)])
    start = pa.array(np.concatenate([[0], np.cumsum(sizes_of)]).astype(np.int32))
    table = pa.table(
        {
            "node": np.arange(nodes),
            "name": pa.array(np.arange(nodes)).cast(pa.string()),
            "on_s": pa.ListArray.from_arrays(start, pa.array(on)),
            "off_s": pa.ListArray.from_arrays(start, pa.array(off)),
        }
    )
    with lake.new_generation(SESSIONS, dataset) as generation:
        file = generation.folder / "trace.parquet"
        pq.write_table(table, file, compression="zstd", row_group_size=max(nodes // 16, 1))
        generation.commit({"stage": "bench", "nodes": nodes, "days": days})
    return int(on.size)


def write_matrix(path: Path) -> None:
    """Round-trip times between some sites, in ms."""
    random = np.random.default_rng(SEED)
    rtt = np.rint(random.lognormal(4.6, 0.6, (SITES, SITES)))
    rtt = np.maximum(rtt, rtt.T)
    np.fill_diagonal(rtt, 0.0)
    np.savetxt(path, rtt, fmt="%d")


def scenario(nodes: int, cycles: int, every: int, subscriptions: float, **more: Any) -> dict[str, Any]:
    """PolderCast on a synthetic follower graph."""
    return {
        "name": "bench",
        "system": "poldercast",
        "nodes": nodes,
        "cycles": cycles,
        "measure": {"every": every},
        "workload": {"kind": "synthetic", "subscriptions": subscriptions},
        "publish": {"every": every, "warm_up": 1, **more.pop("publish", {})},
        **more,
    }
