"""The grid of S4 ch. 6 as Spark sweeps, at a tiny size: every threshold, by the day and by the week."""

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.paths import PIPELINES
from support.spark_tests import SPARK

pytest.importorskip("pyspark", reason="needs the extra 'spark'")
pytest.importorskip("matplotlib", reason="needs the extra 'figures'")

import tomli_w

from vinecast.pipeline.lake import Lake
from vinecast.pipeline.plan import read_pipeline, run_pipeline
from vinecast.pipeline.runs_tables import MEASURES, RUNS
from vinecast.sim.scenario.run import simulate
from vinecast.sim.scenario.scenario import read_scenario

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PERIOD_S = 20_000.0
LAYERS = ("cyclon", "vicinity", "rings", "regular", "grid.victor")
TINY: dict[str, Any] = {
    "nodes": 40, "cycles": 60, "workload.kind": "synthetic",
    "churn": {"kind": "onoff", "mean_on_s": 400_000.0, "mean_off_s": 100_000.0},
    **{f"poldercast_regular.{layer}.period_s": PERIOD_S for layer in LAYERS},
}  # fmt: skip


class TestSpark:
    pytestmark = SPARK

    def test_the_sweep_of_thresholds(self, spark: "SparkSession", tmp_path: Path) -> None:
        stages = tomllib.loads((PIPELINES / "regularity.toml").read_text())["stage"][3:]
        sweep = stages[0]
        scenario = (PIPELINES / sweep["scenario"]).resolve()
        (threshold,) = sweep["grid"]
        assert sweep["grid"][threshold] == list(range(50, 100, 5))
        sweep |= {"scenario": str(scenario), "seeds": 1, "set": TINY, "grid": {threshold: [50, 90]}}
        stages[-1]["out"] = str(tmp_path / "out")
        plan = tmp_path / "tiny.toml"
        plan.write_text(tomli_w.dumps({"name": "tiny", "stage": stages}))
        lake = Lake(tmp_path / "lake")
        assert all(step.ok for step in run_pipeline(read_pipeline(plan), lake))
        assert (tmp_path / "out" / "index.html").is_file()

        name = "regularity-thresholds"
        measures = lake.read(spark, MEASURES, name).where("by = 'all' AND when = 'run'")
        runs = lake.read(spark, RUNS, name).select("run_id", "settings")
        rows = [row.asDict() for row in measures.join(runs, "run_id").collect()]
        assert len(rows) == 4
        for row in rows:
            settings = {key: tomllib.loads(f"x = {value}")["x"] for key, value in row["settings"].items()}
            cycle_s = {"day": 86_400, "week": 604_800}[settings.pop("cycle")]
            chosen = TINY | settings | {"poldercast_regular.grid.regularity.cycle_s": cycle_s}
            cycles = simulate(read_scenario(scenario, chosen)).rows
            expected = [cycle["hit_by_topic"] for cycle in cycles if cycle["hit_by_topic"] is not None]
            assert row["hit_by_topic"] == pytest.approx(sum(expected) / len(expected), abs=1e-12)
            assert row["hit_ratio"] != row["hit_by_topic"]
