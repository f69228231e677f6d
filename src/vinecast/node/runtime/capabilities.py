"""What a peer and a transport are handed by their process: entropy, working memory, and the compiler of the
index of filters."""

import asyncio
import os
import threading

from vinecast.core.content.filters_index import compile_index
from vinecast.core.rule import COMPILED
from vinecast.node.transport.interface import SessionDraws
from vinecast.peer.scratch import ScratchPool

_compiled = not COMPILED
_of_thread = threading.local()


def new_seed() -> int:
    """The seed of a peer's draws: nobody can guess it."""
    return int.from_bytes(os.urandom(7), "big")


def session_draws() -> SessionDraws:
    """What a transport draws."""
    return SessionDraws(lambda: int.from_bytes(os.urandom(4), "big") / 2**32, lambda: os.urandom(8))


def scratch_pool() -> ScratchPool:
    """The working memory of this thread's peers."""
    pool: ScratchPool | None = getattr(_of_thread, "scratch", None)
    if pool is None:
        pool = _of_thread.scratch = ScratchPool()
    return pool


def compile_beside() -> "asyncio.Future[None] | None":
    """Have the rules of the index of filters compiled beside the loop; None where they are."""
    return None if _compiled else asyncio.get_running_loop().run_in_executor(None, _compile)


def _compile() -> None:
    global _compiled
    compile_index()
    _compiled = True
