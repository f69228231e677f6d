"""The benchmark of simulated peers, with so few seeds that it takes no time."""

import json

import pytest

from vinecast.cli import main
from vinecast.lab.bench.peers import SECONDS, standard_plan


def test_the_standard_run_is_what_it_says() -> None:
    plan = standard_plan()
    assert plan.quiet_s == SECONDS - 1
    assert all(0 <= getattr(step, "node", 0) < len(plan.nodes) for step in plan.steps)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "peers", "--seeds", "1", "--repeat", "1", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 3
    assert all(row["value"] > 0 and row["target"] for row in rows)
