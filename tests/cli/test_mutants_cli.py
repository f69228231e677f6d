"""``vinecast mutants``: what it says of mutants, and how it exits."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from vinecast.cli import main
from vinecast.lab.mutants import catalogue, trial
from vinecast.lab.mutants.catalogue import MUTANTS
from vinecast.lab.mutants.mutant import Mutant
from vinecast.lab.mutants.trial import MutantResult

MUTANT = replace(MUTANTS[0], name="made-up", tests=("tests/one", "tests/other"), seed=3)


def told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], result: MutantResult) -> str:
    """What is said of one, without trying it; the exit status comes first."""

    def try_mutants(chosen: Sequence[Mutant], *rest: object) -> list[MutantResult]:
        return [result]

    monkeypatch.setattr(catalogue, "MUTANTS", (MUTANT,))
    monkeypatch.setattr(trial, "try_mutants", try_mutants)
    status = main(["mutants", "made-up", "--threads", "1"])
    said = f"{status}\n{capsys.readouterr().out}"
    assert main(["mutants", "made-up", "--threads", "1", "--json"]) == status
    found = json.loads(capsys.readouterr().out)
    assert (found["survivors"] == []) == (result.is_caught or bool(result.broken))
    assert found["unnoticed"].get("made-up", []) == list(result.unnoticed_by)
    assert found["broken"].get("made-up", "") == result.broken
    return said


def test_a_mutant_that_all_notice_is_right(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = told(monkeypatch, capsys, MutantResult(MUTANT, 3, "D1", MUTANT.tests))
    assert said.startswith("0\n")
    assert "1 mutants: 1 shown by the campaign, 1 by tests, 0 by nothing." in said
    assert "not noticed" not in said


@pytest.mark.parametrize(
    ("seed", "tests", "missing"),
    [
        (None, MUTANT.tests, "seed 3"),
        (4, MUTANT.tests, "seed 3"),
        (3, MUTANT.tests[:1], "tests/other"),
        (3, (), "tests/one"),
        (None, (), "seed 3"),
    ],
)
def test_whoever_does_not_notice_its_mutant_is_told(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    seed: int | None,
    tests: tuple[str, ...],
    missing: str,
) -> None:
    said = told(monkeypatch, capsys, MutantResult(MUTANT, seed, "", tests))
    assert said.startswith("1\n")
    assert f"made-up is not noticed by {missing}\n" in said


def test_a_broken_mutant_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = told(
        monkeypatch, capsys, MutantResult(MUTANT, 3, "D1", broken="x.py cannot be imported: NameError")
    )
    assert said.startswith("1\n")
    assert "made-up is no mutant but an error: x.py cannot be imported: NameError\n" in said
    assert "1 mutants: 0 shown by the campaign, 0 by tests, 0 by nothing." in said
