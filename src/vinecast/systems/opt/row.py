"""OPT's row. Its sweep knows all systems on T-Man."""

from vinecast.systems.common.row import System
from vinecast.systems.opt.machine import OptConfig, opt_machines

ROW = System(
    OptConfig,
    opt_machines,
    sweep_of="tman_sweep.sweep:TManSweep",
    measures_of="tman_sweep.measures:MEASURES",
    settings=("synchronous",),
)
