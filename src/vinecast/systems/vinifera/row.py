"""Vinifera's row."""

from vinecast.systems.common.row import System
from vinecast.systems.vinifera.machine import ViniferaConfig, vinifera_machines

ROW = System(ViniferaConfig, vinifera_machines, has_topics=False, has_content=True)
