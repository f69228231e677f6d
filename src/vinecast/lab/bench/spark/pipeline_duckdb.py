"""The work of the pipeline's stages done by DuckDB, as the yardstick of its benchmark.

DuckDB is an embedded engine without a cluster to think of: what it needs for the same tables on the same
cores says what Spark costs. The results are compared with the pipeline's (``answer``), so both did the work.
"""

from pathlib import Path
from typing import Any

import duckdb

from vinecast.core.arrays.regularity import THRESHOLDS, observed_time
from vinecast.pipeline.regularity import SECOND_US, settings_of
from vinecast.pipeline.sample import STARTS
from vinecast.pipeline.session import cores
from vinecast.sim.measure.histograms import DIGITS
from vinecast.sim.workload.sample import random_numbers, start_order


def connect(folder: Path) -> duckdb.DuckDBPyConnection:
    """A database in memory that may spill into a folder."""
    return duckdb.connect(
        config={
            "threads": cores(),
            "memory_limit": "6GB",
            "temp_directory": str(folder / "spill"),
            "preserve_insertion_order": False,
        }
    )


def _write(base: duckdb.DuckDBPyConnection, query: str, path: Path) -> None:
    base.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet, COMPRESSION zstd)")


# --- ingest and sample -----------------------------------------------------------------------------------


def sample(base: duckdb.DuckDBPyConnection, graph: Path, nodes: int, seed: int, out: Path) -> None:
    """Read an edge list, sample users breadth first, keep the edges among them, count degrees."""
    columns = "{'source': 'BIGINT', 'target': 'BIGINT'}"
    text = f"read_csv('{graph}', delim='\t', header=false, comment='#', columns={columns})"
    edges, users = f"'{out / 'edges.parquet'}'", f"'{out / 'users.parquet'}'"
    base.execute(f"CREATE TABLE raw AS FROM {text}")
    _write(
        base,
        "SELECT DISTINCT source, target FROM raw WHERE source <> target ORDER BY source, target",
        out / "edges.parquet",
    )
    everyone = 'SELECT source AS "user" FROM raw UNION SELECT target FROM raw ORDER BY 1'
    _write(base, everyone, out / "users.parquet")
    base.execute("DROP TABLE raw")
    _find(base, edges, users, nodes, seed)
    base.execute(
        "CREATE TABLE samples AS SELECT user, rank, n.number FROM found "
        "JOIN (SELECT unnest($1) AS number, generate_subscripts($1, 1) - 1 AS rank) n USING (rank)",
        [random_numbers(seed, nodes).tolist()],
    )
    _write(base, "FROM samples ORDER BY rank", out / "samples.parquet")
    base.execute(
        f"CREATE TABLE kept AS SELECT e.source, e.target, s.number AS node, t.number AS topic FROM {edges} e "
        "JOIN samples s ON e.source = s.user JOIN samples t ON e.target = t.user"
    )
    _write(base, "FROM kept ORDER BY node, topic", out / "sample_edges.parquet")
    degrees = " UNION ALL ".join(
        f"SELECT '{graph}' AS graph, u.user, coalesce(a.n, 0) AS followers, coalesce(b.n, 0) AS followees "
        f"FROM {of} u "
        f"LEFT JOIN (SELECT target AS user, count(*) AS n FROM {pairs} GROUP BY 1) a USING (user) "
        f"LEFT JOIN (SELECT source AS user, count(*) AS n FROM {pairs} GROUP BY 1) b USING (user)"
        for graph, of, pairs in (("original", users, edges), ("sample", "samples", "kept"))
    )
    _write(base, degrees, out / "degrees.parquet")
    _write(
        base,
        "SELECT graph, kind, degree, count(*) AS users, sum(count(*)) OVER (PARTITION BY graph, kind "
        "ORDER BY degree DESC) / sum(count(*)) OVER (PARTITION BY graph, kind) AS at_least "
        f"FROM (UNPIVOT '{out / 'degrees.parquet'}' ON followers, followees INTO NAME kind VALUE degree) "
        "GROUP BY graph, kind, degree",
        out / "ccdf.parquet",
    )


def _find(base: duckdb.DuckDBPyConnection, edges: str, users: str, nodes: int, seed: int) -> None:
    """The table ``found``: user, rank, level; as pipeline/sample.py goes, but for restarts."""
    count = _one(base, f"SELECT count(*) FROM {users}")[0]
    starts = start_order(seed, count)[:STARTS].tolist()
    base.execute(
        "CREATE TABLE found AS SELECT user, list_position($1, number) - 1 AS rank, 0 AS level FROM "
        f"(SELECT user, row_number() OVER (ORDER BY user) - 1 AS number FROM {users}) "
        "WHERE list_contains($1, number)",
        [starts],
    )
    friends = f"(SELECT source, target FROM {edges} UNION ALL SELECT target, source FROM {edges})"
    level, size = 0, STARTS
    while size < nodes:
        base.execute(
            f"INSERT INTO found SELECT target, {size - 1} + row_number() OVER (ORDER BY parent, target), "
            f"{level + 1} FROM (SELECT f.target, min(rank) AS parent FROM {friends} f JOIN found ON "
            f"f.source = found.user AND found.level = {level} "
            "WHERE f.target NOT IN (SELECT user FROM found) GROUP BY f.target "
            f"ORDER BY parent, f.target LIMIT {nodes - size})"
        )
        level, size = level + 1, _one(base, "SELECT count(*) FROM found")[0]


def _one(base: duckdb.DuckDBPyConnection, query: str) -> tuple[Any, ...]:
    found = base.execute(query).fetchone()
    assert found is not None
    return found


def sample_answer(base: duckdb.DuckDBPyConnection, out: Path) -> list[int]:
    """To be compared: edges, users, the order of the sample, its edges, the degrees of all users."""
    return [
        *_one(base, f"SELECT count(*) FROM '{out / 'edges.parquet'}'"),
        *_one(base, f"SELECT count(*) FROM '{out / 'users.parquet'}'"),
        *map(int, _one(base, "SELECT sum(user * (rank + 1)) FROM samples")),
        *map(int, _one(base, "SELECT sum(node * 7 + topic) FROM kept")),
        *map(int, _one(base, f"SELECT sum(degree * degree * users) FROM '{out / 'ccdf.parquet'}'")),
    ]


# --- regularity ------------------------------------------------------------------------------------------


def regularity(base: duckdb.DuckDBPyConnection, trace: Path, slot_s: int, out: Path) -> None:
    """On-line time by node and slot, regular nodes and those who stay so, for the day and the week."""
    base.execute(
        "CREATE TABLE trace AS SELECT node, "
        f"unnest(on_s) * {SECOND_US} AS on_at, unnest(off_s) * {SECOND_US} AS off_at FROM '{trace}/*.parquet'"
    )
    base.execute(
        "CREATE TABLE sessions AS SELECT node, round(on_at)::BIGINT AS on_us, "
        "round(off_at)::BIGINT AS off_us FROM trace WHERE off_at > on_at"
    )
    base.execute("DROP TABLE trace")
    horizon = _one(base, "SELECT max(off_us) FROM sessions")[0]
    counts = []
    for setting in settings_of(("day", "week"), [slot_s]):
        grid = setting.grid()
        name, cycle, slot, slots = setting.cycle, grid.cycle, grid.slot, grid.slots
        begin = f"on_us + (off_us - on_us) // {cycle} * {cycle}"
        base.execute(
            f"CREATE OR REPLACE TABLE pieces AS SELECT node, (w % {slots})::SMALLINT AS slot, "
            f"least(off_us, (w + 1) * {slot}) - greatest(begin, w * {slot}) AS part FROM ("
            f"SELECT node, off_us, begin, unnest(range(begin // {slot}, (off_us - 1) // {slot} + 1)) AS w "
            f"FROM (SELECT node, off_us, {begin} AS begin FROM sessions) WHERE begin < off_us) "
            f"UNION ALL SELECT node, unnest(range({slots})), (off_us - on_us) // {cycle} * {slot} "
            f"FROM sessions WHERE off_us - on_us >= {cycle}"
        )
        base.execute(
            "CREATE OR REPLACE TABLE presence AS "
            "SELECT node, slot, sum(part)::BIGINT AS online_us FROM pieces GROUP BY node, slot"
        )
        _write(
            base,
            f"SELECT node, '{name}' AS cycle, {slot_s} AS slot_s, list_transform(range({slots}), "
            f"lambda s: coalesce(online[s], 0) / {SECOND_US}.0) AS online_s FROM (SELECT node, "
            "map_from_entries(list((slot::BIGINT, online_us))) AS online FROM presence GROUP BY node)",
            out / f"presence-{name}.parquet",
        )
        base.execute(
            "CREATE OR REPLACE TABLE regular AS SELECT node, slot, threshold FROM presence "
            "JOIN (SELECT unnest($1) AS observed, generate_subscripts($1, 1) - 1 AS slot) USING (slot) "
            "CROSS JOIN (SELECT unnest($2) AS threshold) WHERE online_us * 100 > observed * threshold",
            [observed_time(grid, horizon).tolist(), list(THRESHOLDS)],
        )
        file = out / f"regular-{name}.parquet"
        counts.append(
            f"SELECT '{name}' AS cycle, a.threshold, a.slot, count(*) AS regular, count(b.node) AS retained "
            f"FROM '{file}' a LEFT JOIN '{file}' b ON a.node = b.node AND a.threshold = b.threshold "
            f"AND (a.slot + 1) % {slots} = b.slot GROUP BY a.threshold, a.slot"
        )
        _write(base, "FROM regular", file)
    _write(base, " UNION ALL ".join(counts), out / "regularity.parquet")
    _write(
        base,
        "SELECT cycle, threshold, sum(regular) AS regular, avg(retained / regular) AS retention_mean "
        f"FROM '{out / 'regularity.parquet'}' GROUP BY cycle, threshold",
        out / "means.parquet",
    )


def regularity_answer(base: duckdb.DuckDBPyConnection, out: Path) -> list[int]:
    """To be compared: on-line time, regular nodes, retained nodes, over all cycles, slots and thresholds."""
    whole = f"list_sum(list_transform(online_s, lambda s: round(s * {SECOND_US})))::BIGINT"
    online = [
        int(_one(base, f"SELECT sum({whole}) FROM '{out / f'presence-{cycle}.parquet'}'")[0])
        for cycle in ("day", "week")
    ]
    counts = (
        f"SELECT sum(regular * (slot + 1)), sum(retained * (slot + 1)) FROM '{out / 'regularity.parquet'}'"
    )
    return [*online, *map(int, _one(base, counts))]


# --- measure ---------------------------------------------------------------------------------------------


def measure(base: duckdb.DuckDBPyConnection, deliveries: Path, out: Path) -> None:
    """Deliveries added up: counts by class, distributions by class, who missed what."""

    def size_class(column: str) -> str:
        return f"pow(2, floor(log2({column} + 0.5)))::BIGINT"

    table = f"'{deliveries}/*.parquet'"
    classes = f"{size_class('subscribers')} AS popularity, {size_class('subscriptions')} AS interests"
    base.execute(
        f"CREATE TABLE cells AS SELECT run_id, cycle, {classes}, due, hops, copies, count(*) AS n "
        f"FROM {table} GROUP BY ALL"
    )
    unit = f"pow(10, greatest(len(latency_us::VARCHAR) - {DIGITS}, 0))::BIGINT"
    base.execute("CREATE TABLE lasts AS SELECT run_id, max(cycle) AS last FROM cells GROUP BY run_id")
    base.execute(
        f"CREATE TABLE latencies AS SELECT run_id, cycle = last AS is_last, {classes}, "
        f"(latency_us + {unit} // 2) // {unit} * {unit} AS value, count(*) AS n "
        f"FROM {table} JOIN lasts USING (run_id) "
        "WHERE hops > 0 AND latency_us IS NOT NULL GROUP BY ALL"
    )
    missed = (
        "SELECT run_id, cycle, count(DISTINCT topic) AS disconnected, count(DISTINCT node) AS missing "
        f"FROM {table} WHERE due AND hops = -1 GROUP BY ALL"
    )
    _write(base, missed, out / "publications.parquet")
    counts = " UNION ALL ".join(
        f"SELECT run_id, cycle, '{by}' AS kind, {by} AS size, sum(n) FILTER (due) AS due, "
        "sum(n) FILTER (due AND hops >= 0) AS hits, sum(n) FILTER (hops >= 0) AS have, "
        "sum(n * copies) AS copies, sum(n) FILTER (hops > 0) AS received, "
        f"sum(n * hops) FILTER (hops > 0) AS hops FROM cells GROUP BY run_id, cycle, {by}"
        for by in ("popularity", "interests")
    )
    _write(base, counts, out / "counts.parquet")
    common = "run_id, cycle = last AS is_last, popularity, interests"
    base.execute(
        f"CREATE TABLE told AS SELECT {common}, 'hops' AS what, hops AS value, n "
        "FROM cells JOIN lasts USING (run_id) WHERE hops > 0 UNION ALL "
        f"SELECT {common}, 'copies', copies, n "
        "FROM cells JOIN lasts USING (run_id) WHERE hops >= 0 UNION ALL "
        "SELECT run_id, is_last, popularity, interests, 'latency_us', value, n FROM latencies"
    )
    histograms = " UNION ALL ".join(
        f"SELECT run_id, '{when}' AS \"when\", '{by}' AS kind, {by} AS size, what, value, sum(n) AS n "
        f"FROM told WHERE {condition} GROUP BY run_id, {by}, what, value"
        for by in ("popularity", "interests")
        for when, condition in (("run", "true"), ("last", "is_last"))
    )
    _write(base, histograms, out / "histograms.parquet")


def measure_answer(base: duckdb.DuckDBPyConnection, out: Path) -> list[int]:
    """To be compared: deliveries due and made, hops, copies and latencies, events that missed somebody."""
    counts = f"SELECT sum(due), sum(hits), sum(hops), sum(copies) FROM '{out / 'counts.parquet'}'"
    values = (
        f"SELECT sum(value * n) FROM '{out / 'histograms.parquet'}' WHERE what = '{{}}' AND "
        "\"when\" = 'run' AND kind = 'popularity'"
    )
    missed = f"SELECT sum(disconnected) FROM '{out / 'publications.parquet'}'"
    return [
        *map(int, _one(base, f"{counts} WHERE kind = 'popularity'")),
        *(int(_one(base, values.format(what))[0]) for what in ("hops", "copies", "latency_us")),
        *map(int, _one(base, missed)),
    ]
