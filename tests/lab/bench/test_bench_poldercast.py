"""PolderCast's benchmark at toy sizes: it runs, and its numbers are numbers. How fast is not asked here."""

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from vinecast.cli import main
from vinecast.core.errors import InputError
from vinecast.lab.bench import poldercast
from vinecast.lab.bench.poldercast import (
    EXCHANGES,
    QUICK,
    TRACE,
    PolderCastSizes,
    engine_of,
    event_seconds,
    follow_trace,
    follower_workload,
    main_workload,
    phase_shares,
    report_alone,
    sweep_of,
)
from vinecast.lab.bench.poldercast import bench_poldercast as bench
from vinecast.lab.bench.result import Result
from vinecast.sim.workload.churn import Availability, on_off

TINY = PolderCastSizes(
    nodes=120,
    churn_nodes=100,
    churn_cycles=3,
    many=100,
    growth_nodes=(100, 200),
    growth_subscriptions=(4.0, 8.0),
    growth_at=100,
)


def test_all_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def child(code: str, *arguments: str) -> str:
        asked.append(arguments)
        return '{"gb": 0.45, "seconds": 0.005}'

    monkeypatch.setattr(poldercast, "child", child)
    results = list(bench(None, 1, TINY, largest=300))
    assert [arguments[:3] for arguments in asked] == [
        ("main", "120", "0.0"),
        ("follower", "100", "25.0"),
        ("follower", "300", "10.0"),
    ]
    by_name = {result.what: result for result in results}
    assert len(by_name) == len(results)
    for result in results:
        assert "synthetic" in result.what
        assert result.measured
        assert math.isfinite(result.value)
        assert (result.meets is None) == (result.target == "")
    for exchange in EXCHANGES:
        shares = [result.value for what, result in by_name.items() if f"{exchange} exchange, share" in what]
        assert sum(shares) == pytest.approx(1)
    peaks = [result for what, result in by_name.items() if "peak memory" in what]
    assert [(peak.measured, peak.target, peak.verdict) for peak in peaks] == [
        ("450 MB", "≤ 400 MB", "no"),
        ("450 MB", "≤ 500 MB", "yes"),
        ("0.45 GB", "≤ 6 GB", "yes"),
    ]
    (slow,) = [result for what, result in by_name.items() if "(per 100,000)" in what]
    assert slow.value == pytest.approx(5.0)
    (minutes,) = [result for what, result in by_name.items() if "41,300 cycles, from 3" in what]
    assert minutes.value > 0


def test_a_population_is_measured_in_a_process_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    report_alone("follower", "150", "6.0", "2", "1", "")
    found = json.loads(capsys.readouterr().out)
    assert 0.01 < found["gb"] < 100
    assert 0 < found["seconds"] < math.inf


def test_the_shares_are_named_by_layer() -> None:
    engine = engine_of(follower_workload(100, 6.0), "paper", 1)
    shares = phase_shares(engine, 2)
    assert set(shares) == {
        "cyclon and profiles",
        *(
            f"{layer}: {part}"
            for layer in ("vicinity", "rings")
            for part in ("request", "sort mail", "answer", "merge")
        ),
    }
    assert sum(shares.values()) == pytest.approx(1)
    assert engine.cycle == 2
    assert engine.watch is None


def test_an_event_is_timed_with_and_without_a_matrix(tmp_path: Path) -> None:
    matrix = tmp_path / "rtt.txt"
    matrix.write_text("0 20\n20 0\n")
    engine = engine_of(follower_workload(100, 6.0), "informed", 2)
    engine.run(3)
    assert 0 < event_seconds(engine, 1) < math.inf
    assert 0 < event_seconds(engine, 1, matrix) < math.inf
    engine.close()


def test_a_trace_is_followed_from_where_it_is_entered() -> None:
    """Everybody is on line but node 0, which leaves after 21 of the cycles that are run."""
    nodes, first = 100, 7
    off_s = np.full(nodes, 1e9)
    off_s[0] = (first + 21) * 60.0
    trace = Availability(np.arange(nodes + 1), np.zeros(nodes), off_s, 1e9)
    engine = engine_of(follower_workload(nodes, 6.0), "informed", 1, online=False)
    assert not sweep_of(engine).online.any()
    assert follow_trace(engine, trace, first, 10) > 0
    assert engine.cycle == 30
    assert np.flatnonzero(~sweep_of(engine).online).tolist() == [0]


def test_nobody_on_line_at_first_is_no_obstacle() -> None:
    trace = on_off(1, 100, 3600.0, 300.0, 3000.0)
    engine = engine_of(follower_workload(100, 6.0), "informed", 1, online=False)
    assert follow_trace(engine, trace, 0, 10) > 0


def test_the_workload_is_named() -> None:
    name, found = main_workload(400, None)
    assert name == f"400 nodes, synthetic, {found.count / 400:.0f} subscriptions"
    assert found.count / 400 == pytest.approx(101.8 / 5, rel=0.1)


# The command.


def test_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[tuple[object, ...]] = []

    def fake(*arguments: object) -> Iterator[Result]:
        asked.append(arguments)
        yield Result("one", "1 s", 1.0, "≤ 2 s", True)

    monkeypatch.setattr(poldercast, "bench_poldercast", fake)
    monkeypatch.delenv("VINECAST_DATA", raising=False)
    command = ["bench", "sim", "--system", "poldercast", "--markdown"]
    assert main([*command, "--quick", "--repeat", "2"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "| one | 1 s | ≤ 2 s | yes |"
    assert main([*command, "--nodes", "500", "--largest", "900", "--whole-trace"]) == 0
    assert asked == [(None, 2, QUICK, None, False), (None, 5, PolderCastSizes(nodes=500), 900, True)]


@pytest.mark.parametrize(
    "rest", [["--nodes", "10"], ["--largest", "10"], ["--data", "no such folder"], ["--data", "."]]
)
def test_bad_input_is_one_sentence(
    rest: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["bench", "sim", "--system", "poldercast", "--quick", *rest]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("vinecast: ")
    assert err.count("\n") == 1


def test_a_missing_trace_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poldercast, "main_workload", lambda nodes, data: ("w", follower_workload(100, 4.0)))
    with pytest.raises(InputError, match=TRACE):
        next(poldercast._churn(tmp_path, TINY, False, 1))
