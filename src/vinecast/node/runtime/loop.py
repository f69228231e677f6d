"""The event loop of a live node: uvloop where it is installed, plain asyncio elsewhere."""

import asyncio
import asyncio.sslproto
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_READ_BYTES = 32 * 1024


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop of the best kind there is."""
    try:
        import uvloop
    except ImportError:  # it is not for every platform
        # Plain asyncio gives every TLS connection a buffer of 256 KiB; an eighth of it is as fast for us.
        asyncio.sslproto.SSLProtocol.max_size = _READ_BYTES
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run(main: Coroutine[Any, Any, T]) -> T:
    """``asyncio.run`` on that loop."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)
