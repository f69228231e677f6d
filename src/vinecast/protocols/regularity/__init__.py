"""A node's own regularity: when it is on line, day after day or week after week (S4 §2.3 and §5.5.1).

What *regular* means is defined once, in ``core.arrays.regularity``, for traces and for nodes. Here is
how a node comes to know its own pattern: from a log of when it came on line, still was, and left
(``log``), summed up as it goes (``service``), for a whole population at once (``sweep``).
"""

from vinecast.protocols.regularity.config import RegularityConfig
from vinecast.protocols.regularity.log import OnlineMark, sessions_of
from vinecast.protocols.regularity.service import OwnRegularity

__all__ = ["OnlineMark", "OwnRegularity", "RegularityConfig", "sessions_of"]
