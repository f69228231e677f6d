"""Kademlia's operations: begun by the application or by upkeep, driven by answers and by time running out."""

from abc import ABC, abstractmethod

from vinecast.core.circle import BITS
from vinecast.core.errors import InputError
from vinecast.core.events import Blame, Count, Effect, Message, Send, SetTimer
from vinecast.core.machine import NOBODY
from vinecast.protocols.kademlia.buckets import KEY_BYTES, Keys, key_of_point, point_of
from vinecast.protocols.kademlia.config import KademliaConfig
from vinecast.protocols.kademlia.keeping import FAULTS, OwnEntry, TableKeeping
from vinecast.protocols.kademlia.lookup import Lookup
from vinecast.protocols.kademlia.messages import (
    PEERS,
    PROVIDERS,
    VALUE,
    KademliaAnswer,
    KademliaFind,
    KademliaPing,
    KademliaPong,
    KademliaProvide,
    KademliaStore,
    KademliaStored,
)
from vinecast.protocols.kademlia.tasks import (
    Found,
    KademliaTask,
    Operation,
    PendingRequest,
    Requests,
    Validator,
    is_block,
)

TIMEOUT_TIMER = "kademlia.timeout"

_WANT = {Operation.GET: VALUE, Operation.PROVIDERS: PROVIDERS}


class Operations(TableKeeping, ABC):
    """The part of the machine that works at operations. See ``Kademlia`` for its arguments."""

    def __init__(
        self, config: KademliaConfig, seed: int, me: int, keys: Keys, validator: Validator | None
    ) -> None:
        super().__init__(config, seed, me, keys, validator)
        self.requests = Requests()
        self.tasks: dict[tuple[Operation, bytes], KademliaTask] = {}
        self.contacts: list[int] = []
        self.joined = False
        self._own_key = key_of_point(self.buckets.point)
        self._results: list[Found] = []
        self._waits = False
        self._pinged: dict[int, None] = {}
        self._touched_us = [0] * BITS
        """When something was last looked up in the range of each bucket."""

    # What a system asks. Keys have 32 bytes, and the result is a ``Found``.

    def closest(self, key: bytes, now_us: int) -> list[Effect]:
        """Find the k nodes that are nearest to a key."""
        return self._begin(Operation.CLOSEST, key, now_us)

    def get(self, key: bytes, now_us: int) -> list[Effect]:
        """Find a key's value: a block as soon as somebody has it, else the best that the k nearest have."""
        return self._begin(Operation.GET, key, now_us)

    def providers(self, key: bytes, now_us: int) -> list[Effect]:
        """Find peers that have what belongs to a key."""
        return self._begin(Operation.PROVIDERS, key, now_us)

    def put(self, key: bytes, value: bytes, now_us: int) -> list[Effect]:
        """Store a value at the k nearest, now and again until it is forgotten."""
        if not 0 < len(value) <= self.config.value_bytes_max:
            raise InputError(f"a value has 1 to {self.config.value_bytes_max} bytes, not {len(value)}")
        if not self._is_true(key, value, now_us):
            raise InputError(
                "a value must be the block that its key is the hash of, or be signed for its key"
            )
        own = self.own.get((Operation.PUT, key))
        if own is not None and self._better(key, own.value, value) != value:
            raise InputError("this node has put a newer value under this key")
        return self._own(Operation.PUT, key, value, now_us)

    def provide(self, key: bytes, now_us: int) -> list[Effect]:
        """Let the k nearest tell others that this node has what belongs to a key, until it is forgotten."""
        return self._own(Operation.PROVIDE, key, b"", now_us)

    def forget(self, key: bytes) -> None:
        """Neither put nor provide a key again; what others keep will expire."""
        self.own.pop((Operation.PUT, key), None)
        self.own.pop((Operation.PROVIDE, key), None)

    def take_results(self) -> list[Found]:
        """Operations that are over since this was last asked."""
        results, self._results = self._results, []
        return results

    def _own(self, operation: Operation, key: bytes, value: bytes, now_us: int) -> list[Effect]:
        if (operation, key) not in self.own and len(self.own) >= self.config.own_max:
            raise InputError(f"a node puts and provides at most {self.config.own_max} keys")
        self.own[operation, key] = OwnEntry(value, now_us + self.config.expire_us // 2)
        return self._begin(operation, key, now_us)

    # Tasks.

    def _begin(
        self, operation: Operation, key: bytes, now_us: int, told: bool = True, through: int = NOBODY
    ) -> list[Effect]:
        """Begin an operation, unless it is under way. ``through``: somebody who is asked in any case"""
        if len(key) != KEY_BYTES:
            raise InputError(f"a key has {KEY_BYTES} bytes, not {len(key)}")
        task = self.tasks.get((operation, key))
        if task is not None:
            task.told |= told
            task.again = task.storing is not None
            return []
        if len(self.tasks) >= self.config.tasks_max:
            if told:
                self._results.append(Found(operation, key, ()))
            return [Count("kademlia.refused_tasks")]
        config, point = self.config, point_of(key)
        size = config.nearest + (key == self._own_key)  # who looks for itself looks for k others
        lookup = Lookup(self.buckets.keys, self.me, point, size, config.parallel, config.asked_max, through)
        if point != self.buckets.point:
            self._touched_us[(point ^ self.buckets.point).bit_length() - 1] = now_us
        task = self.tasks[operation, key] = KademliaTask(operation, key, lookup, told)
        if operation is Operation.GET:
            value = self._value(key)
            if value and self._take_value(task, self.me, value):
                return self._finish(task, now_us)
        elif operation is Operation.PROVIDERS:
            task.providers.update(dict.fromkeys(self._providers(key)))
        return self._set_out(task, now_us)

    def _set_out(self, task: KademliaTask, now_us: int) -> list[Effect]:
        """Begin with the nearest that the node knows; before it has joined only to look itself up."""
        if not self.joined and task.key != self._own_key:
            return []
        known = self.buckets.closest(task.lookup.point, self.config.nearest)
        task.lookup.offer(known if len(known) == self.config.nearest else [*known, *self.contacts])
        return self._advance(task, now_us)

    def _advance(self, task: KademliaTask, now_us: int) -> list[Effect]:
        """Ask whoever is next; where the lookup ends, store or finish."""
        effects: list[Effect] = []
        want = _WANT.get(task.operation, PEERS)
        for peer in task.lookup.take_next():
            number = self.requests.next_number()
            effects += self._ask(peer, number, KademliaFind(number, task.key, want), task, now_us)
        return effects + self._conclude(task, now_us) if task.lookup.done else effects

    def _conclude(self, task: KademliaTask, now_us: int) -> list[Effect]:
        """The lookup is over: store, unless that is not what it was for, or was forgotten meanwhile."""
        found = (task.operation, task.key)
        held = self.storage.value(task.key) if task.operation is Operation.PUT else None
        if found not in self.own and held is None:
            return self._finish(task, now_us)
        left_us = self.config.expire_us
        if found not in self.own and held is not None:
            left_us = held.expires_us - now_us
        value = self._value(task.key)
        task.storing = {}
        effects: list[Effect] = []
        for peer in task.lookup.nearest:
            if peer == self.me:
                if task.operation is Operation.PROVIDE or not self._store(
                    peer, task.key, value, left_us, now_us
                ):
                    task.stored.append(peer)
                continue
            number = self.requests.next_number()
            message: Message = KademliaStore(number, task.key, value, left_us)
            if task.operation is Operation.PROVIDE:
                message = KademliaProvide(number, task.key)
            task.storing[peer] = None
            effects += self._ask(peer, number, message, task, now_us)
        return effects if task.storing else effects + self._finish(task, now_us)

    def _finish(self, task: KademliaTask, now_us: int) -> list[Effect]:
        """Tell the result, to whoever wants it."""
        del self.tasks[task.operation, task.key]
        task.over = True
        if task.again:
            return self._begin(task.operation, task.key, now_us, task.told)
        peers: list[int] = task.stored
        match task.operation:
            case Operation.CLOSEST:
                peers = task.lookup.nearest[: self.config.nearest]
            case Operation.GET:
                peers = [peer for peer, value in task.holders.items() if value == task.value]
            case Operation.PROVIDERS:
                peers = list(task.providers)
        if task.told:
            self._results.append(Found(task.operation, task.key, tuple(peers), task.value))
        return self._after(task, now_us)

    @abstractmethod
    def _after(self, task: KademliaTask, now_us: int) -> list[Effect]:
        """What else follows from the end of an operation."""

    # Requests and what comes of them.

    def _refuse(self, peer: int, reason: str) -> list[Effect]:
        """Count what is refused, and hold it against whoever sent it if no honest node would have."""
        counted: list[Effect] = [Count("kademlia.refused_" + reason)]
        return [*counted, Blame(peer, FAULTS[reason])] if reason in FAULTS else counted

    def _ask(
        self, peer: int, number: int, message: Message, task: KademliaTask | None, now_us: int
    ) -> list[Effect]:
        due_us = now_us + self.config.timeout_us
        self.requests.add(number, PendingRequest(peer, message, task, self.config.tries - 1, due_us))
        return [Send(peer, message), *self._wait(self.config.timeout_us)]

    def _wait(self, after_us: int) -> list[Effect]:
        """One timer is enough: requests fall due in the order in which they were sent."""
        if self._waits:
            return []
        self._waits = True
        return [SetTimer(TIMEOUT_TIMER, after_us)]

    def _time_out(self, now_us: int) -> list[Effect]:
        """Ask again who has not answered, or give it up."""
        self._waits = False
        effects: list[Effect] = []
        for number, request in self.requests.take_due(now_us):
            if not request.tries:
                effects += self._fail(request, now_us)
                continue
            request.tries -= 1
            request.due_us = now_us + self.config.timeout_us
            self.requests.add(number, request)
            effects.append(Send(request.peer, request.message))
            task = request.task
            if task is not None and not task.over and task.storing is None:
                task.lookup.slow(request.peer)
                effects += self._advance(task, now_us)
        first_us = self.requests.first_due_us
        return effects if first_us is None else effects + self._wait(max(first_us - now_us, 1))

    def _fail(self, request: PendingRequest, now_us: int) -> list[Effect]:
        """A peer did not answer: it is gone, and the task goes on without it."""
        self.buckets.drop(request.peer)
        self._pinged.pop(request.peer, None)
        task, effects = request.task, [Count("kademlia.silent")]
        if task is None or task.over:
            return list(effects)
        if task.storing is not None:
            return [*effects, *self._settle(task, request, False, now_us)]
        task.lookup.fail(request.peer)
        return [*effects, *self._advance(task, now_us)]

    def _answered(self, sender: int, message: object, number: int, now_us: int) -> list[Effect]:
        """Somebody answers. What was not asked is not heard; what does not fit is no answer."""
        request = self.requests.take(number, sender)
        if request is None:
            return [Count("kademlia.late")]
        task = request.task
        match request.message, message:
            case KademliaFind(), KademliaAnswer():
                return self._take_answer(task, sender, message, now_us) if task is not None else []
            case ((KademliaStore() | KademliaProvide()), KademliaStored(_, taken)):
                return self._settle(task, request, taken, now_us) if task is not None else []
            case KademliaPing(), KademliaPong():
                return []
            case _:
                return [*self._refuse(sender, "answers"), *self._fail(request, now_us)]

    def _take_answer(
        self, task: KademliaTask, peer: int, answer: KademliaAnswer, now_us: int
    ) -> list[Effect]:
        if task.over or task.storing is not None:
            return []
        effects: list[Effect] = []
        task.lookup.answer(peer)
        task.lookup.offer(answer.peers[: self.config.nearest])
        if task.operation is Operation.GET and answer.value:
            if len(answer.value) > self.config.value_bytes_max or not self._is_true(
                task.key, answer.value, now_us
            ):
                effects += self._refuse(peer, "values")
            elif self._take_value(task, peer, answer.value):
                return self._finish(task, now_us)
        if task.operation is Operation.PROVIDERS:
            told = [p for p in answer.providers[: self.config.providers_max] if self.buckets.exists(p)]
            task.providers.update(dict.fromkeys(told))
        return effects + self._advance(task, now_us)

    def _take_value(self, task: KademliaTask, peer: int, value: bytes) -> bool:
        """Somebody has this value. Whether there can be no better one."""
        task.value = self._better(task.key, task.value, value)
        task.holders[peer] = task.value if value == task.value else value
        return is_block(task.key, value)

    def _settle(self, task: KademliaTask, request: PendingRequest, taken: bool, now_us: int) -> list[Effect]:
        """Somebody keeps what it was sent, or does not."""
        if task.over or task.storing is None or isinstance(request.message, KademliaFind):
            return []
        if request.peer in task.storing:
            del task.storing[request.peer]
            if taken:
                task.stored.append(request.peer)
        return [] if task.storing else self._finish(task, now_us)
