"""RVR's row, but for its sweep, which knows all systems on T-Man (systems/registry)."""

from vinecast.systems.common.row import System
from vinecast.systems.rvr.machine import RvrConfig, rvr_machines

ROW = System(RvrConfig, rvr_machines, settings=("synchronous",))
