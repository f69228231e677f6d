"""Ferry*'s row."""

from vinecast.systems.common.row import System
from vinecast.systems.ferry.machine import FerryConfig, ferry_machines

ROW = System(FerryConfig, ferry_machines, has_topics=False, has_content=True)
