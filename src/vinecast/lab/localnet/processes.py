"""The processes of a local network, as their parent holds them: started, told what to do, heard, ended."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from vinecast.lab.localnet.messages import (
    LINE_BYTES_MAX,
    Begin,
    Command,
    Warm,
    WorkerMessage,
    line,
    worker_message_decoder,
)

END_S = 15.0  # ours: for a process to end before it is killed


@dataclass
class _NetProcess:
    process: asyncio.subprocess.Process
    listener: asyncio.Task[None] | None = None
    warm: asyncio.Event = field(default_factory=asyncio.Event)
    ended: bool = False
    unwanted: bool = False
    """Whether its end is what the parent wants."""


class Processes:
    """``hear`` is told what a process says, ``ended`` that one is gone and, if nobody wanted that, why."""

    def __init__(
        self,
        begin: Begin,
        hear: Callable[[int, WorkerMessage], None],
        ended: Callable[[int, str], None],
        compiled: bool = True,
    ) -> None:
        """``compiled``: whether rules are; without, a process is there sooner, and few nodes run as well."""
        self._begin, self._hear, self._ended = begin, hear, ended
        self._environment = None if compiled else {**os.environ, "VINECAST_COMPILE": "0"}
        self._processes: dict[int, _NetProcess] = {}

    async def spawn(self, number: int) -> None:
        """Start a process, in the place of an earlier one perhaps; back when it is ready to start nodes."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "vinecast.lab.localnet.worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_BYTES_MAX,
            start_new_session=True,  # Ctrl-C on the terminal is for the parent alone
            env=self._environment,
        )
        one = self._processes[number] = _NetProcess(process)
        assert process.stdin is not None
        process.stdin.write(line(self._begin))
        one.listener = asyncio.create_task(self._listen(number, one))
        await one.warm.wait()

    async def tell(self, number: int, command: Command) -> None:
        """Tell a process what to do; one that is gone hears nothing."""
        stdin = self._processes[number].process.stdin
        assert stdin is not None
        if stdin.is_closing():
            return
        with contextlib.suppress(ConnectionError):  # its end is noticed where it is listened to
            stdin.write(line(command))
            await stdin.drain()

    async def kill(self, number: int) -> None:
        """End a process as the system would, without a word, and wait until it is gone and heard out."""
        self.kill_now(number)
        await self._bury(self._processes[number])

    def kill_now(self, number: int) -> None:
        """The same, without waiting."""
        one = self._processes[number]
        one.unwanted = True
        self._kill(one)

    def signal(self, number: int, what: signal.Signals) -> None:
        """Send a process a signal."""
        self._processes[number].process.send_signal(what)

    def kill_all(self) -> None:
        """End everything at once."""
        for one in self._processes.values():
            self._kill(one)

    @property
    def all_ended(self) -> bool:
        """Whether no process is left that could do anything."""
        return bool(self._processes) and all(one.ended for one in self._processes.values())

    def has_ended(self, number: int) -> bool:
        """Whether a process is gone."""
        return number not in self._processes or self._processes[number].ended

    async def close(self) -> None:
        """Let nodes leave in good order; processes that do not end are killed."""
        found = list(self._processes.values())
        for one in found:
            one.unwanted = True
            if one.process.stdin is not None:
                one.process.stdin.close()
        await asyncio.gather(*(self._bury(one) for one in found))
        self._processes = {}

    async def _listen(self, number: int, one: _NetProcess) -> None:
        """Hear what a process tells, until it ends."""
        assert one.process.stdout is not None
        async for text in one.process.stdout:
            if not text.endswith(b"\n"):
                break  # it was killed in the middle of a line
            message: WorkerMessage = worker_message_decoder.decode(text)
            if isinstance(message, Warm):
                one.warm.set()
            else:
                self._hear(number, message)
        code = await one.process.wait()
        one.ended = True
        one.warm.set()
        self._ended(number, "" if one.unwanted else f"process {number} ended by itself (exit code {code})")

    async def _bury(self, one: _NetProcess) -> None:
        try:
            async with asyncio.timeout(END_S):
                await one.process.wait()
        except TimeoutError:
            self._kill(one)
            await one.process.wait()
        if one.listener is not None:
            await asyncio.gather(one.listener, return_exceptions=True)

    def _kill(self, one: _NetProcess) -> None:
        with contextlib.suppress(ProcessLookupError):
            one.process.kill()
