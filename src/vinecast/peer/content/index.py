"""When there is an index of filters: once they are many, and its rules are compiled.

Compiling takes seconds the first time on a machine. A node has it done beside its loop; until then filters
are looked at one by one, which finds the same.
"""

from collections.abc import Callable

from vinecast.core.content.filters import make_filter
from vinecast.core.content.filters_index import FilterIndex
from vinecast.core.content.schemas import Attribute, Schema

INDEXED_FROM = 64
"""Filters of a schema from which on there is an index (ours)."""

WhenCompiled = Callable[[Callable[[], None]], None]
"""Calls something once the index's rules are compiled: at once, or later from the node's loop."""


def compile_index() -> None:
    """Have the index's rules compiled, or loaded, by a use of all of them."""
    schema = Schema("none", (Attribute("x", "number", 0, 1),))
    index = FilterIndex(schema)
    for number in range(INDEXED_FROM + 2):
        index.insert(make_filter(schema, {"x": (number / 1000, 1)}))
    index.remove(0)
    index.match((0.5,))
