#!/usr/bin/env python3
"""Run one benchmark of two checkouts by turns, and print what each measured, next to the other's.

    git worktree add BEFORE COMMIT
    .venv/bin/python tools/side_by_side.py BEFORE 5 bench node --only two --repeat 1

BEFORE's package is run with the packages of this checkout's .venv. The median of all turns counts.
"""

import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parents[1]
CPU = re.compile(r"([\d.,]+) (µs|ms) of CPU")


def turn(checkout: Path, command: list[str]) -> dict[str, tuple[float, float]]:
    """One run of the benchmark there: what was measured → its value, and microseconds of CPU for each."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    line = [sys.executable, "-m", "vinecast", *command, "--json"]
    done = subprocess.run(line, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"in {checkout} this failed: vinecast {' '.join(command)}")
    found = {}
    for row in json.loads(done.stdout):
        told = CPU.search(row["measured"])
        cpu_us = float(told[1].replace(",", "")) * (1000 if told[2] == "ms" else 1) if told else 0.0
        found[row["what"]] = (row["value"], cpu_us)
    return found


def middle(turns: list[dict[str, tuple[float, float]]], what: str, part: int) -> float:
    """The median of all turns."""
    return statistics.median(turn[what][part] for turn in turns if what in turn)


def cell(before: float, after: float) -> str:
    """Both, and what the second is of the first."""
    return f"{before:,.4g} → {after:,.4g} ({after / before:.2f})" if before else f"{before:g} → {after:g}"


def main() -> None:
    """Run the command."""
    if len(sys.argv) < 4 or not sys.argv[2].isdecimal() or not (Path(sys.argv[1]) / "src").is_dir():
        sys.exit(
            "usage: side_by_side.py CHECKOUT TURNS COMMAND …, such as: side_by_side.py ../before 5 bench node"
        )
    before, turns, command = Path(sys.argv[1]).resolve(), int(sys.argv[2]), sys.argv[3:]
    measured: dict[Path, list[dict[str, tuple[float, float]]]] = {before: [], HERE: []}
    for number in range(1, turns + 1):
        for checkout in (before, HERE) if number % 2 else (HERE, before):
            sys.stderr.write(f"turn {number} of {turns}: {'before' if checkout == before else 'after'} …\n")
            measured[checkout].append(turn(checkout, command))
    sys.stdout.write(f"`vinecast {' '.join(command)}`, before → after, median of {turns} turns\n\n")
    sys.stdout.write("| what | measured | CPU for each, µs |\n| --- | --- | --- |\n")
    for what in measured[HERE][0]:
        if any(what in turn for turn in measured[before]):
            values = [[middle(measured[one], what, part) for one in (before, HERE)] for part in (0, 1)]
            cpu = cell(*values[1]) if any(values[1]) else ""
            sys.stdout.write(f"| {what} | {cell(*values[0])} | {cpu} |\n")


if __name__ == "__main__":
    main()
