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

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.view import View, front_of
from vinecast.core.draws import draw, purpose, stream
from vinecast.core.machine import NOBODY
from vinecast.core.rule import rule, rule_from, rule_on_words, word
from vinecast.core.sweep import UNANSWERED, Mail, Mailbox, Phase

_TURN = purpose("exchange.turn")
NODE_BITS = 32
_NODE_MASK = word((1 << NODE_BITS) - 1)
_HIGH = word(32)


class Turn(NamedTuple):
    """What one node does for another in an exchange: by this its draws are keyed."""

    seed: int
    cycle: int
    """The initiator's."""
    me: int
    """Who decides."""
    target: int
    """For whom: the partner, whoever asked, or the node itself."""


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


# The synchronous setting, once for every protocol. A protocol has a ``layer``, a record of everybody's state
# and of what one thread needs to work on it; it says who is ``online`` and everybody's ``cycles`` [node]. Its
# four rules are the names that the passes call.

if TYPE_CHECKING:

    def ask(layer: Any, p: int, out: View) -> tuple[int, int]:
        """Begin p's exchange: whom it asks, or NOBODY, and how many entries it wrote out for it."""

    def answer(layer: Any, turn: Turn, asking: NDArray[np.int32], told: View, out: View) -> int:
        """Write out what turn.me answers turn.target, then merge what it was told; how many entries.

        asking: [request], all who ask the same node in this cycle, ascending
        """

    def merge(layer: Any, turn: Turn, told: View) -> None:
        """Merge what turn.target told turn.me."""

    def miss(layer: Any, p: int, partner: int) -> None:
        """p's partner was silent."""


def request_all(layer: Any, mail: Mail, begin: int, end: int) -> None:
    """Phase 1: every node on line asks somebody."""
    for p in range(begin, end):
        mail.partner[p] = NOBODY
        if layer.online[p]:
            mail.partner[p], mail.told[p] = ask(layer, p, View(mail.peers[p], mail.ages[p]))


def answer_all(layer: Any, mail: Mail, given: View, begin: int, end: int) -> None:
    """Phase 2: every node answers those who asked it, in ascending order of their numbers.

    The answer takes the request's place in the mail. given: [entry], working memory
    """
    for q in range(begin, end):
        asking = mail.initiator[mail.start[q] : mail.start[q + 1]]
        for i in range(asking.size):
            p = int(asking[i])
            if not layer.online[q]:
                mail.told[p] = UNANSWERED
                continue
            told = front_of(View(mail.peers[p], mail.ages[p]), int(mail.told[p]))
            count = answer(layer, Turn(layer.seed, int(layer.cycles[p]), q, p), asking, told, given)
            for j in range(count):
                mail.peers[p, j], mail.ages[p, j] = given.peers[j], given.ages[j]
            mail.told[p] = count


def merge_all(layer: Any, mail: Mail, begin: int, end: int) -> None:
    """Phase 3: every node merges the answer it got, or notes that its partner was silent."""
    for p in range(begin, end):
        q, count = int(mail.partner[p]), int(mail.told[p])
        if q == NOBODY:
            continue
        if count == UNANSWERED:
            miss(layer, p, q)
        else:
            told = front_of(View(mail.peers[p], mail.ages[p]), count)
            merge(layer, Turn(layer.seed, int(layer.cycles[p]), p, q), told)


@rule
def miss_nothing(layer: Any, p: int, partner: int) -> None:
    """For protocols in which silence leaves no trace."""


class Passes(NamedTuple):
    """The three passes over nodes begin … end−1, compiled with one protocol's rules."""

    request: Callable[[Any, Mail, int, int], None]
    answer: Callable[[Any, Mail, View, int, int], None]
    merge: Callable[[Any, Mail, int, int], None]


def make_passes(name: str, ask: Any, answer: Any, merge: Any, miss: Any = miss_nothing) -> Passes:
    """Compile a protocol's passes; ``name`` is its name."""
    return Passes(
        rule_from(request_all, name, ask=ask),
        rule_from(answer_all, name, answer=answer),
        rule_from(merge_all, name, merge=merge, miss=miss),
    )


OverNodes = Callable[[int, int, int], None]
"""(begin, end, worker)"""


def do_nothing(begin: int, end: int, worker: int) -> None:
    """The least that a pass can do."""


def exchange_phases(
    name: str,
    passes: Passes,
    layer: Callable[[int], Any],
    box: Mailbox,
    before: OverNodes = do_nothing,
    after: OverNodes = do_nothing,
) -> tuple[Phase, ...]:
    """The phases of a protocol's exchange. ``name`` begins theirs, ``layer`` makes the record for a worker;
    ``before`` and ``after`` run with each range of requests."""
    mail = box.mail

    def request(begin: int, end: int, worker: int) -> None:
        before(begin, end, worker)
        passes.request(layer(worker), mail, begin, end)
        after(begin, end, worker)

    def sort_mail(begin: int, end: int, worker: int) -> None:
        group_requests(mail.partner, mail.start, mail.initiator)

    def answer(begin: int, end: int, worker: int) -> None:
        entries = mail.peers.shape[1]
        given = View(np.empty(entries, dtype=np.int32), np.empty(entries, dtype=np.uint16))
        passes.answer(layer(worker), mail, given, begin, end)

    def merge(begin: int, end: int, worker: int) -> None:
        passes.merge(layer(worker), mail, begin, end)

    return (
        Phase(f"{name}request", request, requests=box),
        Phase(f"{name}sort mail", sort_mail, divisible=False),
        Phase(f"{name}answer", answer, answers=box),
        Phase(f"{name}merge", merge),
    )
