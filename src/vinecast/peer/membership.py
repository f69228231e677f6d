"""Membership: taking part in topics, and how the node stands in them."""

import abc
from collections.abc import Iterable
from typing import Any

from vinecast.core.events import Subscribe, Unsubscribe
from vinecast.core.machine import NOBODY
from vinecast.peer.address import Address
from vinecast.peer.effects import EffectHandling
from vinecast.peer.streams.durable_runtime import DurableRuntime
from vinecast.peer.volatile_events import VolatileEvents
from vinecast.protocols.streams import NOW
from vinecast.systems.common.router import ME
from vinecast.systems.common.wire import CARD_BYTES_MAX, TOPICS_MAX, names_bytes

OF_PATTERNS_MAX = 0.75
"""Of the room on the card, for topics that patterns take up (ours)."""


class TopicMembership(EffectHandling):
    """What a peer is asked about topics."""

    events: VolatileEvents
    streams: DurableRuntime
    address: Address
    """Where others reach the node."""
    _followed: set[str]
    """Topics that it takes part in, and whose streams it reads."""
    _wanted: set[str]
    """Names that only ask for events: filters, and topics of schemas of which all is wanted."""

    @abc.abstractmethod
    def _renew(self, topics: Iterable[str]) -> None:
        """Write a new card with these topics."""

    def regularity(self) -> dict[str, Any]:
        """When the node is on line, as far as its log tells; nothing where that does not matter."""
        return self.system.regularity()

    @property
    def by_content(self) -> bool:
        """Whether its system routes events by content."""
        return self.system.row.by_content

    def routing(self) -> dict[str, Any]:
        """How many names it asks for by content; nothing where its system does not route by that."""
        return {"filters": len(self._wanted)} if self.by_content else {}

    def subscribe(self, topics: Iterable[str], start: str = NOW, *, is_plain: bool = True) -> list[str]:
        """Take part in these topics, and read their streams from NOW or from the EARLIEST event on; those for
        which there was room. is_plain: whether they were asked for by their names; a part of the room is kept
        for those, since what fits a pattern may be what strangers made up"""
        added = self._take_up(topics, 1.0 if is_plain else OF_PATTERNS_MAX)
        self._followed.update(added)
        for topic in added:
            self.streams.follow(topic, start)
        return added

    def unsubscribe(self, topic: str) -> None:
        """Leave a topic."""
        if topic in self._followed:
            self._followed.discard(topic)
            self.streams.unfollow(topic)
            number = self.peer_table.topics.number_of(topic)
            if topic in self._wanted and number is not None:  # not for its stream, which has left it
                self.handle_event(Subscribe(number))
            self._give_up(topic)

    def want(self, names: Iterable[str], no_longer: Iterable[str] = ()) -> set[str]:
        """Have events brought that these names ask for, filters and topics, and no longer those of others; no
        stream is followed. Those for which there was room."""
        for name in sorted(no_longer):  # they may come as sets
            self._wanted.discard(name)
            self._give_up(name)
        added = set(self._take_up(sorted(names)))
        self._wanted |= added
        return added

    def _take_up(self, names: Iterable[str], share: float = 1.0) -> list[str]:
        """Subscribe to these, with one new card for all; those for which there was room. share: of the card
        that may be full then"""
        mine, added = set(self.peer_table.names_of(ME)), []
        room = round(share * CARD_BYTES_MAX) - names_bytes(mine)
        places = round(share * TOPICS_MAX) - len(mine)
        for name in dict.fromkeys(names):
            if name in mine:
                added.append(name)
                continue
            size = names_bytes((name,))
            number = self.peer_table.topics.take(name) if size <= room and places > 0 else None
            if number is None:
                continue
            self.handle_event(Subscribe(number))
            if self.system.router.subscribes(number):
                self.peer_table.take_up(number)  # what the profile now uses of the number is what we took
                room, places = room - size, places - 1
                added.append(name)
            else:
                self.peer_table.topics.leave(number)
        if not mine.issuperset(added):
            self._renew(mine.union(added))
        return added

    def _give_up(self, name: str) -> None:
        """Leave a topic or a filter, unless it is still of use."""
        number = self.peer_table.topics.number_of(name)
        if number is not None and name not in self._wanted and name not in self._followed:
            self.handle_event(Unsubscribe(number))
            self.system.keep_topic(number)
            self.peer_table.give_up(number)
            self._renew(set(self.peer_table.names_of(ME)) - {name})

    def search(self, topic: str) -> bool:
        """Where nobody is known to whom an event on a topic could be handed, search for one; whether to wait
        a moment for what comes of it."""
        return self.system.search(topic)

    def subscribes(self, topic: str) -> bool:
        """Whether the node takes part in a topic."""
        return topic in self._followed

    def follows(self, topic: str) -> bool:
        """Whether the node follows a topic's stream, or is about to."""
        return topic in self._followed or topic in self.streams.repair.topics

    def is_ready(self, topic: str) -> bool:
        """Whether an event on a topic would reach this node."""
        number = self.peer_table.topics.number_of(topic)
        return number is not None and self.system.is_ready(number)

    def is_alone(self, topic: str) -> bool:
        """Whether nobody else is known who takes part in a topic."""
        number = self.peer_table.topics.number_of(topic)
        return number is None or self.system.is_alone(number)

    def neighbours(self) -> dict[str, tuple[bytes, bytes]]:
        """Topic → the ids of those next to the node in it, below and above; empty where there is nobody."""
        found = {}
        for name in self.peer_table.topics_of(ME):
            topic = self.peer_table.topics.number_of(name)
            if topic is None:
                continue
            nearest = self.system.nearest(topic)
            lower, higher = (b"" if peer == NOBODY else self.peer_table.id_of(peer) for peer in nearest)
            found[name] = lower, higher
        return found

    def is_crowded(self, topic: str) -> bool:
        """Whether a peer that events of a topic may go to has a crowded queue."""
        numbers = map(self.peer_table.number_of, self.links.crowded)
        return any(number != NOBODY and self.system.leads_to(topic, number) for number in numbers)
