"""The memory and the processor time of a process and of all that it started.

Spark is several processes: this Python, a JVM, and the JVM's Python workers. What they need together is the
sum of their resident memory; pages that they share count in each, so that the sum is never too small. All is
read from ``/proc``, and is 0 where there is none.
"""

import os
import re
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from vinecast.core.errors import InputError

INTERVAL_S = 0.2
"""Seconds between two looks."""
_PROC = Path("/proc")
_PARENT, _TIMES, _START, _RESIDENT = 1, slice(11, 13), 19, 21  # after the name: proc_pid_stat(5)


@dataclass(frozen=True, slots=True)
class Watched:
    """What a process printed, and the most memory that its tree had at one time."""

    output: str
    errors: str
    peak: int
    """Bytes."""
    java: int
    """… of which the JVM had so many then."""


def watch(arguments: Sequence[str], environment: Mapping[str, str]) -> Watched:
    """Run this Python with these arguments to its end. InputError with its last words if it fails."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, *arguments], env={**os.environ, **environment}, stdout=output, stderr=errors
        )
        peak = java = 0
        try:
            while True:
                try:
                    process.wait(INTERVAL_S)
                    break
                except subprocess.TimeoutExpired:
                    total, of_java = memory_of(process.pid)
                    if total > peak:
                        peak, java = total, of_java
        finally:
            process.kill()
            process.wait()
        told, complaints = (_read(file) for file in (output, errors))
    if process.returncode:
        raise InputError(f"a part of the benchmark failed: {_reason(complaints)}")
    return Watched(told, complaints, peak, java)


def _reason(complaints: str) -> str:
    """The last line that names an error, which need not be the last of all."""
    lines = complaints.strip().splitlines() or ["it said nothing"]
    return next(
        (line for line in reversed(lines) if re.match(r"[\w.]*(Error|Exception|Bug)\b", line)), lines[-1]
    )


def _read(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


def memory_of(process: int) -> tuple[int, int]:
    """Resident bytes of a process and its descendants, and of the JVMs among them."""
    total = java = 0
    for name, fields in _tree(process).values():
        resident = int(fields[_RESIDENT]) * os.sysconf("SC_PAGE_SIZE")
        total += resident
        java += resident if name == "java" else 0
    return total, java


class CpuClock:
    """The processor time of a process and its descendants, those that ended included.

    Nobody else keeps it: Spark's daemon does not wait for its Python workers, so the kernel forgets theirs. A
    thread looks at the tree from time to time and remembers what each had last. It never goes down; what a
    process does after the last look at it is lost.
    """

    def __init__(self, process: int) -> None:
        self._process = process
        self._ticks: dict[tuple[int, str], int] = {}
        """Of everyone ever seen: process id and start, since ids are given again."""
        self._look = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="cpu-clock", daemon=True)

    def __enter__(self) -> "CpuClock":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def seconds(self) -> float:
        """All of it up to now."""
        with self._look:
            for one, (_, fields) in _tree(self._process).items():
                self._ticks[one, fields[_START]] = sum(map(int, fields[_TIMES]))
            return sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK")

    def _watch(self) -> None:
        while not self._over.wait(INTERVAL_S):
            self.seconds()


def _tree(process: int) -> dict[int, tuple[str, list[str]]]:
    """A process and its descendants: name, and the fields of ``/proc/PID/stat`` that follow it."""
    everyone: dict[int, tuple[str, list[str]]] = {}
    children: defaultdict[int, list[int]] = defaultdict(list)
    for path in _PROC.glob("[0-9]*/stat"):
        try:
            name, _, rest = path.read_text().rpartition(")")
        except OSError:  # it has ended
            continue
        one, fields = int(path.parent.name), rest.split()
        everyone[one] = name.partition("(")[2], fields
        children[int(fields[_PARENT])].append(one)
    found: dict[int, tuple[str, list[str]]] = {}
    waiting = [process] if process in everyone else []
    while waiting:
        one = waiting.pop()
        found[one] = everyone[one]
        waiting += children[one]
    return found
