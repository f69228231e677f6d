"""Directed walks: a message finds its way to some member of a group, and not to those it knows already.

S1 §3.2, Algorithm 2. At every hop that is no member, the neighbours' homes are looked through, level by
level: the first that holds the group draws the message to that neighbour, unless the same level also holds
one of the message's *negative* ids: the well is then that of a member which has the message. Where nothing
draws it, a message goes to a random neighbour; so many hops in all.

A message that was drawn by level n and finds nothing below n where it arrives was misled: a member has left,
or a filter was wrong. It takes the node's id into its negative ids and goes on at random (S1 §3.4).
"""

from vinecast.protocols.directed_walk.rules import NO_LEVEL, find_well, step, take_in
from vinecast.protocols.directed_walk.walker import Walk, WalkConfig, Walker

__all__ = ["NO_LEVEL", "Walk", "WalkConfig", "Walker", "find_well", "step", "take_in"]
