"""Writing streams behind the node's back: what is noted is committed together a moment later, by a thread.

While one batch is being committed the next one gathers, so that a slow disk gets larger batches. A commit
that fails changes nothing, is counted and reported (``trouble``, and the log), and is tried again as it was.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from vinecast.core.errors import ClosedError, InputError
from vinecast.node.storage.sqlite_file import explain
from vinecast.node.storage.streams_batch import WriteBatch
from vinecast.node.storage.streams_file import StreamsFile

log = logging.getLogger("vinecast.node.streams")


class StreamsWriter:
    """The one who commits to a file, always on the same thread. ``written`` is told what was committed."""

    def __init__(
        self,
        file: StreamsFile,
        thread: ThreadPoolExecutor,
        commit_after_s: float,
        retry_s: float,
        retry_s_max: float,
        written: Callable[[WriteBatch], None],
    ) -> None:
        self.counters: Counter[str] = Counter()
        self.trouble: str | None = None
        self.noted = WriteBatch()
        """What will be committed next; add to it, then ``wake``."""
        self.flying: WriteBatch | None = None
        """What is being committed, or waits to be tried again."""
        self._file, self._thread, self._written = file, thread, written
        self._commit_after_s, self._retry_s_min, self._retry_s_max = commit_after_s, retry_s, retry_s_max
        self._retry_s = retry_s
        self._loop = asyncio.get_running_loop()
        self._number = 1  # of the batch that is noted
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._committing = False
        self._closed = False

    @property
    def waiting(self) -> int:
        """Bytes of the events that are not safe yet."""
        return self.noted.size + (self.flying.size if self.flying else 0)

    def wake(self) -> None:
        """Something was noted: commit it soon."""
        if self.noted and self._timer is None and not self._committing and self.flying is None:
            self._begin_after(self._commit_after_s)

    async def durable(self) -> None:
        """Wait until everything up to now is committed; InputError when that failed (it is tried again)."""
        if self._closed:
            raise ClosedError("the store is closed")
        if not self.noted and self.flying is None:
            return
        waiter = self._loop.create_future()
        self._waiters.append((self._number if self.noted else self._number - 1, waiter))
        self._begin_after(0)
        await waiter

    async def close(self) -> None:
        """Let go of the file, after the commit that may be under way; what is only noted is lost."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._settle(self._number, ClosedError("the store is closed"))
        await self._loop.run_in_executor(self._thread, self._file.close)
        self._thread.shutdown(wait=False)

    def _begin_after(self, after_s: float) -> None:
        if self._closed or self._committing:  # what ends it looks for what was noted since
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(after_s, self._begin)

    def _begin(self) -> None:
        self._timer = None
        if self.flying is None:
            self.flying, self.noted = self.noted, WriteBatch()
            self.flying.close()
            self._number += 1
        self._committing = True
        job = self._loop.run_in_executor(self._thread, self._file.commit, self.flying)
        job.add_done_callback(self._ended)

    def _ended(self, done: "asyncio.Future[None]") -> None:
        self._committing = False
        error = asyncio.CancelledError() if done.cancelled() else done.exception()
        if error is not None:
            self._failed(error)
            return
        batch, self.flying = self.flying, None
        assert batch is not None
        self.counters["commits"] += 1
        self.counters["events"] += len(batch.events)
        if self.trouble is not None:
            log.warning("the streams can be written again")
            self.trouble, self._retry_s = None, self._retry_s_min
        self._settle(self._number - 1, None)
        if self.noted:
            self._begin_after(0 if self._waiters else self._commit_after_s)
        self._written(batch)

    def _failed(self, error: BaseException) -> None:
        self.counters["commits failed"] += 1
        reason = explain(error, self._file.path)
        if reason != self.trouble:
            log.error("%s; it is tried again", reason)
        self.trouble = reason
        self._settle(self._number, InputError(reason))
        self._begin_after(self._retry_s)
        self._retry_s = min(2 * self._retry_s, self._retry_s_max)

    def _settle(self, number: int, error: InputError | None) -> None:
        """Tell those who wait for a batch up to this one."""
        ready = [waiter for wanted, waiter in self._waiters if wanted <= number]
        self._waiters = [waiting for waiting in self._waiters if waiting[0] > number]
        for waiter in ready:
            if not waiter.done():  # it may have been cancelled
                if error is None:
                    waiter.set_result(None)
                else:
                    waiter.set_exception(error)
