"""Commands as real processes, whose output can be waited for."""

import contextlib
import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATIENCE_S = 60.0
"""For a line that must come; the machine may be busy."""

# Rules as plain Python: for a handful of nodes they are fast enough, and nothing has to be compiled.
ENVIRONMENT = {"VINECAST_COMPILE": "0", "PYTHONUNBUFFERED": "1"}


class Process:
    """A command that runs; its output can be waited for, line by line."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("VINECAST_NODE_")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "vinecast", *arguments],
            env={**inherited, **ENVIRONMENT, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._pending = {"out": b"", "err": b""}
        self._selector = selectors.DefaultSelector()
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._selector.register(self.process.stdout, selectors.EVENT_READ, "out")
        self._selector.register(self.process.stderr, selectors.EVENT_READ, "err")

    def line(self, stream: str = "out") -> str:
        """The next line; an error when none comes."""
        end = time.monotonic() + PATIENCE_S
        while b"\n" not in self._pending[stream]:
            if not self._read(end - time.monotonic()):
                raise AssertionError(f"no further line: {self._pending}")
        line, _, self._pending[stream] = self._pending[stream].partition(b"\n")
        return line.decode()

    def _read(self, patience_s: float) -> bool:
        if not self._selector.get_map():
            return False
        ready = self._selector.select(max(patience_s, 0))
        for key, _ in ready:
            data = os.read(key.fd, 65536)
            if not data:
                self._selector.unregister(key.fileobj)
            self._pending[key.data] += data
        return bool(ready)

    def say(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def end(self, number: int | None = None) -> tuple[int, str, str]:
        """Send a signal, if one is given; exit code and what was still printed."""
        if number is not None:
            self.process.send_signal(number)
        elif self.process.stdin is not None:
            self.process.stdin.close()
        end = time.monotonic() + PATIENCE_S
        while self._selector.get_map() and self._read(end - time.monotonic()):
            pass
        code = self.process.wait(max(end - time.monotonic(), 0.1))
        return code, self._pending["out"].decode(), self._pending["err"].decode()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._selector.close()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


Start = Callable[..., Process]


def run_node(start: Start, folder: Path | str, *arguments: str) -> tuple[Process, dict[str, Any]]:
    """A node, and what it says of itself when it is up."""
    words = ("--folder", str(folder), "--set", "period_s=0.2", "--json", *arguments)
    process = start("node", *words)
    return process, json.loads(process.line())


def refusal(process: Process) -> str:
    """The one sentence of a command that cannot do what it is asked."""
    code, out, err = process.end()
    assert (code, out) == (2, "")
    assert err.startswith("vinecast: ")
    assert err.count("\n") == 1
    return err.removeprefix("vinecast: ").rstrip()
