"""The systems by name: a further one is a folder with a row, and a line here.

Every system is built over the profiles of its population (core/arrays/profiles.py); one without topics takes
from them how many peers there are and no more. A row is loaded when it is asked for.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module

from vinecast.systems.common.row import LiveSystem, System

_IS_LIVE = {
    "cyclon": False,
    "poldercast": True,
    "poldercast_regular": False,
    "grid": False,
    "pulsarcast": True,
    "scribe": False,
    "flooding": True,
    "vitis": True,
    "rvr": False,
    "opt": False,
    "vinifera": True,
    "ferry": False,
    "quasar": False,
    "direct": False,
}
"""Name → whether a live node can run it."""

LIVE_SYSTEMS = tuple(name for name, is_live in _IS_LIVE.items() if is_live)


class _Rows(Mapping[str, System]):
    """The rows, each loaded when it is first asked for."""

    def __getitem__(self, name: str) -> System:
        if name not in _IS_LIVE:
            raise KeyError(name)
        row: System = import_module(f"vinecast.systems.{name}.row").ROW
        return row

    def __iter__(self) -> Iterator[str]:
        return iter(_IS_LIVE)

    def __len__(self) -> int:
        return len(_IS_LIVE)


SYSTEMS: Mapping[str, System] = _Rows()


def live_system(name: str) -> LiveSystem:
    """How a live node runs a system that it can run."""
    live = SYSTEMS[name].live
    assert live is not None
    return live
