"""OPT's row, but for its sweep, which knows all systems on T-Man (systems/registry)."""

from vinecast.systems.common.row import System
from vinecast.systems.opt.machine import OptConfig, opt_machines

ROW = System(OptConfig, opt_machines, settings=("synchronous",))
