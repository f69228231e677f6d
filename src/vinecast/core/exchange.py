"""The exchange: what "one gossip exchange" means, once, for every protocol and both engines.

An exchange has three steps, each of which reads and writes the state of **one** node only:

1. *Request*. Once a cycle, when its timer fires, the initiator ages its view, gives up on a partner that
   never answered, picks a partner, and sends it a request. What it sent is **locked** until the answer
   comes or the next cycle begins: entries in flight are neither handed to anybody else nor overwritten.
2. *Answer*. The partner, if it is there, composes its answer from its own (unlocked) state **before** it
   merges the request, then merges it. This step is atomic at the partner.
3. *Merge*. The initiator merges the answer and unlocks. An answer to anything but its latest request comes
   too late and is dropped.

A partner that is off line, or whose messages are lost, is simply silent: nobody is told, and the lock ends
with the cycle. Every draw is keyed by (seed, purpose, the initiator's cycle, the deciding node) and, at the
partner, also by the initiator, so that no order of work changes it.

Two orders of these steps over a population are used by the sweeps, and both are special cases of the event
engine (the tests hold them to the same bits):

*Sequential*: the on-line nodes take turns in a keyed random order, new each cycle (``turn_order``), and each
exchange runs through all of its steps before the next begins. Equals the event engine with synchronised
timers and zero latency.

*Synchronous*: everyone requests on the state at the beginning of the cycle, then every partner answers its
requests in ascending order of the initiators' numbers (``group_requests``), then everyone merges. Every
phase writes only rows of the node it works for, so any number of threads gives the same bits. Equals the
event engine with synchronised timers and one constant latency shorter than half a cycle.
"""

import numpy as np
from numpy.typing import NDArray

from vinecast.core.draws import draw, purpose, stream
from vinecast.core.machine import NOBODY
from vinecast.core.rule import rule, rule_on_words, word

_TURN = purpose("exchange.turn")
NODE_BITS = 32
_NODE_MASK = word((1 << NODE_BITS) - 1)
_HIGH = word(32)


@rule_on_words
def turn_word(seed: int, instant: int, node: int) -> int:
    """The place of a node among all whose turn falls on the same instant: lower words go first.

    The node's own number fills the low bits, so that no two words are equal.
    """
    word_drawn = draw(stream(seed, _TURN, instant, 0), node)
    return ((word_drawn >> _HIGH) << _HIGH) | (word(node) & _NODE_MASK)


@rule
def turn_words(seed: int, instant: int, out: NDArray[np.uint64]) -> None:
    """``turn_word`` of every node. out: [node]"""
    key = stream(seed, _TURN, instant, 0)
    for node in range(out.size):
        out[node] = ((draw(key, node) >> _HIGH) << _HIGH) | word(node)


def turn_order(seed: int, instant: int, nodes: int) -> NDArray[np.int64]:
    """The order in which nodes whose timers fire at one instant take their turns. [turn] -> node"""
    words = np.empty(nodes, dtype=np.uint64)
    turn_words(seed, instant, words)
    words.sort()
    return (words & np.uint64((1 << NODE_BITS) - 1)).astype(np.int64)


@rule
def group_requests(
    partner: NDArray[np.int32], start: NDArray[np.int32], initiator: NDArray[np.int32]
) -> None:
    """Sort requests by partner, ascending in the initiator's number (a counting sort, stable by nature).

    partner: [node], whom a node asks or NOBODY; start: [node + 2] and initiator: [node] are filled so that
    the initiators that ask node q are initiator[start[q] : start[q + 1]].
    """
    start[:] = 0
    for p in range(partner.size):
        if partner[p] != NOBODY:
            start[partner[p] + 2] += 1
    for q in range(2, start.size):
        start[q] += start[q - 1]
    for p in range(partner.size):
        if partner[p] != NOBODY:
            slot = start[partner[p] + 1]
            initiator[slot] = p
            start[partner[p] + 1] = slot + 1
