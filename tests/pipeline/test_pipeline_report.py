"""Reports: means and spreads over seeds, and pages that stand alone."""

import csv
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.spark_tests import SPARK
from support.sweeps import frame

pytest.importorskip("pyspark", reason="needs the extra 'spark'")
pytest.importorskip("matplotlib", reason="needs the extra 'figures'")

from vinecast.core.errors import InputError
from vinecast.pipeline import measure
from vinecast.pipeline.lake import Lake
from vinecast.pipeline.report import (
    ReportConfig,
    check_folder,
    check_measured,
    curves_of,
    points_of,
    shares_of,
)
from vinecast.pipeline.report_pages import Page, check_axis, write_pages
from vinecast.pipeline.runs_tables import DISTRIBUTIONS, MEASURES, RUNS, SERIES
from vinecast.pipeline.tables import LakeTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POINTS = [json.dumps({"poldercast.fanout": f, "churn": c}) for f in ("10", "2") for c in ('"none"', '"a<b"')]


def page(**more: Any) -> Page:
    """Two fan-outs with and without churn, two seeds."""
    points = [
        {
            "point": point,
            "measure": measure,
            "runs": 2,
            "mean": 0.1 * i + 1,
            "std": 0.05,
            "low": 0.9,
            "high": 2.0,
        }
        for i, point in enumerate(POINTS)
        for measure in ("hit_ratio", "hops_mean")
    ]
    given: dict[str, Any] = {
        "title": "A & B",
        "points": points,
        "order": POINTS,
        "measures": ("hit_ratio", "hops_mean"),
        "x": None,
        "hops": [{"point": POINTS[0], "value": v, "count": c} for v, c in ((1, 3), (2, 1))],
        "curves": [{"point": POINTS[0], "cycle": c, "miss_ratio": 0.1 * c} for c in range(3)],
        "failed": [("abc", "no <nodes>")],
        "runs": 9,
    }
    return Page(**(given | more))


def test_pages_stand_alone_and_are_the_same_twice(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_pages(page(), tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    pictures = [f"{name}.{ending}" for name in ("hops", "measures", "misses") for ending in ("png", "svg")]
    assert files == sorted(["index.html", "points.csv", "report.md", *pictures])
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name
    text = (tmp_path / "one" / "index.html").read_text()
    assert not re.findall(r'(?:src|href)=(?!"data:)', text), "nothing is fetched from anywhere"
    assert text.count("data:image/svg+xml;base64,") == 3
    assert "A &amp; B" in text
    assert "no &lt;nodes&gt;" in text
    assert "<td class=setting>a&lt;b</td>" in text


def test_numbers_are_sorted_as_numbers_and_kept_in_full(tmp_path: Path) -> None:
    write_pages(page(), tmp_path)
    lines = (tmp_path / "report.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    assert rows[0] == "| poldercast.fanout | churn | hit ratio | hops, mean |"
    assert [row.split(" | ")[0] for row in rows[2:]] == ["| 2", "| 2", "| 10", "| 10"]
    assert "1.3 ± 0.05" in rows[2]
    with (tmp_path / "points.csv").open() as file:
        told = list(csv.DictReader(file))
    assert len(told) == 8
    assert told[0] == {
        "poldercast.fanout": "2", "churn": "a<b", "measure": "hit_ratio", "runs": "2",
        "mean": repr(0.1 * 3 + 1), "std": "0.05", "low": "0.9", "high": "2.0",
    }  # fmt: skip


def test_a_grid_without_numbers_has_tables_and_no_curves_over_it(tmp_path: Path) -> None:
    order = [json.dumps({"churn": json.dumps(name)}) for name in ("none", "skype")]
    points = [{**row, "point": order[i % 2], "runs": 1} for i, row in enumerate(page().points)]
    write_pages(page(order=order, points=points, hops=[], curves=[], failed=[]), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index.html", "points.csv", "report.md"]


def test_what_cannot_be_reported() -> None:
    with pytest.raises(InputError, match="there is no measure 'hit_rate'"):
        ReportConfig(measures=("hit_rate",))
    with pytest.raises(InputError, match="when is run or last"):
        ReportConfig(when="sometimes")


def test_x_is_an_axis_of_numbers() -> None:
    check_axis(POINTS, "poldercast.fanout")
    for x in ("churn", "fanout"):
        with pytest.raises(InputError, match=rf"numbers, not '{x}' \(axes: poldercast.fanout, churn\)"):
            check_axis(POINTS, x)


def test_a_report_replaces_nothing_but_a_report(tmp_path: Path) -> None:
    check_folder(tmp_path / "new")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file is a file"):
        check_folder(tmp_path / "file")
    with pytest.raises(InputError, match="is not a report's folder"):
        check_folder(tmp_path)


def test_measures_of_other_runs_are_not_reported(tmp_path: Path) -> None:
    lake = Lake(tmp_path)

    def publish(table: LakeTable, made_from: dict[str, Any], results: str = "") -> None:
        with lake.new_generation(table, "it") as generation:
            generation.commit(made_from, {"results": results})

    def measured() -> None:
        for table in (MEASURES, SERIES, DISTRIBUTIONS):
            publish(table, measure.made_from(lake, "it", "counts"))

    publish(RUNS, {"runs": [1]}, "bytes")
    measured()
    check_measured(lake, "it")
    for made_from, results in (({"runs": [1, 2]}, "bytes"), ({"runs": [1, 2]}, "other bytes")):
        publish(RUNS, made_from, results)
        with pytest.raises(InputError, match="the measures of 'it' are not of its runs: measure it again"):
            check_measured(lake, "it")
        measured()
        check_measured(lake, "it")
    publish(SERIES, {"half": "published"})
    with pytest.raises(InputError, match="measure it again"):
        check_measured(lake, "it")


class TestSpark:
    pytestmark = SPARK

    def test_over_the_seeds(self, spark: "SparkSession") -> None:
        a, b = {"poldercast.fanout": "1"}, {"poldercast.fanout": "2"}
        runs = frame(
            spark,
            RUNS,
            [
                {"run_id": "a1", "settings": a, "status": "ok"},
                {"run_id": "a2", "settings": a, "status": "ok"},
                {"run_id": "b1", "settings": b, "status": "ok"},
                {"run_id": "b2", "settings": b, "status": "failed"},
            ],
        )
        told = [("a1", 0.5, 3.0), ("a2", 0.9, None), ("b1", 1.0, 2.0), ("b2", 0.0, 9.0)]
        common = {"when": "run", "by": "all"}
        rows = [{"run_id": r, "hit_ratio": h, "hops_mean": m, **common} for r, h, m in told]
        rows.append({"run_id": "a1", "hit_ratio": 0.1, "when": "run", "by": "popularity"})
        measures = frame(spark, MEASURES, rows)
        points = points_of(runs, measures, ("hit_ratio", "hops_mean", "hops_p99"), "run").collect()
        found = {(row["point"], row["measure"]): row for row in points}
        one, two = '{"poldercast.fanout":"1"}', '{"poldercast.fanout":"2"}'
        assert set(found) == {(one, "hit_ratio"), (one, "hops_mean"), (two, "hit_ratio"), (two, "hops_mean")}
        row = found[one, "hit_ratio"]
        assert (row["runs"], row["low"], row["high"]) == (2, 0.5, 0.9)
        assert row["mean"] == pytest.approx(0.7)
        assert row["std"] == pytest.approx(0.2 * 2**0.5)
        assert found[two, "hops_mean"].asDict() == {
            "point": two, "measure": "hops_mean", "runs": 1, "mean": 2.0, "std": 0.0, "low": 2.0, "high": 2.0
        }  # fmt: skip

        series = frame(
            spark,
            SERIES,
            [
                {"run_id": r, "cycle": 3, "due": due, "hits": 6}
                for r, due in (("a1", 6), ("a2", 10), ("b2", 60))
            ],
        )
        assert [tuple(row) for row in curves_of(runs, series).collect()] == [(one, 3, 0.25)]
        hops = [("a1", 1, 4), ("a1", 2, 6), ("a2", 2, 10), ("b2", 1, 1)]
        distributions = frame(
            spark,
            DISTRIBUTIONS,
            [{"run_id": r, "when": "run", "what": "hops", "value": v, "count": c} for r, v, c in hops],
        )
        shares = shares_of(runs, distributions, "hops", "run").collect()
        assert [tuple(row) for row in shares] == [(one, 1, 4), (one, 2, 16)]
