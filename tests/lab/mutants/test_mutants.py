"""Every mutant can be made, and what should notice it is there. ``vinecast mutants`` tries them."""

import ast
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import vinecast
from support.paths import ROOT
from vinecast.core.errors import Bug, InputError
from vinecast.lab.mutants import seeds
from vinecast.lab.mutants.catalogue import MUTANTS
from vinecast.lab.mutants.mutant import Mutant
from vinecast.lab.mutants.trial import Copy, NoVerdictError, check_unchanged, try_mutant, try_mutants

PACKAGE = Path(vinecast.__file__).parent
PROMISES = {*(f"D{number}" for number in range(1, 14)), "V", "L", "R", "S"}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_still_applies(mutant: Mutant) -> None:
    changed = mutant.changed(mutant.source(PACKAGE))
    compile(changed, mutant.module, "exec")
    assert changed != mutant.source(PACKAGE)
    assert mutant.breaks in PROMISES
    assert mutant.tests or mutant.seed, "name what should notice it: vinecast mutants NAME --search 100"
    for test in mutant.tests:
        file, _, name = test.partition("::")
        tree = ast.parse((ROOT / file).read_text())
        functions = {
            node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert name.partition("[")[0] in functions, f"{test} is not there"


def test_there_are_enough_and_each_has_a_name_of_its_own() -> None:
    assert len(MUTANTS) >= 40
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert len({(mutant.module, mutant.before, mutant.after) for mutant in MUTANTS}) == len(MUTANTS)


def test_what_a_mutant_changes_stands_there_once() -> None:
    with pytest.raises(Bug, match="stands 2 times"):
        replace(MUTANTS[0], before="a").changed("a a")


NOTICES = "tests/core/log/test_batch_signature.py::test_what_is_remembered_is_bounded_and_only_what_is_right"
CAUGHT = next(one for one in MUTANTS if one.name == "any-publisher-of-a-root")


def test_a_mutant_is_caught_or_not() -> None:
    """One that a test notices, one that this test does not, and one with which nothing can be imported."""
    missed = next(one for one in MUTANTS if one.name == "lists-skip-a-height")
    tried = [replace(one, tests=(NOTICES,), seed=None) for one in (CAUGHT, missed)]
    tried.append(replace(tried[0], name="broken", after=f"{CAUGHT.after}]"))
    caught, missed_by_it, broken = try_mutants(tried, threads=1)
    assert (caught.tests, caught.unnoticed_by, caught.is_right) == ((NOTICES,), (), True)
    assert not missed_by_it.is_caught
    assert missed_by_it.unnoticed_by == (NOTICES,)
    assert (broken.is_caught, broken.is_right, broken.tests) == (False, False, ())
    assert "core/log/batch_signature.py cannot be imported: SyntaxError" in broken.broken


class Told(Copy):
    """A copy in which nothing is run: it is told how each run ends, and what it says."""

    def __init__(self, folder: Path, ends: dict[str, tuple[int | None, str]]) -> None:
        self.package, self._ends = folder, ends
        (folder / "core" / "log").mkdir(parents=True)
        (folder / CAUGHT.module).write_text(CAUGHT.before)

    def run(self, arguments: Sequence[str], patience_s: float) -> tuple[int | None, str]:
        return self._ends.get(arguments[-1], (0, SHOWS_NOTHING))


SHOWS_NOTHING, SHOWS = '{"seed": null, "found": []}', '{"seed": 7, "found": ["D1: lost"]}'
NAMES_BOTH = replace(CAUGHT, tests=("one", "other"), seed=7)


@pytest.mark.parametrize(
    ("ends", "caught", "unnoticed"),
    [
        ({"7": (0, SHOWS), "one": (1, ""), "other": (1, "")}, True, ()),
        ({"7": (0, SHOWS), "one": (1, "")}, True, ("other",)),
        ({"one": (1, ""), "other": (1, "")}, True, ("seed 7",)),
        ({"7": (0, SHOWS)}, True, ("one", "other")),
        ({"7": (None, ""), "one": (None, ""), "other": (1, "")}, True, ()),
        ({}, False, ("seed 7", "one", "other")),
    ],
)
def test_everything_that_a_mutant_names_must_notice_it(
    tmp_path: Path, ends: dict[str, tuple[int | None, str]], caught: bool, unnoticed: tuple[str, ...]
) -> None:
    found = try_mutant(Told(tmp_path, ends), NAMES_BOTH, search=0)
    assert (found.is_caught, found.unnoticed_by, found.broken) == (caught, unnoticed, "")
    assert found.is_right == (caught and not unnoticed)


@pytest.mark.parametrize(
    ("ends", "why"),
    [
        (
            {"import vinecast.core.log.batch_signature": (1, "NameError: x")},
            "cannot be imported: NameError: x",
        ),
        ({"7": (1, "ImportError: x")}, "the campaign's seeds cannot be run: ImportError: x"),
        (
            {"7": (0, SHOWS), "one": (2, "E   SyntaxError\n1 error")},
            "pytest ends with 2 for one: E   SyntaxError",
        ),
        ({"7": (0, SHOWS), "one": (1, ""), "other": (3, "")}, "pytest ends with 3 for other"),
        ({"7": (0, SHOWS), "one": (4, "ERROR: not found")}, "pytest ends with 4 for one: ERROR: not found"),
    ],
)
def test_what_does_not_get_so_far_is_an_error_and_no_catch(
    tmp_path: Path, ends: dict[str, tuple[int | None, str]], why: str
) -> None:
    found = try_mutant(Told(tmp_path, ends), NAMES_BOTH, search=0)
    assert (found.is_caught, found.is_right, found.unnoticed_by) == (False, False, ())
    assert why in found.broken


def test_a_seed_shows_what_is_raised_but_not_what_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(error: Exception) -> Callable[[int], object]:
        def result_of(seed: int) -> object:
            raise error

        return result_of

    monkeypatch.setattr(seeds, "result_of", raising(KeyError("a machine's")))
    assert seeds.first_to_show([4]) == {"seed": 4, "found": ["raised KeyError in result_of"]}
    monkeypatch.setattr(seeds, "result_of", raising(ImportError("no such name")))
    with pytest.raises(ImportError):
        seeds.first_to_show([4])


def test_what_fails_without_a_mutant_says_nothing(tmp_path: Path) -> None:
    copy = Copy(tmp_path / "copy")
    assert copy.shows([1]) == (None, "")
    assert "ModuleNotFoundError" in copy.run(["-c", "import nothing_of_this_name"], 60.0)[1]
    assert copy.run(["-c", "while True: pass"], 1.0) == (None, "")
    with pytest.raises(NoVerdictError, match=r"pytest ends with 4 .*file or directory not found"):
        copy.fails(["tests/nothing_of_this_name.py"])
    (copy.folder / "tests" / "test_gone.py").write_text("import gone\ndef test_a(): pass\n")
    with pytest.raises(NoVerdictError, match="No module named 'gone'"):
        copy.fails(["tests/test_gone.py::test_a"])
    with pytest.raises(NoVerdictError, match="No module named 'gone'"):
        copy.fails(["tests/test_gone.py"])
    with pytest.raises(InputError, match="without any mutant pytest ends with 4"):
        check_unchanged(copy, [replace(CAUGHT, tests=("tests/nothing_of_this_name.py",), seed=None)], 0)


def test_the_command_refuses_what_it_does_not_know() -> None:
    command = [sys.executable, "-m", "vinecast", "mutants"]
    done = subprocess.run([*command, "nobody"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no mutant is called 'nobody'" in done.stderr
