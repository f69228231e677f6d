"""How a command is told to stop: Ctrl-C or SIGTERM once is a request, twice an order."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterator

SIGNALS = (signal.SIGINT, signal.SIGTERM)
INTERRUPTED = 130
"""The exit code of who ended at once."""


class Stopped(BaseException):
    """SIGTERM came, in a command that blocks."""


@contextlib.contextmanager
def stop_on_signals(at_once: Callable[[], None] = lambda: None) -> Iterator[asyncio.Event]:
    """In a running loop: an event that is set by the first signal. The second ends the process."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            at_once()
            os._exit(INTERRUPTED)
        stop.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        yield stop
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def stopped_by_sigterm() -> Iterator[None]:
    """In a command that blocks: SIGTERM raises ``Stopped``, as Ctrl-C raises KeyboardInterrupt."""

    def on_signal(*_: object) -> None:
        raise Stopped

    before = signal.signal(signal.SIGTERM, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
