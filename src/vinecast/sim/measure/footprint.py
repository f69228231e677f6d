"""How much memory a machine's state takes, as Python holds it.

Counted is what hangs off the machine and off no other: configuration, profiles and working memory, which
machines of one simulation share, are not. Numbers and texts count wherever they stand, since on a node of its
own nothing would share them.
"""

import sys
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

_SCALARS = (int, float, str, bytes, np.generic)
_ROWS = (list, tuple, set, frozenset, deque)


def footprints(machines: Sequence[Any], apart: Sequence[Any] = ()) -> list[int]:
    """The state of every machine of a population, in bytes; of one alone, all that hangs off it counts.
    ``apart``: what does not count, nor what hangs off it alone."""
    common = {id(thing) for thing in apart}
    if len(machines) > 1:
        first, second = ({id(thing) for thing, _ in _walk(machine, set())} for machine in machines[:2])
        common |= first & second
    return [sum(size for _, size in _walk(machine, common)) for machine in machines]


def _walk(root: Any, leave_out: set[int]) -> Iterator[tuple[Any, int]]:
    """Everything that hangs off an object and is no function, with its own bytes."""
    waiting, met = [root], set[int]()
    while waiting:
        thing = waiting.pop()
        if thing is None or isinstance(thing, bool | type) or callable(thing):
            continue
        if isinstance(thing, _SCALARS):
            yield object(), sys.getsizeof(thing)
            continue
        if id(thing) in met or id(thing) in leave_out:
            continue
        met.add(id(thing))
        if isinstance(thing, np.ndarray) and thing.base is not None:
            waiting.append(thing.base)
            continue
        yield thing, sys.getsizeof(thing)
        waiting += _parts(thing)


def _parts(thing: Any) -> list[Any]:
    if isinstance(thing, dict):
        return [*thing.keys(), *thing.values()]
    if isinstance(thing, _ROWS):
        return list(thing)
    if isinstance(thing, np.ndarray):
        return []
    slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    held = [getattr(thing, name) for name in slots if hasattr(thing, name)]
    return [*held, *getattr(thing, "__dict__", {}).values()]
