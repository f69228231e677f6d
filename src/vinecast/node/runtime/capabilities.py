"""What a peer is handed by its process: working memory, and the compiler of the index of filters."""

import asyncio
import threading
from collections.abc import Callable

from vinecast.core.content.filters_index import compile_index
from vinecast.core.rule import COMPILED
from vinecast.peer.scratch import ScratchPool

_compiled = not COMPILED
_of_thread = threading.local()


def scratch_pool() -> ScratchPool:
    """The working memory of this thread's peers."""
    pool: ScratchPool | None = getattr(_of_thread, "scratch", None)
    if pool is None:
        pool = _of_thread.scratch = ScratchPool()
    return pool


def when_compiled(then: Callable[[], None]) -> None:
    """See ``WhenCompiled``. The compiler runs beside the loop."""
    if _compiled:
        then()
        return
    work = asyncio.get_running_loop().run_in_executor(None, _compile)
    work.add_done_callback(lambda done: None if done.cancelled() or done.exception() else then())


def _compile() -> None:
    global _compiled
    compile_index()
    _compiled = True
