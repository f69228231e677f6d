"""Runs that claims need: done side by side, and kept.

A ``Job`` is a run that a claim will ask for. ``do`` does many, one process a job; ``fetch`` gives the result
of one, doing it first if nobody has. Where a job names a folder, its result becomes a file there, which is
named by a digest of all that decides the result and takes that name only when it is whole: what was stopped
goes on where it was, and claims that need the same run share it. Jobs decide their results; how many are done
at a time does not.
"""

import functools
import hashlib
import json
import multiprocessing
import os
import signal
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterable
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
        ...

    @property
    def name(self) -> str:
        """In a few words."""
        ...

    @property
    def work(self) -> float:
        """How much there is to do, in a unit of the jobs' own."""
        ...

    def decided_by(self) -> dict[str, Any]:
        """All that decides the result, as JSON has it."""
        ...

    def run(self) -> Arrays:
        """Do it."""
        ...


_done: dict[Job, Arrays] = {}


def fetch(job: Job) -> Arrays:
    """A job's result."""
    if job not in _done:
        _done[job] = _get(job)
    return _done[job]


def do(jobs: Iterable[Job], processes: int, tell: Tell | None = None) -> None:
    """Do whatever is neither known nor kept, in this order, as many at a time as there are processes."""
    waiting = [job for job in dict.fromkeys(jobs) if job not in _done and not _is_kept(job)]
    of, work, began = len(waiting), sum(job.work for job in waiting), time.monotonic()
    left = work

    def note(done: int, job: Job, arrays: Arrays | None) -> None:
        nonlocal left
        left -= job.work
        if arrays is not None:
            _done[job] = arrays
        if tell is not None:
            under_way = left * min(processes - 1, of - done) / max(of - done, 1) / 2  # half done, on average
            rest = (left - under_way) / (work - left + under_way)
            tell(done, of, job.name, (time.monotonic() - began) * rest)

    if processes == 1 or of < 2:
        for done, job in enumerate(waiting, 1):
            note(done, job, _try(job))
        return
    others = multiprocessing.active_children()
    pool = ProcessPoolExecutor(min(processes, of), multiprocessing.get_context("spawn"), _begin_process)
    try:
        futures = {pool.submit(_try, job): job for job in waiting}
        for done, future in enumerate(as_completed(futures), 1):
            note(done, futures[future], future.result())
        pool.shutdown()
    except BaseException as error:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            if process not in others:
                process.terminate()
        if isinstance(error, BrokenProcessPool):
            raise InputError("a process that did a run was ended from outside: out of memory?") from None
        raise


def _begin_process() -> None:
    """Ctrl-C is the parent's to explain, and no process outlives it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _try(job: Job) -> Arrays | None:
    """A job that cannot be done is left to the claim that asks for it, which then says why."""
    try:
        return _get(job)
    except InputError:
        return None


def _get(job: Job) -> Arrays:
    place = place_of(job)
    found = None if place is None else _read(place)
    if found is None:
        found = job.run()
        if place is not None:
            _write(place, found)
    return found


def place_of(job: Job) -> Path | None:
    """The file that keeps a job's result."""
    if job.keep is None:
        return None
    text = json.dumps([RESULTS, job.decided_by()], sort_keys=True)
    return job.keep / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.npz"


def _is_kept(job: Job) -> bool:
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
        raise InputError(f"{place.parent}: runs cannot be kept there ({error.strerror})") from None


@functools.cache
def digest_of(path: Path) -> str:
    """A file's digest, for what decides a run."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
