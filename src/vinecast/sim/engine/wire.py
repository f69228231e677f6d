"""Control traffic: how many messages keep an overlay together, and what they weigh (S0 §6.5).

A simulated message is never encoded, so its size is an estimate, stated here once (ours): every field at its
natural width, no compression, and an entry of a view as what it is, a copy of a profile with an age
(docs/simulator.md). Messages that carry an event are not control traffic.

Both engines tell a ``ControlMeter``: the event engine of every message, the sweep engine of a mailbox after
each pass that filled it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.machine import NOBODY
from vinecast.core.rule import rule
from vinecast.core.sweep import Mail, Mailbox, Phase

FRAME = 12
"""Length, kind and number of the exchange."""
PEER = 14
"""An id (8), an IPv4 address and a port (6)."""
AGE = 2
TOPIC = 8
"""A topic's id."""
COVERAGE = 1
"""What a profile says besides of each of its topics."""
GAPS = 4
"""… and what it says for the informed exchange (docs/poldercast.md)."""
NUMBER = 4
"""Any other number."""
PROPOSAL = 17
"""What Vitis says of a topic when it sends its own profile: a gateway and of whom it is known (8 each), and
how far it is (1). Only live nodes leave out topics that the receiver does not have."""
PROFILES = ("tman.profile", "tman.echo")
"""Messages that begin with the sender's own profile."""

SENT, RECEIVED = 0, 1


def profile_topic_bytes(config: Any) -> int:
    """Bytes of one topic in a profile of a system so configured."""
    layers = [getattr(config, "rings", None)]
    if hasattr(config, "regular"):  # and the same of the regular rings
        layers.append(config.regular)
    informed = [GAPS if getattr(layer, "informed", False) else 0 for layer in layers]
    return TOPIC + sum(COVERAGE + gaps for gaps in informed)


def entry_bytes(config: Any) -> int:
    """Bytes of an entry without its topics: where regularity counts, its profile has a bit for every slot; in
    Vitis, what its topics weigh together."""
    grid = getattr(config, "grid", None)
    weight = NUMBER if hasattr(config, "gateway_hops") else 0
    return PEER + AGE + weight + (0 if grid is None else (grid.regularity.slots + 7) // 8)


def proposal_bytes(config: Any) -> int:
    """Bytes of what a node says of each of its topics when it sends its own profile."""
    return PROPOSAL if hasattr(config, "gateway_hops") else 0


def message_bytes(
    message: Any,
    subscriptions: NDArray[np.int32],
    topic_bytes: int,
    entry: int = PEER + AGE,
    proposal: int = 0,
) -> int:
    """The weight of a message. subscriptions: [node]; entry: of one without its topics; proposal: of one of
    the sender's topics in its own profile"""
    weight = FRAME
    if message.kind in PROFILES:
        weight += int(subscriptions[message.peers[0]]) * proposal
    for name in message.__slots__:
        value = getattr(message, name)
        if name == "cycle":  # the number in the frame
            continue
        if name in ("peers", "providers"):
            weight += len(value) * PEER
        elif name == "ages":  # ages make entries of peers, and an entry has a profile
            profiles = int(subscriptions[list(message.peers)].sum()) * topic_bytes
            weight += len(value) * (entry - PEER) + profiles
        elif name in ("topics", "refused"):
            weight += len(value) * TOPIC
        elif isinstance(value, bytes):
            weight += len(value)
        else:
            weight += TOPIC if name == "topic" else NUMBER
    return weight


class ControlMeter:
    """Counts control messages and their bytes. messages, weight: [SENT or RECEIVED, node]

    A message counts as received by whom it is sent to, whether it arrives or not.
    """

    def __init__(self, profiles: Profiles, config: Any) -> None:
        self._cnt = profiles.cnt
        self._topic_bytes = profile_topic_bytes(config)
        self._entry_bytes, self._proposal_bytes = entry_bytes(config), proposal_bytes(config)
        self.messages: NDArray[np.int64] = np.zeros((2, profiles.peers), dtype=np.int64)
        self.weight: NDArray[np.int64] = np.zeros((2, profiles.peers), dtype=np.int64)
        self._taken = (0, 0)

    def message(self, sender: int, receiver: int, message: Any) -> None:
        """For the event engine: a message is sent."""
        if hasattr(message, "event"):
            return
        weight = message_bytes(message, self._cnt, self._topic_bytes, self._entry_bytes, self._proposal_bytes)
        for side, node in ((SENT, sender), (RECEIVED, receiver)):
            self.messages[side, node] += 1
            self.weight[side, node] += weight

    def phase(self, phase: Phase) -> None:
        """For the sweep engine: a pass is done."""
        if phase.requests is not None:
            self._mail(phase.requests, answers=False)
        if phase.answers is not None:
            self._mail(phase.answers, answers=True)

    def _mail(self, mail: Mailbox, answers: bool) -> None:
        topic, entry = self._topic_bytes, self._entry_bytes
        _weigh_mail(mail.mail, self._cnt, answers, topic, entry, self.messages, self.weight)

    def take(self) -> tuple[int, int]:
        """Messages sent and their bytes, all nodes together, since this was last asked."""
        totals = int(self.messages[SENT].sum()), int(self.weight[SENT].sum())
        before, self._taken = self._taken, totals
        return totals[0] - before[0], totals[1] - before[1]


@rule
def _weigh_mail(
    mail: Mail,
    subscriptions: NDArray[np.int32],
    answers: bool,
    topic_bytes: int,
    entry: int,
    messages: NDArray[np.int64],
    weight: NDArray[np.int64],
) -> None:
    """Requests go from a node to its partner, answers the other way. The count of no answer is negative."""
    for p in range(mail.partner.size):
        if mail.partner[p] == NOBODY or mail.told[p] < 0:
            continue
        heavy = FRAME
        for i in range(mail.told[p]):
            heavy += entry + int(subscriptions[mail.peers[p, i]]) * topic_bytes
        sender, receiver = p, int(mail.partner[p])
        if answers:
            sender, receiver = receiver, sender
        messages[SENT, sender] += 1
        messages[RECEIVED, receiver] += 1
        weight[SENT, sender] += heavy
        weight[RECEIVED, receiver] += heavy
