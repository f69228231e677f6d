"""A node's own events: who was sent them, who has said that they are safe there, and which replicas still
lack them.

Only whoever was sent an event by its publisher counts, and once (decision 12). What a replica does not
acknowledge is sent again, a few times; what is left then, replicas find among themselves.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from vinecast.core.events import Send
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.protocols.streams.config import StreamsConfig
from vinecast.protocols.streams.messages import Acknowledged, StreamPush
from vinecast.protocols.streams.serving import batches

PUSHES = 5
"""How often a replica is sent an event (ours)."""
AWAITED_PERIODS = 64
"""For how long the word of whoever was sent something is awaited (ours): longer than it is sent again."""


@dataclass(slots=True)
class _Pushed:
    """One of its events on the way to one replica."""

    tries: int = 0
    due_us: int = 0


@dataclass(slots=True)
class _OwnEvent:
    """An event that this node published."""

    signed: SignedEvent
    sent: dict[int, bool] = field(default_factory=dict)
    """Who was sent it → whether it is safe there."""
    pushes: dict[int, _Pushed] = field(default_factory=dict)
    """Replicas that have not acknowledged it."""


class Holders:
    """Of all events of its own, the latest."""

    def __init__(self, config: StreamsConfig) -> None:
        self._config = config
        self._own: OrderedDict[bytes, _OwnEvent] = OrderedDict()
        self._unpushed: dict[bytes, None] = {}
        """Those that some replica still lacks, the oldest first."""
        self._awaited: dict[int, int] = {}
        """Who was sent something lately → the period in which it was sent last."""
        self._cycle = 0

    def begin_period(self) -> None:
        """A period begins."""
        self._cycle += 1
        for peer in [p for p, last in self._awaited.items() if last + AWAITED_PERIODS < self._cycle]:
            del self._awaited[peer]

    def peers(self) -> set[int]:
        """Whose word is awaited."""
        return set(self._awaited)

    def add(self, signed: SignedEvent, replicas: tuple[int, ...]) -> None:
        """An event of its own."""
        if len(self._own) >= self._config.own:
            gone, _ = self._own.popitem(last=False)
            self._unpushed.pop(gone, None)
        self._own[signed.cid] = _OwnEvent(signed)
        self.want_push(signed.cid, replicas)

    def __contains__(self, cid: bytes) -> bool:
        return cid in self._own

    @property
    def waits(self) -> bool:
        """Whether a replica lacks something."""
        return bool(self._unpushed)

    def of(self, cid: bytes) -> list[int]:
        """Who has said that an event is safe with it."""
        own = self._own.get(cid)
        return [] if own is None else [peer for peer, is_safe in own.sent.items() if is_safe]

    def cids_of(self, topic: str) -> list[bytes]:
        """Its events of a topic, the oldest first."""
        return [cid for cid, own in self._own.items() if own.signed.record.topic == topic]

    def want_push(self, cid: bytes, replicas: tuple[int, ...]) -> None:
        """Let these replicas have an event, unless they have."""
        own = self._own[cid]
        own.pushes = {k: own.pushes.get(k, _Pushed()) for k in replicas if not own.sent.get(k)}
        if own.pushes:
            self._unpushed[cid] = None
        else:
            self._unpushed.pop(cid, None)

    def sent(self, cid: bytes, peer: int, now_us: int) -> None:
        """A peer was sent an event."""
        own = self._own.get(cid)
        if own is None:
            return
        own.sent.setdefault(peer, False)
        self._awaited[peer] = self._cycle
        push = own.pushes.get(peer)
        if push is not None:
            push.due_us = now_us + self._config.answer_us

    def acknowledged(self, peer: int, cids: tuple[bytes, ...]) -> list[Acknowledged]:
        """A peer says that these are safe with it."""
        told = []
        for cid in dict.fromkeys(cids):
            own = self._own.get(cid)
            if own is None or own.sent.get(peer) is not False:
                continue
            own.sent[peer] = True
            if own.pushes.pop(peer, None) is not None and not own.pushes:
                self._unpushed.pop(cid, None)
            told.append(Acknowledged(cid, sum(own.sent.values())))
        return told

    def push(self, now_us: int) -> list[Send]:
        """Send replicas what they lack, in batches."""
        lacking: dict[tuple[int, str], list[SignedEvent]] = {}
        for cid in list(self._unpushed):
            own = self._own[cid]
            for replica, push in list(own.pushes.items()):
                if push.due_us > now_us:
                    continue
                if push.tries >= PUSHES:
                    del own.pushes[replica]
                    continue
                push.due_us = now_us + (self._config.answer_us << push.tries)
                push.tries += 1
                own.sent.setdefault(replica, False)
                self._awaited[replica] = self._cycle
                lacking.setdefault((replica, own.signed.record.topic), []).append(own.signed)
            if not own.pushes:
                del self._unpushed[cid]
        return [
            Send(replica, StreamPush(topic, batch))
            for (replica, topic), events in lacking.items()
            for batch in batches(events, self._config.batch_bytes)
        ]
