"""Kademlia on one node.

*Joining.* The node looks itself up through its contacts. Whoever it asks comes to know it, and those who
answer fill its buckets. Then it looks up a point in every bucket that should have somebody (Kademlia §2.3).

*Staying.* Whoever speaks to the node is seen. Once a period those who have been silent for longest are
pinged; every few periods the node looks itself up again, through a contact too, which joins again what a
partition parted; a bucket in whose range nothing was looked up for long is refreshed.

*Values.* ``put`` stores at the k nearest, and again before it would expire, as long as the node does not
``forget`` it. Whoever holds a value stores it again at the k nearest when for some time nobody else has, at a
moment of its own, so that one of them does it for all (Kademlia §2.5). That does not prolong its life, which
only its owner does. Who is not among the nearest any longer gives a value up when they have it.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from vinecast.core.circle import BITS
from vinecast.core.draws import draw, purpose, stream
from vinecast.core.events import (
    Count,
    Effect,
    Event,
    PeerFound,
    PeerLost,
    Received,
    Send,
    SetTimer,
    Start,
    Stop,
    TimerFired,
)
from vinecast.core.machine import NOBODY
from vinecast.protocols.kademlia.buckets import KEY_BYTES, Keys, key_of_point, point_of
from vinecast.protocols.kademlia.config import KademliaConfig
from vinecast.protocols.kademlia.messages import (
    PROVIDERS,
    VALUE,
    KademliaAnswer,
    KademliaFind,
    KademliaGoodbye,
    KademliaPing,
    KademliaPong,
    KademliaProvide,
    KademliaStore,
    KademliaStored,
)
from vinecast.protocols.kademlia.operations import TIMEOUT_TIMER, Operations
from vinecast.protocols.kademlia.tasks import KademliaTask, Operation, Validator, is_block

TIMER = "kademlia"
JOIN_TIMER = "kademlia.join"

CONTACTS_MAX = 32
"""Contacts that are remembered (ours)."""
UPKEEP_SHARE = 4
"""Of all tasks at a time, storing again takes one in so many (ours)."""

_REFRESH = purpose("kademlia.refresh")


class Kademlia(Operations):
    """The machine. ``me`` is the node's own number, ``seed`` keys its draws, ``keys`` has the point of every
    peer that has a number, ``validator`` says which values are true that are not blocks."""

    def __init__(
        self, config: KademliaConfig, seed: int, me: int, keys: Keys, validator: Validator | None = None
    ) -> None:
        super().__init__(config, seed, me, keys, validator)
        self._refreshing = b""
        self._self_lookups = 0
        self._failed_joins = 0
        self._every_period = SetTimer(TIMER, config.period_us)

    # What a system asks besides.

    def next_hop(self, point: int) -> int:
        """The known peer nearest to a point; itself when it is the nearest; NOBODY before it has joined."""
        if not self.joined:
            return NOBODY
        return next(iter(self.buckets.nearer(point, 1)), self.me)

    def hear(self, peer: int, now_us: int) -> list[Effect]:
        """A message of any protocol came from this peer: it was seen."""
        self._pinged.pop(peer, None)
        oldest = self.buckets.meet(peer, now_us)
        if oldest == NOBODY or self.buckets.heard_us[oldest] > now_us - self.config.period_us:
            return []
        return self._ping(oldest, now_us)

    @property
    def changes(self) -> int:
        """Another number whenever the buckets have changed."""
        return self.buckets.changes

    def say_goodbye(self, others: Iterable[int] = ()) -> list[Effect]:
        """Leave in good order: tell all it knows, and others of whom the system says that they know it."""
        told = dict.fromkeys([*self.buckets.known, *others])
        return [Send(peer, KademliaGoodbye()) for peer in told]

    @property
    def peers(self) -> NDArray[np.int32]:
        """All peers in its buckets, in a row of fixed length; empty slots hold NOBODY."""
        room = min(self.buckets.keys.size, BITS * self.config.nearest)
        row = np.full(room, NOBODY, dtype=np.int32)
        known = self.buckets.known
        row[: len(known)] = known
        return row

    @property
    def in_use(self) -> set[int]:
        """Numbers of peers that must not come to mean others, for a driver whose numbers are few."""
        asked = (request.peer for request in self.requests.open.values())
        looked_up = (p for task in self.tasks.values() for p in (*task.lookup.involved, *task.providers))
        return {*self.buckets.heard_us, *self.contacts, *asked, *looked_up}

    # The machine.

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        match event:
            case Received(sender, KademliaGoodbye()):
                return self._lose(sender, now_us)
            case Received(sender, message):
                return self.hear(sender, now_us) + self._receive(sender, message, now_us)
            case TimerFired(name) if name == TIMEOUT_TIMER:
                return self._time_out(now_us)
            case TimerFired(name) if name == TIMER:
                return self._keep_up(now_us)
            case TimerFired(name) if name == JOIN_TIMER:
                return [] if self.joined else self._look_up(now_us)
            case Start(contacts):
                return self._start(contacts, now_us)
            case PeerFound(peer):
                return self._take_contact(peer, now_us)
            case PeerLost(peer):
                return self._lose(peer, now_us)
            case Stop():
                return self.say_goodbye()
            case _:
                return []

    def _receive(self, sender: int, message: object, now_us: int) -> list[Effect]:
        match message:
            case KademliaFind():
                return self._give(sender, message)
            case KademliaAnswer(number) | KademliaStored(number) | KademliaPong(number):
                return self._answered(sender, message, number, now_us)
            case KademliaStore(number, key, value, left_us):
                refused = self._why_not(key) or self._store(sender, key, value, left_us, now_us)
            case KademliaProvide(number, key):
                refused = self._why_not(key) or self._list_provider(sender, key, now_us)
            case KademliaPing(number):
                return [Send(sender, KademliaPong(number))]
            case _:
                return []
        counted = self._refuse(sender, refused) if refused else []
        return [*counted, Send(sender, KademliaStored(number, not refused))]

    # Serving.

    def _give(self, sender: int, find: KademliaFind) -> list[Effect]:
        if len(find.key) != KEY_BYTES:
            return self._refuse(sender, "keys")
        size = self.config.nearest
        near = [peer for peer in self.buckets.closest(point_of(find.key), size + 1) if peer != sender]
        providers: list[int] = []
        if find.want == PROVIDERS:
            own = [self.me] if (Operation.PROVIDE, find.key) in self.own else []
            providers = [*own, *self._providers(find.key)][: self.config.providers_max]
        value = self._value(find.key) if find.want == VALUE else b""
        return [Send(sender, KademliaAnswer(find.number, tuple(near[:size]), tuple(providers), value))]

    # Joining.

    def _start(self, contacts: tuple[int, ...], now_us: int) -> list[Effect]:
        """Whom it knew before counts as a contact: much may have changed while it was away. What it keeps it
        still has; what it was working at is over."""
        buckets = self.buckets
        found = dict.fromkeys([*contacts, *buckets.known, *self.contacts])
        self.contacts = [peer for peer in found if buckets.exists(peer)][:CONTACTS_MAX]
        buckets.clear()
        self.tasks.clear()
        self.requests.open.clear()
        self._pinged.clear()
        self._results.clear()
        self._waits = False
        self._refreshing = b""
        for own in self.own.values():
            own.due_us = now_us
        self.joined = not self.contacts
        return [self._every_period, *([] if self.joined else self._look_up(now_us))]

    def _take_contact(self, peer: int, now_us: int) -> list[Effect]:
        """A peer was met by other means: a contact, the newest; one is dropped when they are too many."""
        if not self.buckets.exists(peer) or peer in self.buckets:
            return []
        alone = not self.buckets.heard_us
        self.contacts = [peer, *(contact for contact in self.contacts if contact != peer)][:CONTACTS_MAX]
        return self._look_up(now_us) if alone else self._ping(peer, now_us)

    def _look_up(self, now_us: int) -> list[Effect]:
        """Look itself up, also through one of its contacts, another one each time."""
        through = NOBODY
        if self.contacts:
            through = self.contacts[self._self_lookups % len(self.contacts)]
            self._self_lookups += 1
        return self._begin(Operation.CLOSEST, self._own_key, now_us, told=False, through=through)

    def _after(self, task: KademliaTask, now_us: int) -> list[Effect]:
        if task.operation is Operation.PUT:
            self._hand_over(task)
        if task.operation is Operation.GET and task.value:
            return self._correct(task, now_us)
        if task.operation is not Operation.CLOSEST:
            return []
        if task.key == self._own_key and not self.joined:
            return self._enter(now_us) if self.buckets.heard_us else self._join_later()
        if task.key == self._refreshing:
            self._refreshing = b""
            return self._refresh(now_us)
        return []

    def _join_later(self) -> list[Effect]:
        """Nobody answered: try again soon, then ever less often, but once a period."""
        wait_us = self.config.timeout_us << min(self._failed_joins, 16)
        self._failed_joins += 1
        return [SetTimer(JOIN_TIMER, min(wait_us, self.config.period_us))]

    def _enter(self, now_us: int) -> list[Effect]:
        """The node is in. Now it looks into every bucket, and goes on with what waited for that."""
        self.joined = True
        self._failed_joins = 0
        self.buckets.changes += 1
        self._touched_us = [now_us - self.config.refresh_us] * BITS
        effects = self._refresh(now_us)
        for task in list(self.tasks.values()):
            if task.key != self._refreshing:
                effects += self._set_out(task, now_us)
        return effects

    # Staying.

    def _keep_up(self, now_us: int) -> list[Effect]:
        """A round: look around, ping the silent, drop what has expired, store what is due."""
        self.cycle += 1
        effects: list[Effect] = [self._every_period]
        if expired := self.storage.expire(now_us):
            effects.append(Count("kademlia.expired", expired))
        alone = not self.buckets.heard_us and bool(self.contacts)
        if self.joined and (alone or (self.cycle + self.me) % self.config.lookup_periods == 0):
            effects += self._look_up(now_us)
        if not self.joined:
            return effects
        effects += self._refresh(now_us)
        heard_us = self.buckets.heard_us
        waiting = [peer for peer in self.buckets.known if heard_us[peer] <= now_us - self.config.period_us]
        for peer in sorted(waiting, key=lambda peer: (heard_us[peer], peer))[: self.config.probes]:
            effects += self._ping(peer, now_us)
        return effects + self._store_again(now_us)

    def _ping(self, peer: int, now_us: int) -> list[Effect]:
        if peer in self._pinged:
            return []
        self._pinged[peer] = None
        number = self.requests.next_number()
        return self._ask(peer, number, KademliaPing(number), None, now_us)

    def _refresh(self, now_us: int) -> list[Effect]:
        """Look up a point in the range of a bucket that needs it, one bucket after the other."""
        if self._refreshing:
            return []
        empty_us = self.config.lookup_periods * self.config.period_us
        for row in range(self.buckets.depth, BITS):
            age_us = now_us - self._touched_us[row]
            if age_us < (self.config.refresh_us if self.buckets.rows[row] else empty_us):
                continue
            low = int(draw(stream(self.seed, _REFRESH, self.cycle, self.me), row)) & ((1 << row) - 1)
            self._refreshing = key_of_point(self.buckets.point ^ (1 << row) ^ low)
            self._touched_us[row] = now_us
            return self._begin(Operation.CLOSEST, self._refreshing, now_us, told=False)
        return []

    def _lose(self, peer: int, now_us: int) -> list[Effect]:
        """A peer is gone."""
        self._pinged.pop(peer, None)
        self.buckets.drop(peer)
        effects: list[Effect] = []
        for request in self.requests.take_all_to(peer):
            effects += self._fail(request, now_us)
        return effects

    # Values that live on.

    def _store_again(self, now_us: int) -> list[Effect]:
        """Put and provide what is due, as much at a time as leaves room for others."""
        effects: list[Effect] = []
        room = self.config.tasks_max // UPKEEP_SHARE - len(self.tasks)
        own = [found for found, own in self.own.items() if own.due_us <= now_us]
        for operation, key in own[: max(room, 0)]:
            self.own[operation, key].due_us = now_us + self.config.expire_us // 2
            effects += self._begin(operation, key, now_us, told=False)
        due = [held for held in self.storage.values if held.due_us <= now_us]
        for held in due[: max(room - len(own), 0)]:
            held.due_us = self._next_due_us(held.key, now_us)
            if self._is_true(held.key, held.value, now_us):
                effects += self._begin(Operation.PUT, held.key, now_us, told=False)
            else:
                self.storage.drop(held)
        return effects

    def _hand_over(self, task: KademliaTask) -> None:
        """Give up a value that the k nearest keep, when this node is not one of them."""
        held = self.storage.value(task.key)
        if held is None or self.me in task.stored or (Operation.PUT, task.key) in self.own:
            return
        if len(task.stored) >= self.config.nearest:
            self.storage.drop(held)

    def _correct(self, task: KademliaTask, now_us: int) -> list[Effect]:
        """Send a value to those of the nearest that have an older one or none. Of a block there is no older
        one, and its holders see to it themselves."""
        effects: list[Effect] = []
        if is_block(task.key, task.value):
            return effects
        for peer in task.lookup.nearest:
            if peer != self.me and task.holders.get(peer) != task.value:
                number = self.requests.next_number()
                store = KademliaStore(number, task.key, task.value, self.config.expire_us)
                effects += self._ask(peer, number, store, None, now_us)
        return effects
