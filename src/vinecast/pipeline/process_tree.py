"""The memory of a process and of all that it started, looked at from outside while it works.

Spark is several processes: this Python, a JVM, and the JVM's Python workers. What they need together is the
sum of their resident memory; pages that they share count in each, so that the sum is never too small. Memory
is read from ``/proc`` and is 0 where there is none.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from vinecast.core.errors import InputError

INTERVAL_S = 0.2
"""Seconds between two looks."""
_PROC = Path("/proc")


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
    children: defaultdict[int, list[int]] = defaultdict(list)
    names: dict[int, str] = {}
    for folder in _PROC.glob("[0-9]*"):
        try:
            name, _, rest = (folder / "stat").read_text().rpartition(")")
        except OSError:  # it is gone
            continue
        names[int(folder.name)] = name.partition("(")[2]
        children[int(rest.split()[1])].append(int(folder.name))
    total = java = 0
    waiting = [process]
    while waiting:
        one = waiting.pop()
        waiting += children[one]
        try:
            resident = int((_PROC / str(one) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError, ValueError):
            continue
        total += resident
        if names.get(one) == "java":
            java += resident
    return total, java
