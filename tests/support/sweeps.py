"""What the tests of sweeps share: a tiny scenario, and a sweep of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from vinecast.pipeline.tables import LakeTable

SCENARIO = """
name = "tiny"
seed = 1
system = "poldercast"
nodes = 30
cycles = 5

[poldercast.cyclon]
view_size = 8
gossip_size = 4

[poldercast.vicinity]
view_size = 8
gossip_size = 4

[workload]
kind = "synthetic"
subscriptions = 4

[publish]
every = 2
warm_up = 1
"""

CHURN = {"churn.kind": "onoff", "churn.mean_on_s": 900.0, "churn.mean_off_s": 300.0}
"""Half a dozen of thirty come and go in a few cycles of a minute."""

EVENT = {"engine": "event", "network": {"latency": "sampled", "latency_ms": 20.0, "latency_ms_max": 4000.0}}
"""Events that take so long that some do not arrive before the cycle ends, and overtake each other."""


def sweep_table(**more: Any) -> dict[str, Any]:
    """A sweep of two fan-outs, with and without churn, as its file would say it."""
    return {
        "scenario": "tiny.toml",
        "seeds": [3],
        "grid": {"poldercast.fanout": [1, 2]},
        "variants": {"churn": {"none": {}, "onoff": CHURN}},
        **more,
    }


def write_scenario(folder: Path) -> Path:
    """The tiny scenario as a file."""
    path = folder / "tiny.toml"
    path.write_text(SCENARIO, encoding="utf-8")
    return path


def frame(spark: "SparkSession", table: "LakeTable", rows: list[dict[str, Any]]) -> "DataFrame":
    """A frame of a table of which only some columns matter."""
    schema = type(table.schema)([type(field)(field.name, field.dataType, True) for field in table.schema])
    return spark.createDataFrame(
        [tuple(row.get(name) for name in schema.fieldNames()) for row in rows], schema
    )
