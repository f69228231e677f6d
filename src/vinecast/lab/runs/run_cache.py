"""The run cache: runs that claims need, done side by side, and kept.

A ``Job`` is a run that a claim will ask for. ``do`` does many, by several processes or as tasks of Spark, and
in one go those that have much in common; ``fetch`` gives the result of one, doing it first if nobody has.
Where a job names a folder, its result becomes a file there, which is named by a digest of all that decides
the result and takes that name only when it is whole: what was stopped goes on where it was, and claims that
need the same run share it. How and how many are done at a time, or in one go, makes no difference to any
result.
"""

import functools
import hashlib
import json
import math
import multiprocessing
import os
import signal
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from vinecast.core.errors import InputError

RESULTS = 1
"""Raised whenever a job comes to give another result than before, so that what was kept is done again."""

Arrays = dict[str, NDArray[Any]]
Tell = Callable[[int, int, str, float], object]
"""Told when a job is done: how many are, of how many, the job's name, and the seconds that are left."""


class Job(Protocol):
    """A run. It can be hashed, compared and sent to another process."""

    @property
    def keep(self) -> Path | None:
        """The folder that keeps its result."""

    @property
    def name(self) -> str:
        """In a few words."""

    @property
    def work(self) -> float:
        """How much there is to do, in a unit of the jobs' own."""

    def decided_by(self) -> dict[str, Any]:
        """All that decides the result, as JSON has it."""

    @property
    def alike(self) -> Hashable:
        """Jobs for which this is the same can be done in one go, for less."""

    def run_with(self, others: Sequence[Any]) -> list[Arrays]:
        """Do it and others that are alike; its result, and theirs."""


Go = Sequence[Job]
"""Jobs that are done in one go."""
TOGETHER = 5  # ours: jobs in one go; more would save little more, need more memory, and lose more if stopped
_done: dict[Job, Arrays] = {}


def fetch(job: Job) -> Arrays:
    """A job's result."""
    if job not in _done:
        _done[job] = _get([job])[0]
    return _done[job]


def missing(jobs: Iterable[Job]) -> list[Job]:
    """Those that are neither known nor kept, each once."""
    return [job for job in dict.fromkeys(jobs) if job not in _done and not is_kept(job)]


def do(jobs: Iterable[Job], processes: int, tell: Tell | None = None, spark: str | None = None) -> None:
    """Do whatever is missing, about in this order, with so many processes; or on Spark, if a master is
    given."""
    waiting = missing(jobs)
    goes = _in_goes(waiting, min(TOGETHER, math.ceil(len(waiting) / processes)))
    clock = _Clock([sum(job.work for job in go) for go in goes], processes)
    of, done = len(waiting), 0

    def note(go: Go, results: list[Arrays] | None = None) -> None:
        nonlocal done
        _done.update(zip(go, results or (), strict=False))
        done += len(go)
        left_s = clock.left_s(sum(job.work for job in go))
        if tell is not None:
            tell(done, of, go[-1].name, left_s)

    if spark is not None and goes:
        from vinecast.lab.runs.run_cache_spark import do_goes

        do_goes(spark, goes, note)
    elif processes == 1 or len(goes) < 2:
        for go in goes:
            note(go, attempt(go))
    else:
        _do_side_by_side(goes, min(processes, len(goes)), note)


def _do_side_by_side(
    goes: Sequence[Go], processes: int, note: Callable[[Go, list[Arrays] | None], None]
) -> None:
    others = multiprocessing.active_children()
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _begin_process)
    try:
        futures = {pool.submit(attempt, go): go for go in goes}
        for future in as_completed(futures):
            note(futures[future], future.result())
        pool.shutdown()
    except BaseException as error:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            if process not in others:
                process.terminate()
        if isinstance(error, BrokenProcessPool):
            raise InputError("a process that did a run was ended from outside: out of memory?") from None
        raise


def _in_goes(jobs: Iterable[Job], most: int) -> list[list[Job]]:
    """What is done in one go each, so many at the most, in the order of who comes first."""
    goes: list[list[Job]] = []
    open_ones: dict[Hashable, list[Job]] = {}
    for job in jobs:
        go = open_ones.get(job.alike)
        if go is None or len(go) == most:
            go = open_ones[job.alike] = []
            goes.append(go)
        go.append(job)
    return goes


class _Clock:
    """How long it will take, by how long it took."""

    def __init__(self, works: Sequence[float], processes: int) -> None:
        self._began = time.monotonic()
        self._left = self._all = sum(works)
        self._count, self._processes = len(works), processes

    def left_s(self, work: float) -> float:
        """Seconds that are left when so much more is done; whatever is under way is half done, on average."""
        self._left -= work
        self._count -= 1
        under_way = self._left * min(self._processes - 1, self._count) / max(self._count, 1) / 2
        done = self._all - self._left + under_way
        return (time.monotonic() - self._began) * (self._left - under_way) / done


def _begin_process() -> None:
    """Ctrl-C is the parent's to explain, and no process outlives it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def attempt(jobs: Go) -> list[Arrays] | None:
    """Do these. What cannot be done is left to the claim that asks for it, which then says why."""
    try:
        return _get(jobs)
    except InputError:
        return None


def _get(jobs: Sequence[Job]) -> list[Arrays]:
    places = [place_of(job) for job in jobs]
    found = [None if place is None else _read(place) for place in places]
    missing = [job for job, arrays in zip(jobs, found, strict=True) if arrays is None]
    made = iter(missing[0].run_with(missing[1:]) if missing else ())
    results = []
    for place, arrays in zip(places, found, strict=True):
        if arrays is None:
            arrays = next(made)
            if place is not None:
                _write(place, arrays)
        results.append(arrays)
    return results


def place_of(job: Job) -> Path | None:
    """The file that keeps a job's result."""
    if job.keep is None:
        return None
    text = json.dumps([RESULTS, job.decided_by()], sort_keys=True)
    return job.keep / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.npz"


def is_kept(job: Job) -> bool:
    """Whether its result lies in its folder."""
    place = place_of(job)
    return place is not None and place.is_file()


def _read(place: Path) -> Arrays | None:
    """None where there is no such file, or none of ours."""
    try:
        with place.open("rb") as file:
            found = np.load(file, allow_pickle=False)
            return {name: found[name] for name in found.files}
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile):
        return None


def _write(place: Path, arrays: dict[str, Any]) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(prefix=".", suffix=".partial", dir=place.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, **arrays)
            Path(partial).chmod(0o644)
            Path(partial).replace(place)
        finally:
            with suppress(FileNotFoundError):
                Path(partial).unlink()
    except OSError as error:
        raise _cannot_keep(place.parent, error) from None


def check_folder(folder: Path) -> None:
    """Whether runs can be kept there: to be asked before anything is done that would be lost."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _cannot_keep(folder, error) from None


def _cannot_keep(folder: Path, error: OSError) -> InputError:
    return InputError(f"{folder}: runs cannot be kept there ({error.strerror})")


@functools.cache
def digest_of(path: Path) -> str | None:
    """A file's digest, for what decides a run; None if there is no such file, which the run will say."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
