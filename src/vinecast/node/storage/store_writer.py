"""Writing behind the node's back: changes are noted, and committed together a moment later by a thread.

Of each thing only the latest change is noted, so that what waits to be written is bounded by what there is to
remember, however slow or full the disk is, and nobody waits unless asked to. A commit that fails changes
nothing, is counted and reported (``trouble``, and the log), and is tried again with what was noted since.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from vinecast.core.errors import ClosedError, InputError
from vinecast.node.storage.sqlite_file import explain
from vinecast.node.storage.store_file import StoreFile, Write

log = logging.getLogger("vinecast.node.store")

Key = tuple[str, int | str]
"""What a change is about: a kind of thing, and which one."""
SEQUENCE: Key = ("sequence", 0)
"""The one thing that must not be undone by a power failure, and that is worth a commit of its own."""

_Noted = dict[Key, Write]
_Waiter = asyncio.Future[None]


class StoreWriter:
    """The one who commits to a file, always on the same thread. ``written`` is told what was committed."""

    def __init__(
        self,
        file: StoreFile,
        thread: ThreadPoolExecutor,
        commit_after_s: float,
        retry_s: float,
        retry_s_max: float,
        written: Callable[[_Noted], None],
    ) -> None:
        self.counters: Counter[str] = Counter()
        self.trouble: str | None = None
        self._file, self._thread, self._written = file, thread, written
        self._commit_after_s, self._retry_s_min, self._retry_s_max = commit_after_s, retry_s, retry_s_max
        self._retry_s = retry_s
        self._loop = asyncio.get_running_loop()
        self._noted: _Noted = {}
        self._waiters: list[_Waiter] = []
        self._timer: asyncio.TimerHandle | None = None
        self._committing = False
        self._closed = False

    def note(self, key: Key, sql: str, *values: object) -> None:
        """Write this soon, in place of what was noted about the same thing."""
        self._noted[key] = (sql, values)
        self._wake(0 if key == SEQUENCE else self._commit_after_s)

    async def durable(self) -> None:
        """Wait until everything up to now is committed; InputError when that failed (it is tried again)."""
        if self._closed:
            raise ClosedError("the store is closed")
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        self._wake(0)
        await waiter

    async def close(self) -> None:
        """Let go of the file, after the commit that may be under way; what is only noted is lost."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        _settle(self._waiters, ClosedError("the store is closed"))
        await self._loop.run_in_executor(self._thread, self._file.close)
        self._thread.shutdown(wait=False)

    def _wake(self, after_s: float) -> None:
        """Commit after a while, or at the time that is already set unless this is at once."""
        if self._closed:
            return
        if self._timer is not None:
            if after_s > 0:
                return
            self._timer.cancel()
        self._timer = self._loop.call_later(after_s, self._commit)

    def _commit(self) -> None:
        self._timer = None
        if self._committing:  # what ends it looks for what was noted since
            return
        noted, self._noted = self._noted, {}
        waiters, self._waiters = self._waiters, []
        if not noted:
            _settle(waiters, None)
            return
        self._committing = True
        writes = list(noted.values())
        job = self._loop.run_in_executor(self._thread, self._file.commit, writes, SEQUENCE in noted)
        job.add_done_callback(lambda done: self._committed(done, noted, waiters))

    def _committed(self, done: "asyncio.Future[None]", noted: _Noted, waiters: list[_Waiter]) -> None:
        self._committing = False
        error = asyncio.CancelledError() if done.cancelled() else done.exception()
        if error is not None:
            self._failed(error, noted, waiters)
            return
        self.counters["commits"] += 1
        self.counters["writes"] += len(noted)
        if self.trouble is not None:
            log.warning("the store can be written again")
            self.trouble, self._retry_s = None, self._retry_s_min
        self._written(noted)
        _settle(waiters, None)
        if self._waiters or self._noted:
            self._wake(0 if self._waiters or SEQUENCE in self._noted else self._commit_after_s)

    def _failed(self, error: BaseException, noted: _Noted, waiters: list[_Waiter]) -> None:
        self._noted = noted | self._noted
        self.counters["commits failed"] += 1
        reason = explain(error, self._file.path)
        if reason != self.trouble:
            log.error("%s; it is tried again", reason)
        self.trouble = reason
        _settle(waiters, InputError(reason))
        self._wake(0 if self._waiters else self._retry_s)
        self._retry_s = min(2 * self._retry_s, self._retry_s_max)


def _settle(waiters: list[_Waiter], error: InputError | None) -> None:
    for waiter in waiters:
        if not waiter.done():  # it may have been cancelled
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)
