"""The benchmark of searches, on a small network."""

import json

import pytest

from vinecast.cli import main


def test_upkeep_is_within_its_bounds_and_filters_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "anycast", "--quick", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert all(row["meets"] for row in rows if row["target"])
    assert len([row for row in rows if row["target"]]) == 10
    hops = {row["what"].split(":")[0]: row["value"] for row in rows if "hops of all walks" in row["what"]}
    assert all(value < hops["no filters"] for name, value in hops.items() if name != "no filters")


def test_too_few_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "anycast", "--nodes", "20"]) == 2
    assert "need more than 20 nodes, not 20" in capsys.readouterr().err
