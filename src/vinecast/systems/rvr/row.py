"""RVR's row. Its sweep knows all systems on T-Man."""

from vinecast.systems.common.row import System
from vinecast.systems.rvr.machine import RvrConfig, rvr_machines

ROW = System(
    RvrConfig,
    rvr_machines,
    sweep_of="tman_sweep.sweep:TManSweep",
    measures_of="tman_sweep.measures:MEASURES",
    settings=("synchronous",),
)
