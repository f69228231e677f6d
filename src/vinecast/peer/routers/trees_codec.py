"""Between the messages of trees and what travels of them: topics by number become names, peers become cards,
and back."""

from collections.abc import Iterable

from vinecast.core.errors import RemoteError
from vinecast.core.events import Message
from vinecast.peer.routers import trees_messages as wire
from vinecast.peer.table.relayed_topics import RelayedTopics
from vinecast.peer.topics import is_topic
from vinecast.peer.wire.codec import Codec
from vinecast.protocols.multicast_tree import (
    TreeAbove,
    TreeAccept,
    TreeAlive,
    TreeHeartbeat,
    TreeJoin,
    TreeMember,
    TreePart,
    TreeSearch,
)

DOWN = 0
"""The way of events that come through a link of the tree (``TreeEvent``); others are still on their way to
it."""


class TreeCodec:
    """Trees' messages. ``cards`` turns numbers of peers into cards and back, ``topics`` those of topics."""

    def __init__(self, cards: Codec, topics: RelayedTopics) -> None:
        self._cards, self._topics = cards, topics

    def pack(self, to: bytes, message: Message) -> wire.TreeFrame:
        """A message for a peer."""
        name_of = self._topics.name_of
        match message:
            case TreeJoin(topic):
                return wire.Join(name_of(topic))
            case TreeAccept(topic):
                return wire.Accept(name_of(topic))
            case TreeHeartbeat(topics):
                return wire.Heartbeat(self._topics.names_of(topics))
            case TreeAlive(refused):
                return wire.Alive(self._topics.names_of(refused))
            case TreeSearch(topic):
                return wire.SearchTree(name_of(topic))
            case TreeMember(topic, member):
                return wire.TreeMember(name_of(topic), member)
            case TreeAbove(topic, peers):
                return wire.Above(name_of(topic), self._cards.describe(to, peers))
            case TreePart(topic):
                return wire.Part(name_of(topic))
        raise TypeError(f"no message of trees: {message!r}")

    def read(self, peer: bytes, frame: wire.TreeFrame) -> Message | None:
        """A message of a peer, for the machine, at once; None when there is no room for its topic."""
        match frame:
            case wire.Heartbeat(topics):
                return TreeHeartbeat(self._numbers_of(topics))
            case wire.Alive(refused):
                return TreeAlive(self._numbers_of(refused))
        topic = self._number_of(frame.topic)
        if topic is None:
            return None
        match frame:
            case wire.Join():
                return TreeJoin(topic)
            case wire.Accept():
                return TreeAccept(topic)
            case wire.Part():
                return TreePart(topic)
            case wire.SearchTree():
                return TreeSearch(topic)
            case wire.TreeMember(_, member):
                return TreeMember(topic, member)
            case wire.Above(_, peers):
                return TreeAbove(topic, self._cards.meet(peer, peers))

    def _number_of(self, name: str) -> int | None:
        if not is_topic(name):
            raise RemoteError("message about an impossible topic")
        return self._topics.number_of(name)

    def _numbers_of(self, names: Iterable[str]) -> tuple[int, ...]:
        found = [self._number_of(name) for name in dict.fromkeys(names)]
        return tuple([number for number in found if number is not None])
