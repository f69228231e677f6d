"""Victor: the regular peers that are worth most to an application, slot by slot (S4 §5.5.3, Algorithms 3–6).

Vicinity with a *bucket* of peers for every slot. Only the bucket of the present slot is gossiped about; the
others wait for their time. Whatever comes in, from the peer sampling layer or from others, is let through
only if it is regular now. What a peer is worth is the application's business: it gives a ``utility``.

S4 puts whoever is chosen up for consideration in all other slots that it is regular in; we do so once a slot,
with those who are in its bucket when it ends, and keep as many a slot as a bucket has, the latest. S4's
Algorithm 3 never lets a silent partner go; as in Vicinity, whose extension Victor is, it leaves when it is
asked and comes back when it answers.
"""

from vinecast.protocols.victor.machine import Victor, VictorAnswer, VictorConfig, VictorRequest

__all__ = ["Victor", "VictorAnswer", "VictorConfig", "VictorRequest"]
