"""Trying mutants: each is put into a copy of the project, and what should notice it is run there.

A copy is made once for each process that tries mutants, and used for one after the other: the change is made
in one file, and undone. Rules are not compiled there, which gives the same bits and needs no cache. A mutant
is *caught* by a seed of the campaign that shows a broken promise, or by a test that fails, if the unchanged
copy shows nothing and passes. What does not end is caught, too. A mutant must be noticed by everything that
it names.

A mutant with which the code cannot be imported breaks no promise: any test would notice it. It is *broken*,
which is an error of whoever wrote it down and no catch, whatever else is found.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import vinecast
from vinecast.core.errors import InputError
from vinecast.lab.mutants.mutant import Mutant

PARTS = ("src", "tests", "scenarios", "pyproject.toml", "README.md")
"""What of the project a copy has."""
SEEDS_S, TESTS_S = 1200.0, 600.0
"""Seconds after which a campaign or tests of a mutant are stopped (ours): what does not end is caught."""
IMPORT_S = 120.0
"""Seconds after which the import of a changed module is stopped (ours)."""
PASSED, FAILED = 0, 1
"""How pytest ends when tests passed, and when some failed. All else is no verdict: modules of tests could not
be imported, there are no such tests, or pytest itself failed."""


class NoVerdictError(Exception):
    """What was run says nothing about the promises: it could not be imported, or failed by itself."""


@dataclass(frozen=True, slots=True)
class MutantResult:
    """What noticed a mutant."""

    mutant: Mutant
    seed: int | None = None
    """The seed of the campaign that showed it: the one that it names, or else one that was found."""
    shown: str = ""
    """What it showed."""
    tests: tuple[str, ...] = ()
    """Those of its tests that failed, or did not end."""
    broken: str = ""
    """Why nothing can be said of it."""
    took_s: float = 0.0

    @property
    def is_caught(self) -> bool:
        """Whether anything noticed it."""
        return not self.broken and (self.seed is not None or bool(self.tests))

    @property
    def unnoticed_by(self) -> tuple[str, ...]:
        """What it names, and what did not notice it."""
        named, mutant = [], self.mutant
        if self.broken:
            return ()
        if mutant.seed is not None and self.seed != mutant.seed:
            named.append(f"seed {mutant.seed}")
        return (*named, *(test for test in mutant.tests if test not in self.tests))

    @property
    def is_right(self) -> bool:
        """Whether it was noticed, and by everything that it names."""
        return self.is_caught and not self.unnoticed_by


def project_folder() -> Path:
    """The checkout whose package this is. InputError where it is none."""
    root = Path(vinecast.__file__).parents[2]
    missing = [part for part in PARTS if not (root / part).exists()]
    if missing:
        raise InputError(f"mutants need a checkout of the project with its tests: {root} has no {missing[0]}")
    return root


class Copy:
    """A copy of the project, to change."""

    def __init__(self, folder: Path) -> None:
        root = project_folder()
        folder.mkdir()
        for part in PARTS:
            source, target = root / part, folder / part
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            else:
                shutil.copy2(source, target)
        self.folder, self.package = folder, folder / "src" / "vinecast"
        self._process: subprocess.Popen[str] | None = None
        self._is_stopped = False

    @contextmanager
    def changed_by(self, mutant: Mutant) -> Iterator[None]:
        """With a mutant in it."""
        path = self.package / mutant.module
        text = path.read_text()
        path.write_text(mutant.changed(text))
        try:
            yield
        finally:
            path.write_text(text)

    def run(self, arguments: Sequence[str], patience_s: float) -> tuple[int | None, str]:
        """Run Python on the copy's package: its exit status, None where it did not end in time; and what it
        said."""
        if self._is_stopped:
            return None, ""
        paths = os.pathsep.join(str(self.folder / part) for part in ("src", "tests"))
        environment = {
            **os.environ, "PYTHONPATH": paths, "VINECAST_COMPILE": "0", "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        process = self._process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        with process:
            try:
                said, _ = process.communicate(timeout=patience_s)
            except subprocess.TimeoutExpired:
                said = ""
            ended = process.poll()
            self._kill()
        return ended, said

    def stop(self) -> None:
        """Stop what runs there, and run nothing more."""
        self._is_stopped = True
        self._kill()

    def _kill(self) -> None:
        """End what was begun last, with all that it has started."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def check_import(self, module: str) -> None:
        """NoVerdictError unless a module of the package, by its file, can be imported."""
        name = ".".join(("vinecast", *Path(module).with_suffix("").parts)).removesuffix(".__init__")
        status, said = self.run(["-c", f"import {name}"], IMPORT_S)
        if status:
            raise NoVerdictError(f"{module} cannot be imported: {_last_line(said)}")

    def shows(self, seeds: Sequence[int]) -> tuple[int | None, str]:
        """The first of these seeds that shows a broken promise, and which."""
        if not seeds:
            return None, ""
        status, said = self.run(["-m", "vinecast.lab.mutants.seeds", *map(str, seeds)], SEEDS_S)
        if status is None:
            return seeds[0], "a run does not end"
        if status:
            raise NoVerdictError(f"the campaign's seeds cannot be run: {_last_line(said)}")
        found = json.loads(said.splitlines()[-1])
        return found["seed"], "; ".join(found["found"])

    def fails(self, tests: Sequence[str]) -> str:
        """What of these tests fails, in a word; nothing when all pass."""
        if not tests:
            return ""
        arguments = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
        status, said = self.run(arguments, TESTS_S)
        if status is None:
            return "does not end"
        if status not in (PASSED, FAILED):
            what = f"pytest ends with {status} for {', '.join(tests)}"
            raise NoVerdictError(f"{what}: {_last_line(said, 'E  ')}")
        return _last_line(said, "FAILED ", "ERROR ") if status else ""


def _last_line(said: str, *beginnings: str) -> str:
    """The last line of what was said; the last with one of these beginnings, if there is one."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    chosen = [line for line in lines if line.startswith(beginnings)] or lines
    return chosen[-1][:200] if chosen else "nothing was said"


def try_mutant(copy: Copy, mutant: Mutant, search: int) -> MutantResult:
    """What notices one mutant. Each of its tests is run by itself, so that none hides what another says."""
    began = time.monotonic()
    seed: int | None = None
    shown, failed, broken = "", list[str](), ""
    with copy.changed_by(mutant):
        try:
            copy.check_import(mutant.module)
            seed, shown = copy.shows([] if mutant.seed is None else [mutant.seed])
            if seed is None:
                seed, shown = copy.shows(range(1, search + 1))
            failed.extend(test for test in mutant.tests if copy.fails([test]))
        except NoVerdictError as error:
            broken = str(error)
    return MutantResult(mutant, seed, shown, tuple(failed), broken, time.monotonic() - began)


def check_unchanged(copy: Copy, mutants: Sequence[Mutant], search: int) -> None:
    """InputError unless the unchanged code shows nothing: else nothing can be said of mutants."""
    named = {mutant.seed for mutant in mutants if mutant.seed is not None}
    try:
        seed, shown = copy.shows(sorted(named.union(range(1, search + 1))))
        failed = copy.fails(sorted({test for mutant in mutants for test in mutant.tests}))
    except NoVerdictError as error:
        raise InputError(f"without any mutant {error}; mend that first") from None
    if seed is not None:
        raise InputError(f"without any mutant seed {seed} shows: {shown}; mend that first")
    if failed:
        raise InputError(f"without any mutant a test fails: {failed}; mend that first")


def try_mutants(
    mutants: Sequence[Mutant],
    threads: int = 1,
    search: int = 0,
    tell: Callable[[MutantResult], object] = lambda result: None,
) -> list[MutantResult]:
    """What notices each of these, in their order. search: the campaign's seeds that are tried where the named
    one shows nothing; ``tell`` hears of each mutant as soon as it is known"""
    with tempfile.TemporaryDirectory(prefix="vinecast-mutants-") as name:
        made = [Copy(Path(name) / str(number)) for number in range(threads)]
        check_unchanged(made[0], mutants, search)
        idle: SimpleQueue[Copy] = SimpleQueue()
        for copy in made:
            idle.put(copy)
        is_stopped = False

        def do(mutant: Mutant) -> MutantResult:
            copy = idle.get()
            try:
                result = try_mutant(copy, mutant, search)
            finally:
                idle.put(copy)
            if not is_stopped:
                tell(result)
            return result

        pool = ThreadPoolExecutor(threads)
        try:
            return list(pool.map(do, mutants))
        finally:
            is_stopped = True
            pool.shutdown(wait=False, cancel_futures=True)
            for copy in made:
                copy.stop()
            pool.shutdown()
