"""The command line, in this process and in another, and the one sentence of a refusal."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from vinecast.cli import main

TINY = 'name = "tiny"\nseed = 1\nnodes = 30\ncycles = 6\n'
FILES = ["cycles.parquet", "scenario.toml", "summary.json"]


def child(
    *arguments: str, environment: dict[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """``vinecast …`` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "vinecast", *arguments],
        env={**os.environ, **(environment or {})},
        text=True,
        check=False,
        timeout=60,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
    )


def files_below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def strict_json(text: str) -> Any:
    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def complaint(code: int, streams: tuple[str, str]) -> str:
    """The one sentence of a refusal, which has the exit code 2."""
    out, err = streams
    assert code == 2
    assert out == ""
    assert err.endswith("\n")
    assert err.count("\n") == 1
    assert err.startswith("vinecast: ")
    return err.removeprefix("vinecast: ").rstrip("\n")


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code = main(arguments)
    return complaint(code, capsys.readouterr())
