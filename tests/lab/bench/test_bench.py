"""Benchmarks at toy sizes: they run, and their numbers are numbers. How fast is not asked here."""

import json
import math
from collections.abc import Iterator

import numpy as np
import pytest

from vinecast.cli import main
from vinecast.lab.bench import sim
from vinecast.lab.bench.result import Result
from vinecast.lab.bench.sim import (
    bench_sim,
    child,
    cold_start,
    cyclon_engine,
    events_a_second,
    growth_exponent,
    peak_bytes,
    seconds_a_cycle,
)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 1.15, 2.0])
def test_the_exponent_of_a_power_law(exponent: float) -> None:
    sizes = [1000, 2000, 4000, 8000]
    assert growth_exponent(sizes, [3e-7 * n**exponent for n in sizes]) == pytest.approx(exponent, abs=1e-9)


def test_the_exponent_of_noise_lies_between() -> None:
    sizes = [1000, 10_000]
    assert growth_exponent(sizes, [1.0, 12.0]) == pytest.approx(math.log10(12))


@pytest.mark.parametrize(("setting", "threads"), [("sequential", 1), ("synchronous", 1), ("synchronous", 2)])
def test_an_engine_to_measure(setting: str, threads: int) -> None:
    engine = cyclon_engine(100, setting, threads)
    try:
        seconds = seconds_a_cycle([engine], rounds=2, cycles=2)
    finally:
        engine.close()
    assert engine.cycle == sim.WARM_UP + 2 * 2
    assert engine.sweep.online.all()
    assert (engine.sweep.views >= 0).all()
    assert 0 < seconds[0] < math.inf


def test_engines_are_measured_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[int] = []

    class Recorder:
        def __init__(self, number: int) -> None:
            self.number = number

        def run(self, cycles: int) -> None:
            turns.append(self.number)

    seconds_a_cycle([Recorder(0), Recorder(1)], rounds=3)  # type: ignore[list-item]
    assert turns == [0, 1] * 4


def test_events_are_counted() -> None:
    assert 0 < events_a_second(50, 2) < math.inf


def test_the_memory_of_a_process_is_its_own() -> None:
    """A small child of a large parent is small."""
    ballast = np.ones(300_000_000, dtype=np.uint8)
    code = "from vinecast.lab.bench.sim import peak_bytes; print(peak_bytes())"
    assert 10_000_000 < int(child(code)) < peak_bytes() - 50_000_000
    assert ballast[-1] == 1


def test_the_cold_start() -> None:
    assert 0 < cold_start(1) < math.inf


def test_all_figures() -> None:
    results = list(bench_sim(2000, 1, 3000))
    assert len(results) >= 12
    assert len({result.what for result in results}) == len(results)
    for result in results:
        assert result.what
        assert result.measured
        assert math.isfinite(result.value)
        assert result.value > 0
        assert (result.meets is None) == (result.target == "")
        assert result.verdict in ("", "yes", "no")
    everything = "\n".join(result.what for result in results)
    for words in (
        "sequential",
        "2 threads",
        "state",
        "growth",
        "peak memory",
        "event engine",
        "--help",
        "cached",
    ):
        assert words in everything
    state = next(result for result in results if result.what.endswith("state"))
    assert state.value == 129
    assert json.loads(json.dumps([result.as_dict() for result in results], allow_nan=False))


def test_plain_python_is_said_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sim, "COMPILED", False)
    first = next(bench_sim(100, 1, 100))
    assert (first.what, first.measured, first.verdict) == ("rules", "plain Python", "no")


FAKE = [
    Result("one", "1 s", 1.0, "≤ 2 s", True),
    Result("two", "3 s", 3.0, "≤ 2 s", False),
    Result("three", "4 s", 4.0),
]


def test_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[tuple[int, int, int]] = []

    def fake(nodes: int, rounds: int, largest: int) -> Iterator[Result]:
        asked.append((nodes, rounds, largest))
        yield from FAKE

    monkeypatch.setattr(sim, "bench_sim", fake)
    arguments = ["bench", "sim", "--nodes", "7", "--repeat", "2", "--largest", "9"]
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = [
        [cell.strip() for cell in line.strip("┃│").replace("┃", "│").split("│")] for line in out.splitlines()
    ]
    assert ["what", "measured", "target", "meets it"] in lines
    assert ["two", "3 s", "≤ 2 s", "no"] in lines
    assert ["three", "4 s", "", ""] in lines
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == [result.as_dict() for result in FAKE]
    assert set(found[0]) == {"what", "measured", "value", "target", "meets"}
    assert asked == [(7, 2, 9)] * 2


def test_too_few_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "sim", "--nodes", "10"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("vinecast: ")
    assert err.count("\n") == 1


def test_too_few_nodes_for_the_memory(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "sim", "--nodes", "1000", "--repeat", "1", "--largest", "10"]) == 2
    assert capsys.readouterr().err.startswith("vinecast: ")
