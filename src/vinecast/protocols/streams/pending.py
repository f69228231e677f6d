"""Events that came before their parents, and wait for them: a bounded room.

Nobody can fill it for others. A sender has at most half of a topic's room, and whoever goes too far loses its
own oldest. With an event go those that wait for it: they would wait for ever.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from vinecast.core.log.batch_signature import SignedEvent
from vinecast.protocols.streams.config import StreamsConfig


@dataclass(slots=True)
class Waiting:
    """An event that waits for its parents."""

    signed: SignedEvent
    sender: int
    missing: dict[bytes, None] = field(default_factory=dict)
    """The parents that it waits for."""
    excused: dict[bytes, None] = field(default_factory=dict)
    """Parents that it does without."""
    ack_to: list[int] = field(default_factory=list)
    """Who wants to know when it is safe."""
    judged: bool = True
    """Whether its sender must have found its place, too, and answers for it."""

    @property
    def size(self) -> int:
        """In bytes, with all that belongs to it."""
        return len(self.signed.block) + len(self.signed.signature.path)


@dataclass(slots=True)
class _Share:
    """What a topic, or a sender in a topic, has in the room: the oldest first."""

    cids: OrderedDict[bytes, None] = field(default_factory=OrderedDict)
    size: int = 0


class Pending:
    """The bounded room of events that wait for their parents."""

    def __init__(self, config: StreamsConfig) -> None:
        self._count, self._bytes = config.pending, config.pending_bytes
        self._waiting: dict[bytes, Waiting] = {}
        self._children: dict[bytes, dict[bytes, None]] = {}
        """A missing parent → who waits for it."""
        self._shares: dict[tuple[str, int], _Share] = {}

    def __contains__(self, cid: bytes) -> bool:
        return cid in self._waiting

    def __len__(self) -> int:
        return len(self._waiting)

    def get(self, cid: bytes) -> Waiting | None:
        """An event that waits."""
        return self._waiting.get(cid)

    def in_topic(self, topic: str) -> int:
        """How many events of a topic wait."""
        share = self._shares.get((topic, _ALL))
        return 0 if share is None else len(share.cids)

    def awaiting(self, cid: bytes) -> list[Waiting]:
        """Who waits for this one."""
        return [self._waiting[child] for child in self._children.get(cid, ())]

    def add(self, waiting: Waiting) -> int:
        """Let an event wait; how many had to go for it."""
        cid, topic = waiting.signed.cid, waiting.signed.record.topic
        self._waiting[cid] = waiting
        for parent in waiting.missing:
            self._children.setdefault(parent, {})[cid] = None
        gone = 0
        for owner in (waiting.sender, _ALL):
            share = self._shares.setdefault((topic, owner), _Share())
            share.cids[cid] = None
            share.size += waiting.size
        for owner, part in ((waiting.sender, 2), (_ALL, 1)):
            share = self._shares.get((topic, owner), _NOTHING)
            while len(share.cids) > max(1, self._count // part) or (
                share.size > self._bytes // part and len(share.cids) > 1
            ):
                gone += self.drop(next(iter(share.cids)))
        return gone

    def arrived(self, cid: bytes) -> list[Waiting]:
        """A parent is kept now: those who waited for nothing else leave the room."""
        free = []
        for child in self._children.pop(cid, ()):
            waiting = self._waiting[child]
            del waiting.missing[cid]
            if not waiting.missing:
                self.remove(waiting)
                free.append(waiting)
        return free

    def clear(self, topic: str) -> list[Waiting]:
        """All events of a topic leave the room, the lowest first."""
        free = [self._waiting[cid] for cid in self._shares.get((topic, _ALL), _NOTHING).cids]
        for waiting in free:
            self.remove(waiting)
        return sorted(free, key=lambda waiting: (waiting.signed.record.height, waiting.signed.cid))

    def drop(self, cid: bytes) -> int:
        """Give up an event and all that wait for it; how many went. ``cid`` itself need not be here."""
        gone, left = 0, [cid]
        while left:
            one = left.pop()
            left += self._children.get(one, ())
            waiting = self._waiting.get(one)
            if waiting is not None:
                self.remove(waiting)
                gone += 1
        return gone

    def remove(self, waiting: Waiting) -> None:
        """Let an event leave the room."""
        cid, topic = waiting.signed.cid, waiting.signed.record.topic
        del self._waiting[cid]
        for parent in waiting.missing:
            others = self._children[parent]
            del others[cid]
            if not others:
                del self._children[parent]
        for owner in (waiting.sender, _ALL):
            share = self._shares[topic, owner]
            del share.cids[cid]
            share.size -= waiting.size
            if not share.cids:
                del self._shares[topic, owner]


_ALL = -2
"""All senders."""
_NOTHING = _Share()
