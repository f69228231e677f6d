"""Vitis' row, but for its sweep, which knows all systems on T-Man (systems/registry)."""

from vinecast.systems.common.row import System
from vinecast.systems.vitis.machine import VitisConfig, vitis_machines

ROW = System(VitisConfig, vitis_machines, settings=("synchronous",))
