"""Vicinity: the peers that share most with a node, above all where it lacks some (S0 §5.2, S4 §2.4.2).

Once a cycle a node looks through all of its views, keeps the entries that are worth most to it, asks the
oldest, and sends it what is worth most to *it*; the partner answers in kind. What "worth" means is in
``core/arrays/topic_overlap``.

S4 merges the other layers' views into its own at every message; we do so once a cycle, at the node's own
turn, and merge only what was received at a message. Between two turns the other layers offer nothing that
was not looked at already, so that the result is the same, at a fraction of the cost.
"""

from vinecast.protocols.vicinity.machine import Vicinity, VicinityAnswer, VicinityConfig, VicinityRequest

__all__ = ["Vicinity", "VicinityAnswer", "VicinityConfig", "VicinityRequest"]
