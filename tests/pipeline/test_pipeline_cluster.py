"""On a cluster of real processes: the same bytes as in local mode, also when an executor is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from support.spark_tests import SPARK
from support.sweeps import write_scenario

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

from support.spark_cluster import HOST, QUICK_START, Cluster, start_cluster
from vinecast.pipeline.lake import Lake
from vinecast.pipeline.plan import read_pipeline, run_pipeline
from vinecast.pipeline.runs_tables import RUN_TIMINGS, RUNS
from vinecast.pipeline.tables import TABLES, LakeTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [*SPARK, pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")]

PATIENCE_S = 300
STORM = 8
"""The runs of the sweep that loses an executor."""

PIPELINE = f"""
name = "proof"

[[stage]]
do = "ingest"
kind = "avt"
file = "trace.avt"
as = "trace"

[[stage]]
do = "regularity"
from = "trace"
cycles = ["day"]

[[stage]]
do = "sweep"
as = "calm"
scenario = "tiny.toml"
seeds = 3
variants.churn.trace = {{ "churn.kind" = "trace", "churn.trace" = "lake:trace" }}

[[stage]]
do = "measure"
from = "calm"

[[stage]]
do = "sweep"
as = "storm"
scenario = "tiny.toml"
seeds = {STORM}
set = {{ nodes = 40, cycles = 16 }}
"""


@dataclass(frozen=True)
class Proof:
    """What there is to compare."""

    cluster: Cluster
    here: Lake
    """Made in local mode."""
    there: Lake
    """Made on the cluster."""
    killed: int
    """The executor that was killed."""
    done_before: int
    """The runs that were done when it was."""
    told: list[dict[str, object]]
    """What the command printed."""


@pytest.fixture(scope="module")
def proof(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proof]:
    """One pipeline in local mode, and by its ordinary command on a cluster that loses an executor."""
    folder = tmp_path_factory.mktemp("cluster")
    here, there = Lake(folder / "here"), Lake(folder / "there")
    plan = write_pipeline(folder)
    assert all(step.ok for step in run_pipeline(read_pipeline(plan), here))
    with start_cluster(folder) as cluster:
        command = [sys.executable, "-m", "vinecast", "pipeline", "run", str(plan)]
        process = subprocess.Popen(
            [*command, "--lake", str(there.folder), "--json", *cluster.options],
            stdout=subprocess.PIPE,
            env=os.environ | {"SPARK_LOCAL_IP": HOST, "SPARK_SUBMIT_OPTS": QUICK_START},
        )
        try:
            done_before = wait_for_a_run(process, there.folder / "sweeps" / "v1" / "storm")
            killed = cluster.executors()[0]
            os.kill(killed, signal.SIGKILL)
            told = json.loads(process.communicate(timeout=PATIENCE_S)[0])
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 0
        yield Proof(cluster, here, there, killed, done_before, told)


def write_pipeline(folder: Path) -> Path:
    """The pipeline with its scenario and its raw file: thirty nodes, three days."""
    write_scenario(folder)
    hours = [[(24 * day + i % 5, 24 * day + 6 + i / 7) for day in range(3)] for i in range(30)]
    lines = [
        f"n{i} 3 " + " ".join(f"{on * 3600} {off * 3600:.0f}" for on, off in sessions)
        for i, sessions in enumerate(hours)
    ]
    (folder / "trace.avt").write_text("\n".join(lines) + "\n")
    plan = folder / "proof.toml"
    plan.write_text(PIPELINE)
    return plan


def wait_for_a_run(process: "subprocess.Popen[bytes]", store: Path) -> int:
    """Until some runs of a sweep are done, and not all; how many."""
    until = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < until:
        done = len(list(store.glob("*/run.json")))
        if done:
            return done
        time.sleep(0.02)
    raise AssertionError("the sweep has not begun")


def content(lake: Lake, table: LakeTable, dataset: str) -> bytes:
    """The rows of a table, in an order of their own."""
    found = pq.read_table(lake.path(table, dataset), partitioning="hive")
    if found.num_rows:  # a folder without files has no columns either
        found = found.select(table.schema.fieldNames())
    return "\n".join(sorted(json.dumps(row, sort_keys=True) for row in found.to_pylist())).encode()


def everything(lake: Lake) -> dict[tuple[str, str], bytes]:
    """All tables of a lake but the one that holds seconds and process ids."""
    return {
        (table.name, dataset): content(lake, table, dataset)
        for table in TABLES.values()
        for dataset in lake.datasets(table)
        if table is not RUN_TIMINGS
    }


def test_every_table_has_the_bytes_of_local_mode(proof: Proof) -> None:
    here, there = everything(proof.here), everything(proof.there)
    assert len(here) > 15
    assert here.keys() == there.keys()
    assert [key for key, rows in here.items() if rows != there[key]] == []


def test_runs_wrote_the_very_same_files(proof: Proof) -> None:
    for name in ("calm", "storm"):
        here, there = (
            {
                path.relative_to(lake.folder): path.read_bytes()
                for path in (lake.folder / "sweeps" / "v1" / name).rglob("*.parquet")
            }
            for lake in (proof.here, proof.there)
        )
        assert here == there
        assert len(here) >= 15


def test_a_sweep_outlives_an_executor(proof: Proof) -> None:
    assert 0 < proof.done_before < STORM, "the executor was killed in the middle"
    assert all(step["ok"] for step in proof.told)
    runs = pq.read_table(proof.there.path(RUNS, "storm")).to_pylist()
    assert [row["status"] for row in runs] == ["ok"] * STORM
    store = proof.there.folder / "sweeps" / "v1" / "storm"
    left = {path.name for path in store.iterdir()} - {row["run_id"] for row in runs}
    assert left == {".lock"}


def test_executors_had_the_package_that_was_sent_and_no_other(proof: Proof) -> None:
    tried = subprocess.run(
        [proof.cluster.python, "-c", "import numba, pyarrow, vinecast"], capture_output=True, text=True
    )
    assert "No module named 'vinecast'" in tried.stderr
    assert len([entry.name for entry in proof.cluster.cache.iterdir()]) == 1
    assert next(proof.cluster.cache.iterdir()).name.startswith("shipped-")
    for name in ("calm", "storm"):
        timings = pq.read_table(proof.there.path(RUN_TIMINGS, name)).to_pylist()
        assert len({row["process"] for row in timings}) >= 2, "more than one executor took part"
