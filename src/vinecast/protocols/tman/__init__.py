"""T-Man: a table of neighbours of whatever kind a system wants, built by gossip (S2 §2.4, Algorithms 1, 2).

Once a cycle a node sends all it knows, its table and the sample of the peer sampling service, to a random
neighbour of its table, and is answered in kind. Both choose their tables anew from what they then know. What
makes a good neighbour is the system's business: it hands in the selection.

Once a cycle, too, a node sends its profile to its whole table, and every neighbour answers with its own
(S2 §3.5, Algorithms 6, 7): a neighbour that does not for too long is gone. Who is sent a profile learns that
it stands in somebody's table: such a peer is a *fan* of it, and links serve both ways. The answer also
introduces the sender to somebody, if the system knows to whom (ours).
"""

from vinecast.protocols.tman.config import TManConfig
from vinecast.protocols.tman.machine import TMan
from vinecast.protocols.tman.messages import TManAnswer, TManEcho, TManProfile, TManRequest

__all__ = ["TMan", "TManAnswer", "TManConfig", "TManEcho", "TManProfile", "TManRequest"]
