"""Runs that claims need: done once, by however many processes, and kept in a folder."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vinecast.core.errors import InputError
from vinecast.lab.runs import run_cache
from vinecast.lab.runs.run_cache import Arrays, do, fetch, place_of


@dataclass(frozen=True)
class Square:
    """A job that notes in a folder that it was done."""

    number: int
    keep: Path | None
    notes: Path
    fails: bool = False
    dies: bool = False

    @property
    def name(self) -> str:
        return f"the square of {self.number}"

    @property
    def work(self) -> float:
        return 1.0 + self.number

    def decided_by(self) -> dict[str, Any]:
        return {"number": self.number}

    @property
    def alike(self) -> tuple[int, bool]:
        return self.number % 2, self.fails

    def run_with(self, others: Sequence["Square"]) -> list[Arrays]:
        if self.fails:
            raise InputError("no squares here")
        if self.dies:
            os._exit(9)
        numbers = [self.number, *(other.number for other in others)]
        (self.notes / f"{'+'.join(map(str, numbers))} {os.getpid()}-{time.monotonic_ns()}").touch()
        return [{"square": np.array([number**2]), "root": np.arange(number)} for number in numbers]


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_cache, "_done", {})


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


def _done_in(notes: Path) -> list[str]:
    """The numbers that were squared, those in one go joined by a plus."""
    return sorted(path.name.partition(" ")[0] for path in notes.iterdir())


def _forget() -> None:
    run_cache._done.clear()


def test_a_result_is_fetched_once(notes: Path) -> None:
    job = Square(3, None, notes)
    assert fetch(job) is fetch(job)
    assert _done_in(notes) == ["3"]


def test_a_kept_result_is_the_same_to_the_bit(tmp_path: Path, notes: Path) -> None:
    job = Square(3, tmp_path / "kept" / "runs", notes)
    first = fetch(job)
    _forget()
    second = fetch(job)
    assert _done_in(notes) == ["3"]
    assert first.keys() == second.keys()
    for name, array in first.items():
        assert second[name].dtype == array.dtype
        assert np.array_equal(second[name], array)
    assert [path.suffix for path in (tmp_path / "kept" / "runs").iterdir()] == [".npz"]


def test_the_name_tells_all_that_decides_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Square(3, tmp_path, tmp_path)
    before = place_of(job)
    assert before == place_of(Square(3, tmp_path, tmp_path / "elsewhere"))
    assert before != place_of(Square(4, tmp_path, tmp_path))
    monkeypatch.setattr(run_cache, "RESULTS", run_cache.RESULTS + 1)
    assert before != place_of(job)
    assert place_of(Square(3, None, tmp_path)) is None


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut short", b"\x93NUMPY", b"anything"])
def test_a_file_that_is_no_result_is_done_again(tmp_path: Path, notes: Path, content: bytes) -> None:
    job = Square(3, tmp_path / "kept", notes)
    place = place_of(job)
    assert place is not None
    place.parent.mkdir()
    place.write_bytes(content)
    assert fetch(job)["square"] == 9
    _forget()
    assert fetch(job)["square"] == 9
    assert _done_in(notes) == ["3"]


@pytest.mark.parametrize(("processes", "keeps"), [(1, False), (1, True), (2, True)])
def test_doing_many(tmp_path: Path, notes: Path, processes: int, keeps: bool) -> None:
    folder = tmp_path / "kept" if keeps else None
    jobs = [Square(number, folder, notes) for number in (3, 4, 1, 2, 3, 5, 7, 9, 11)]
    cannot = Square(13, None, notes, fails=True)
    told: list[tuple[int, int, str, float]] = []
    do([*jobs, cannot], processes, lambda *what: told.append(what))
    assert [of for _, of, _, _ in told] == [9, 9, 9, 9]
    assert [done for done, *_ in told] == sorted(done for done, *_ in told)
    assert all(left >= 0 for *_, left in told)
    assert told[-1][0] == 9
    assert told[-1][-1] == 0
    assert [int(fetch(job)["square"][0]) for job in jobs] == [9, 16, 1, 4, 9, 25, 49, 81, 121]
    assert _done_in(notes) == ["11", "3+1+5+7+9", "4+2"]
    with pytest.raises(InputError, match="no squares here"):
        fetch(cannot)


def test_what_is_kept_is_not_done_again(tmp_path: Path, notes: Path) -> None:
    jobs = [Square(number, tmp_path / "kept", notes) for number in (0, 1, 2, 4)]
    do(jobs[:2], 1)
    _forget()
    told: list[int] = []
    do(jobs, 1, lambda done, of, name, left: told.append(of))
    assert told == [2]
    assert _done_in(notes) == ["0", "1", "2+4"]


def test_no_process_is_left_without_work() -> None:
    jobs: list[run_cache.Job] = [Square(2 * number, None, Path()) for number in range(5)]
    assert [len(go) for go in run_cache._in_goes(jobs, 3)] == [3, 2]
    assert run_cache._in_goes([], 0) == []


def test_a_process_that_is_ended_is_a_sentence(notes: Path) -> None:
    with pytest.raises(InputError, match="ended from outside"):
        do([Square(1, None, notes, dies=True), Square(2, None, notes)], 2)


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path, notes: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="runs cannot be kept there"):
        fetch(Square(1, tmp_path / "file" / "kept", notes))


WAITS = """
import sys, time
from pathlib import Path
from vinecast.lab.runs.run_cache import do
class Waits:
    keep, name, work = None, "waits", 1.0
    def __init__(self, notes): self.notes = Path(notes)
    alike = property(id)
    def decided_by(self): return {}
    def run_with(self, others):
        import os
        (self.notes / str(os.getpid())).touch()
        time.sleep(600)
if __name__ == "__main__":
    do([Waits(sys.argv[1]), Waits(sys.argv[1])], 2)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_its_parent(tmp_path: Path, notes: Path, number: signal.Signals) -> None:
    script = tmp_path / "waits.py"
    script.write_text(WAITS)
    deadline = time.monotonic() + 120
    with subprocess.Popen([sys.executable, str(script), str(notes)], stderr=subprocess.DEVNULL) as parent:
        while len(list(notes.iterdir())) < 2 and parent.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        workers = [int(path.name) for path in notes.iterdir()]
        parent.send_signal(number)
    assert len(workers) == 2
    while any(Path(f"/proc/{worker}/cmdline").exists() for worker in workers):
        assert time.monotonic() < deadline, "a worker lives on"
        time.sleep(0.05)
