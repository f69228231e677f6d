"""When there is an index of filters: once they are many, and its rules are compiled.

Compiling takes seconds the first time on a machine, so that is done beside the loop; until then filters are
looked at one by one, which finds the same.
"""

import asyncio
from collections.abc import Callable

from vinecast.core.interests import make_filter
from vinecast.core.interests_index import FilterIndex
from vinecast.core.rule import COMPILED
from vinecast.core.schemas import Attribute, Schema

INDEXED_FROM = 64
"""Filters of a schema from which on there is an index (ours)."""

_compiled = not COMPILED


def when_compiled(then: Callable[[], None]) -> None:
    """Do something once the index's rules are compiled; have that done beside the loop."""
    if _compiled:
        then()
        return
    work = asyncio.get_running_loop().run_in_executor(None, compile_index)
    work.add_done_callback(lambda done: None if done.cancelled() or done.exception() else then())


def compile_index() -> None:
    """Have the index's rules compiled, or loaded, by a use of all of them."""
    global _compiled
    schema = Schema("none", (Attribute("x", "number", 0, 1),))
    index = FilterIndex(schema)
    for number in range(INDEXED_FROM + 2):
        index.insert(make_filter(schema, {"x": (number / 1000, 1)}))
    index.remove(0)
    index.match((0.5,))
    _compiled = True
