"""A gossip layer on one node: the machine's side of ``core.exchange``, once for every protocol with a view.

Once a period the layer asks a partner; whoever is asked answers at once, then merges; the answer is merged
and ends the exchange. There is no time-out: a partner that has not answered when the next turn begins has
stayed silent, which is remembered (``core.arrays.suspicion``) and told to whoever wants to know. A protocol
says whom it asks, what it answers and how it merges.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from vinecast.core.arrays.suspicion import SuspicionMemory
from vinecast.core.arrays.topic_overlap import Scratch
from vinecast.core.arrays.view import View, write_out
from vinecast.core.config import check
from vinecast.core.errors import InputError
from vinecast.core.events import Count, Effect, Event, PeerLost, Received, Send, SetTimer, Start, TimerFired
from vinecast.core.machine import NOBODY, SECOND_US


class Periodic:
    """A configuration of what recurs."""

    __slots__ = ()
    period_s: float

    @property
    def period_us(self) -> int:
        """The period in microseconds."""
        return round(self.period_s * SECOND_US)


class ViewGossip(Periodic):
    """A configuration of gossip about a view."""

    __slots__ = ()
    view_size: int
    gossip_size: int

    def __post_init__(self) -> None:
        check(self)
        if self.gossip_size > self.view_size:
            raise InputError(f"gossip_size ({self.gossip_size}) must not exceed view_size ({self.view_size})")


@dataclass(frozen=True, slots=True)
class Host:
    """What a system hands each of its layers."""

    seed: int
    me: int
    """The node's own number."""
    scratch: Scratch
    suspicion: SuspicionMemory = field(default_factory=SuspicionMemory)
    first_after_us: int = 0
    """When the first turn comes."""
    on_suspect: Callable[[int], object] = lambda peer: None
    """Is told of a partner that did not answer."""


class GossipLayer:
    """The machine of a protocol, but for its choices.

    ``request`` and ``answer`` are its messages, made of a cycle, peers and ages; ``timer`` is the name of its
    timer, and ``counter`` that which its counters begin with.
    """

    request: ClassVar[type[Any]]
    answer: ClassVar[type[Any]]
    timer: ClassVar[str]
    counter: ClassVar[str]

    def __init__(self, host: Host, gossip_size: int, period_us: int) -> None:
        self.seed = host.seed
        self.me = host.me
        self.cycle = 0
        self.partner = NOBODY
        self._scratch = host.scratch
        self._suspicion = host.suspicion
        self._on_suspect = host.on_suspect
        self._first_after_us = host.first_after_us
        self._gossip_size = gossip_size
        self._period_us = period_us

    # What a protocol decides.

    def forget(self, peer: int) -> None:
        """Drop a peer that another layer, or the transport, found gone."""
        raise NotImplementedError

    def _ask(self, now_us: int) -> View | None:
        """Choose ``partner``, and what to send it; None where there is nobody to ask."""
        raise NotImplementedError

    def _give(self, sender: int, cycle: int, told: View) -> View | None:
        """What to answer a request of this cycle of the sender's; None for no answer, and no merge."""
        raise NotImplementedError

    def _merge(self, sender: int, cycle: int, told: View) -> None:
        """Take in what the sender told. cycle: the initiator's"""
        raise NotImplementedError

    # What all of them do.

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        match event:
            case Received(sender, message) if isinstance(message, self.request):
                told = self._told(message)
                given = self._give(sender, message.cycle, told)
                if given is None:
                    return []
                self._merge(sender, message.cycle, told)
                return [Send(sender, self.answer(message.cycle, *given))]
            case Received(sender, message) if isinstance(message, self.answer):
                if sender != self.partner or message.cycle != self.cycle:
                    return [Count(f"{self.counter}.late")]
                self._merge(sender, self.cycle, self._told(message))
                self.partner = NOBODY
                return []
            case TimerFired(name) if name == self.timer:
                return self._begin(now_us)
            case Start():
                self._give_up()
                return [SetTimer(self.timer, self._first_after_us)]
            case PeerLost(peer):
                self.forget(peer)
                return []
            case _:
                return []

    def _begin(self, now_us: int) -> list[Effect]:
        effects: list[Effect] = [SetTimer(self.timer, self._period_us)]
        if self.partner != NOBODY:
            effects.append(Count(f"{self.counter}.silent"))
            self._suspicion.note(self.partner)
        self._give_up()
        self.cycle += 1
        asked = self._ask(now_us)
        if asked is not None:
            effects.append(Send(self.partner, self.request(self.cycle, *asked)))
        return effects

    def _give_up(self) -> None:
        """Whoever was asked stayed silent."""
        if self.partner != NOBODY:
            self._on_suspect(self.partner)
        self.partner = NOBODY

    def _told(self, message: Any) -> View:
        most = self._gossip_size
        return View(message.peers[:most], message.ages[:most])

    def _written(self, found: int) -> View:
        """The chosen candidates, as a message has them."""
        out = View(np.empty(found, dtype=np.int32), np.empty(found, dtype=np.uint16))
        write_out(self._scratch, found, *out)
        return out
