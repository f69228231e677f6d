"""Samples on Spark: the order of a plain queue, the simulator's own sample, what it keeps of its graph."""

import json
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.spark_tests import SPARK
from vinecast.cli import main
from vinecast.core.errors import InputError
from vinecast.sim.workload import sample as sim_sample
from vinecast.sim.workload.edges import Edges, read_edges

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

import pyarrow as pa
from pyspark.testing import assertDataFrameEqual

from vinecast.pipeline.degrees import ORIGINAL, SAMPLE, ccdf, degrees, statistics
from vinecast.pipeline.lake import Lake
from vinecast.pipeline.sample import SamplePlan, edges_among, find_users, numbered
from vinecast.pipeline.tables import CCDF, DEGREES, EDGES, SAMPLE_EDGES, SAMPLES, USERS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = SPARK

Pairs = set[tuple[int, int]]


def graph(names: list[int], pairs: Pairs) -> Edges:
    """As ``read_edges`` would give it: dense numbers, in order, no loops."""
    dense = {name: number for number, name in enumerate(sorted(names))}
    ordered = sorted((dense[a], dense[b]) for a, b in pairs if a != b)
    edges = np.array(ordered, dtype=np.int64).reshape(-1, 2)
    return Edges(edges[:, 0].copy(), edges[:, 1].copy(), np.array(sorted(names)), 0, 0)


def frames(spark: "SparkSession", edges: Edges) -> tuple["DataFrame", "DataFrame"]:
    source, target = edges.names[edges.source], edges.names[edges.target]
    return (
        spark.createDataFrame(pa.table({"source": source, "target": target})),
        spark.createDataFrame(pa.table({"user": edges.names})),
    )


def found(spark: "SparkSession", edges: Edges, plan: SamplePlan) -> list[int]:
    order: list[int] = find_users(*frames(spark, edges), plan).tolist()
    return order


@st.composite
def graphs(draw: st.DrawFn) -> Edges:
    names = draw(st.lists(st.integers(0, 999), min_size=2, max_size=14, unique=True))
    user = st.sampled_from(names)
    return graph(names, draw(st.sets(st.tuples(user, user), min_size=len(names), max_size=40)))


@settings(max_examples=4)
@given(edges=graphs(), seed=st.integers(0, 2**63 - 1), data=st.data())
def test_a_search_is_that_of_a_plain_queue(
    spark: "SparkSession", edges: Edges, seed: int, data: st.DataObject
) -> None:
    """From given users, in plain Python; and from random ones, as the simulator's."""
    start = data.draw(st.lists(st.sampled_from(edges.names.tolist()), min_size=1, max_size=3, unique=True))
    near: dict[int, set[int]] = {user: set() for user in edges.names.tolist()}
    for a, b in zip(edges.names[edges.source].tolist(), edges.names[edges.target].tolist(), strict=True):
        near[a].add(b)
        near[b].add(a)
    order, queue = list(start), deque(start)
    while queue:
        fresh = sorted(near[queue.popleft()] - set(order))
        order += fresh
        queue.extend(fresh)
    plan = SamplePlan(len(order), seed, start=tuple(start))
    assert found(spark, edges, plan) == order

    nodes = data.draw(st.integers(1, edges.nodes))
    expected = edges.names[sim_sample.breadth_first(edges, nodes, seed)].tolist()
    assert found(spark, edges, SamplePlan(nodes, seed)) == expected


def test_components_are_exhausted_one_after_another(spark: "SparkSession") -> None:
    """Eight lonely users and a pair: the search starts again and again."""
    edges = graph(list(range(10)), {(8, 9)})
    expected = edges.names[sim_sample.breadth_first(edges, 10, 5)].tolist()
    assert found(spark, edges, SamplePlan(10, 5)) == expected


def test_followees_come_with_whom_they_are_followed_by(spark: "SparkSession") -> None:
    edges = graph([10, 20, 30, 40, 50, 60], {(10, 60), (10, 20), (20, 10), (30, 50), (50, 40)})
    first, second = 10, 30
    plan = SamplePlan(5, 3, "followees", (first, second))
    assert found(spark, edges, plan) == [10, 20, 60, 30, 50]
    assert found(spark, edges, SamplePlan(2, 3, "followees", (first,))) == [10, 20], "cut in the middle"
    everyone = found(spark, edges, SamplePlan(6, 3, "followees"))
    follows = {10: [20, 60], 20: [10], 30: [50], 40: [], 50: [40], 60: []}
    turns = edges.names[sim_sample.start_order(3, 6)].tolist()
    assert everyone == list(dict.fromkeys(user for turn in turns for user in (turn, *follows[turn])))


def test_edges_and_degrees_of_a_sample(spark: "SparkSession") -> None:
    edges, users = frames(spark, graph([1, 2, 3, 4], {(1, 2), (2, 1), (3, 2), (4, 2), (2, 4)}))
    samples = spark.createDataFrame(numbered(np.array([2, 1, 3]), 1))
    numbers = dict(zip([2, 1, 3], sim_sample.random_numbers(1, 3).tolist(), strict=True))
    kept = edges_among(edges, samples)
    pairs = [(1, 2), (2, 1), (3, 2)]
    expected = [(a, b, numbers[a], numbers[b]) for a, b in pairs]
    assertDataFrameEqual(kept, spark.createDataFrame(expected, SAMPLE_EDGES.schema))

    both = degrees(users, edges, ORIGINAL).unionByName(degrees(samples, kept, SAMPLE))
    original = [(ORIGINAL, 1, 1, 1), (ORIGINAL, 2, 3, 2), (ORIGINAL, 3, 0, 1), (ORIGINAL, 4, 1, 1)]
    sample = [(SAMPLE, 1, 1, 1), (SAMPLE, 2, 2, 1), (SAMPLE, 3, 0, 1)]
    assertDataFrameEqual(both, spark.createDataFrame([*original, *sample], DEGREES.schema))

    shares = ccdf(both)
    followers = shares.where("kind = 'followers'")
    original_shares = [(0, 1, 1.0), (1, 2, 0.75), (3, 1, 0.25)]
    sample_shares = [(0, 1, 1.0), (1, 1, 2 / 3), (2, 1, 1 / 3)]
    rows = [(ORIGINAL, "followers", *row) for row in original_shares]
    rows += [(SAMPLE, "followers", *row) for row in sample_shares]
    assertDataFrameEqual(followers, spark.createDataFrame(rows, CCDF.schema))
    figures = {(row["graph"], row["kind"]): row for row in statistics(shares).collect()}
    assert figures[ORIGINAL, "followers"]["distance"] == 0
    assert figures[SAMPLE, "followees"]["distance"] == pytest.approx(
        0.25
    )  # all have one; 3 of 4 have at most one
    assert figures[SAMPLE, "followers"]["distance"] == pytest.approx(
        1 / 4
    )  # three or more: a quarter, and nobody
    whole = figures[ORIGINAL, "followers"]
    assert (whole["users"], whole["mean"], whole["max"]) == (4, 1.25, 3)
    assert whole["variance"] == pytest.approx(np.var([1, 3, 0, 1]))
    assert whole["std"] == pytest.approx(np.std([1, 3, 0, 1]))


def publish(spark: "SparkSession", lake: Lake, edges: Edges) -> None:
    for table, frame in zip((EDGES, USERS), frames(spark, edges), strict=True):
        lake.publish(table, "made-up", frame, {"source": "a test"})


def test_the_command(spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = Lake(tmp_path)
    publish(
        spark,
        lake,
        graph(list(range(30)), {(i, i * 7 % 30) for i in range(30)} | {(3, i) for i in range(30)}),
    )
    typed = ["pipeline", "sample", "made-up", "--lake", str(tmp_path), "--as", "small", "--users", "10"]
    assert main([*typed, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["users"] == 10
    assert told["edges"] == lake.current(SAMPLE_EDGES, "small").rows
    assert [(row["kind"], row["graph"]) for row in told["degrees"]] == [
        ("followees", ORIGINAL), ("followees", SAMPLE), ("followers", ORIGINAL), ("followers", SAMPLE),
    ]  # fmt: skip
    before = lake.current(SAMPLES, "small")
    assert main([*typed, "--markdown", "--figures", str(tmp_path / "figures")]) == 0
    assert "| followers, sample | 10 |" in capsys.readouterr().out
    assert (tmp_path / "figures" / "ccdf-small.svg").is_file()
    assert lake.current(SAMPLES, "small") == before, "nothing is done twice"
    for options, words in (
        (["--users", "31"], "the graph has 30 users, not 31"),
        (["--start", "77"], "the graph has no user 77 to start from"),
        (["--start", "3", "3"], "a user to start from is named twice"),
    ):
        assert main([*typed, *options]) == 2
        assert words in capsys.readouterr().err
    assert lake.current(SAMPLES, "small") == before, "what was there is untouched"


def test_a_graph_that_is_half_published_is_not_sampled(
    spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = Lake(tmp_path)
    publish(spark, lake, graph([1, 2, 3], {(1, 2)}))
    lake.publish(EDGES, "made-up", frames(spark, graph([1, 9], {(1, 9)}))[0], {"source": "another"})
    typed = ["pipeline", "sample", "made-up", "--lake", str(tmp_path), "--as", "small", "--users", "2"]
    assert main(typed) == 2
    assert "edges and users of 'made-up' are of two graphs: ingest it again" in capsys.readouterr().err
    assert lake.published(SAMPLES, "small") is None


def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "sample", "x", "--lake", str(tmp_path), "--users", "5", "--as", "y"]) == 2
    assert "there is no dataset 'x' of edges" in capsys.readouterr().err
    with pytest.raises(InputError, match='breadth-first or followees, not "depth-first"'):
        SamplePlan(5, method="depth-first")
    with pytest.raises(InputError, match="seed must be at least 0, not -1"):
        SamplePlan(5, seed=-1)


def test_the_sample_of_a_real_graph_is_the_simulators(
    spark: "SparkSession", data_folder: Path, tmp_path: Path
) -> None:
    """The same users, the same numbers, the same subscriptions."""
    nodes, seed = 2000, 4
    graph = read_edges(data_folder / "soc-Slashdot0902.txt.gz")
    lake = Lake(tmp_path)
    publish(spark, lake, graph)
    edges, users = (lake.read(spark, table, "made-up") for table in (EDGES, USERS))
    samples = numbered(find_users(edges, users, SamplePlan(nodes, seed)), seed)
    assert samples["user"].to_pylist() == graph.names[sim_sample.breadth_first(graph, nodes, seed)].tolist()
    workload = sim_sample.load_workload("slashdot", nodes, seed, data_folder)
    expected = np.stack([np.repeat(np.arange(nodes), np.diff(workload.start)), workload.topics])
    kept = edges_among(edges, spark.createDataFrame(samples)).toArrow()
    assert np.array_equal(np.stack([kept["node"].to_numpy(), kept["topic"].to_numpy()]), expected)
