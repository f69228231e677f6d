"""RingsRegular: rings of those who are regular now (S4 §6.4.3, Algorithms 8–14).

RingsRegular is Rings among the nodes that are regular in the present slot, with rows for every slot, and with
one difference in manners: a partner that is asked stays where it is until it has kept silent for a whole
cycle, so that events do not miss it meanwhile. Here is what the slots add: rows that change with them
(``rules``), for a population (``sweep``), and messages of their own. The rest are the rules of
``protocols/rings``, which the system applies to these rows (systems/poldercast_regular/machine.py).
"""

from vinecast.protocols.rings_regular.messages import TIMER, RegularAnswer, RegularRequest

__all__ = ["TIMER", "RegularAnswer", "RegularRequest"]
