"""Rings: for each topic, the subscribers just before and after a node on the circle (S0 §5.1, S4 §2.4.3).

Once a cycle a node asks the ring neighbour that it has not heard from for longest, and sends it, for the
topics they share, the nearest to *its* place that it knows of from all layers; the partner answers in kind.
Both keep, for each topic, the nearest of everything they hear of. A partner that stays silent is gone: it
left all rings when it was asked.
"""

from vinecast.protocols.rings.machine import Rings, RingsAnswer, RingsConfig, RingsRequest

__all__ = ["Rings", "RingsAnswer", "RingsConfig", "RingsRequest"]
