"""The benchmark of the thesis's run at toy sizes: it runs, and its numbers are numbers. How fast is not asked
here."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from vinecast.cli import main
from vinecast.core.errors import InputError
from vinecast.lab.bench import regular
from vinecast.lab.bench.regular import QUICK, RegularSizes, measure_alone, report_alone
from vinecast.lab.bench.result import Result
from vinecast.lab.claims.registry import CLAIMS, Setup, check_claim

TAKEN = {"minutes": 12.0, "gb": 1.5, "online": 400.0, "regular": 250.0, "trace": "on-off churn"}


def _fake(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    asked: list[tuple[str, ...]] = []

    def child(code: str, *arguments: str) -> str:
        asked.append(arguments)
        return json.dumps(TAKEN)

    monkeypatch.setattr(regular, "child", child)
    return asked


def test_all_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _fake(monkeypatch)
    results = list(regular.bench_regular(None, RegularSizes(nodes=150, cycles=7)))
    assert [(exchange, cycle) for _, _, exchange, cycle, *_ in asked] == [
        ("informed", "day"), ("informed", "week"), ("paper", "day"), ("paper", "week"),
    ]  # fmt: skip
    assert {(*words[:2], *words[4:]) for words in asked} == {("", "synthetic", "150", "7", "2")}
    assert len({result.what for result in results}) == len(results) == 12
    timed, memory = results[0], results[1]
    assert (timed.measured, timed.target, timed.verdict) == ("12.0 min", "≤ 20 min", "yes")
    assert (memory.measured, memory.target, memory.verdict) == ("1.50 GB", "≤ 1 GB", "no")
    assert "24,780 cycles, from 7 in the middle of it" in timed.what


def test_both_samples(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("skype.avt.gz", "soc-Slashdot0902.txt.gz", "facebook-cornell5.txt.gz"):
        (tmp_path / name).touch()
    asked = _fake(monkeypatch)
    results = list(regular.bench_regular(tmp_path, RegularSizes(nodes=150, cycles=7)))
    assert [words[1] for words in asked] == ["slashdot"] * 4 + ["facebook"] * 4
    assert len({result.what for result in results}) == len(results) == 20


def test_the_whole_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _fake(monkeypatch)
    results = list(regular.bench_regular(None, QUICK, whole_trace=True, threads=1))
    assert [arguments[4:] for arguments in asked] == [("200", "24780", "1")] * 4
    assert results[0].what.endswith("24,780 cycles")


@pytest.mark.parametrize(("cycle", "exchange"), [("day", "informed"), ("week", "paper")])
def test_a_stretch(
    cycle: str, exchange: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(regular, "WARM_UP", 2)
    report_alone("", "synthetic", exchange, cycle, "100", "3", "1")
    found = json.loads(capsys.readouterr().out)
    assert found.keys() == TAKEN.keys()
    assert 0 < found["regular"] <= found["online"] <= 100
    assert found["minutes"] > 0
    assert 0 < found["gb"] < 4


def test_the_stretch_begins_with_a_week() -> None:
    begin_s = regular.BEGIN * regular.PERIOD_S
    assert begin_s % (7 * 86_400) == 0


def test_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _fake(monkeypatch)
    verdict = check_claim(CLAIMS["RE-9"], Setup("small"))
    assert not verdict.holds, "half a gigabyte too much"
    assert "by the day 12.0 min and 1.50 GB; by the week" in verdict.measured
    assert [arguments[1:4] for arguments in asked] == [
        ("synthetic", "paper", "day"), ("synthetic", "paper", "week"),
    ]  # fmt: skip


def test_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[tuple[object, ...]] = []

    def fake(*arguments: object) -> Iterator[Result]:
        asked.append(arguments)
        yield Result("one", "1 s", 1.0, "≤ 2 s", True)

    monkeypatch.setattr(regular, "bench_regular", fake)
    monkeypatch.delenv("VINECAST_DATA", raising=False)
    command = ["bench", "sim", "--system", "poldercast_regular", "--markdown"]
    assert main([*command, "--quick"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].endswith("--quick --system poldercast_regular`")
    assert out[-1] == "| one | 1 s | ≤ 2 s | yes |"
    assert main([*command, "--nodes", "500", "--whole-trace"]) == 0
    assert asked == [(None, QUICK, False), (None, RegularSizes(nodes=500), True)]


def test_bad_input_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rest in (["--nodes", "10"], ["--data", str(tmp_path)]):
        assert main(["bench", "sim", "--system", "poldercast_regular", "--quick", *rest]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("vinecast: ")
        assert err.count("\n") == 1
    with pytest.raises(InputError, match=r"skype.avt.gz: no such file"):
        measure_alone(tmp_path, "slashdot", "paper", "day", 100, 1, 1)
