"""The systems by name: a further one is a folder with a row, and a line here.

Every system is built over the profiles of its population (core/arrays/profiles.py); one without topics takes
from them how many peers there are and no more.
"""

from collections.abc import Mapping
from dataclasses import replace

from vinecast.systems.common.row import System
from vinecast.systems.cyclon.row import ROW as CYCLON
from vinecast.systems.direct.row import ROW as DIRECT
from vinecast.systems.ferry.row import ROW as FERRY
from vinecast.systems.flooding.row import ROW as FLOODING
from vinecast.systems.grid.row import ROW as GRID
from vinecast.systems.opt.row import ROW as OPT
from vinecast.systems.poldercast.row import ROW as POLDERCAST
from vinecast.systems.poldercast_regular.row import ROW as POLDERCAST_REGULAR
from vinecast.systems.pulsarcast.row import ROW as PULSARCAST
from vinecast.systems.quasar.row import ROW as QUASAR
from vinecast.systems.rvr.row import ROW as RVR
from vinecast.systems.scribe.row import ROW as SCRIBE
from vinecast.systems.tman_sweep.sweep import TManSweep
from vinecast.systems.vinifera.row import ROW as VINIFERA
from vinecast.systems.vitis.row import ROW as VITIS

SYSTEMS: Mapping[str, System] = {
    "cyclon": CYCLON,
    "poldercast": POLDERCAST,
    "poldercast_regular": POLDERCAST_REGULAR,
    "grid": GRID,
    "pulsarcast": PULSARCAST,
    "scribe": SCRIBE,
    "flooding": FLOODING,
    "vitis": replace(VITIS, sweep=TManSweep),
    "rvr": replace(RVR, sweep=TManSweep),
    "opt": replace(OPT, sweep=TManSweep),
    "vinifera": VINIFERA,
    "ferry": FERRY,
    "quasar": QUASAR,
    "direct": DIRECT,
}
