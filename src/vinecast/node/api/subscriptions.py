"""The subscriptions of a live node, those by patterns too, and what comes for them."""

from collections.abc import Callable

from vinecast.core.errors import ClosedError, InputError
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.node.api.content import SubscriptionFilter
from vinecast.node.api.subscription import Event, Subscription
from vinecast.node.runtime.driver import Driver
from vinecast.node.storage.store import Store
from vinecast.peer.limits.replay_window import ReplayWindow
from vinecast.peer.streams.cursor import Cursor, Start
from vinecast.peer.topics import Pattern
from vinecast.protocols.streams import EARLIEST

FOLLOWED_A_CYCLE = 256  # ours: topics that a pattern takes up in one cycle, at the most
JOINING_CYCLES = 60  # ours: cycles without meeting anybody after which a node counts as alone


class NodeSubscriptions:
    """All subscriptions of one node. ``waiting``: events that may wait for a reader; ``alone_cycles``: cycles
    without another subscriber after which a subscription counts as ready; ``expects``: whether others are to
    be met."""

    driver: Driver
    """What runs the node; set before anybody subscribes."""

    def __init__(self, store: Store, waiting: int, alone_cycles: int, expects: Callable[[], bool]) -> None:
        self.unread = 0
        """Events that nobody read."""
        self.by_topic: dict[str, list[Subscription]] = {}
        """Topic → who reads it."""
        self._routed: dict[str, list[Subscription]] = {}
        """Topic → who has those of its events that the node's system brings for their content."""
        self._replay_window = ReplayWindow()
        """Of what is brought for its content: where a stream is not followed, an old event would be news."""
        self._store, self._waiting, self._alone_cycles = store, waiting, alone_cycles
        self._expects = expects
        self._patterns: list[Subscription] = []

    def all(self) -> list[Subscription]:
        """All subscriptions."""
        every = (*self.by_topic.values(), *self._routed.values())
        found = {id(one): one for subscriptions in every for one in subscriptions}
        found |= {id(one): one for one in self._patterns}
        return list(found.values())

    # Coming and going.

    def subscribe(
        self, topic: str, start: Start, consumer: str | None, wanted: SubscriptionFilter | None = None
    ) -> Subscription:
        """See ``Node.subscribe``. ``wanted``: which events of the topic, if not all."""
        driver, pattern = self.driver, Pattern.parse(topic)
        if wanted is not None and wanted.is_routed:
            routed = Subscription(pattern, self._waiting, self._ready, self._close, None, wanted)
            self._routed.setdefault(topic, []).append(routed)
            return routed
        cursor = Cursor(driver.streams, start, consumer, pattern.is_plain)
        subscription = Subscription(pattern, self._waiting, self._ready, self._close, cursor, wanted)
        if pattern.is_plain:
            if not self._read([topic], subscription):
                raise InputError(f"there is no room for one more topic ({topic[:80]!r})")
            self._store.add_subscription(topic)
        else:
            self._patterns.append(subscription)
            self._read(pattern.choose(driver.peer_table.topics.known()), subscription)
        return subscription

    def _read(self, topics: list[str], subscription: Subscription) -> list[str]:
        """Let a subscription have these topics; those for which there was room."""
        cursor = subscription._cursor
        assert cursor is not None
        topics = topics[:FOLLOWED_A_CYCLE]
        for topic in topics:
            cursor.begin(topic)
            if cursor.follows == EARLIEST:
                for other in self.by_topic.get(topic, ()):
                    assert other._cursor is not None
                    other._cursor.leave_out(topic, self.driver.streams.store.state(topic).floor)
        found = self.driver.subscribe(topics, cursor.follows)
        for topic in found:
            self.by_topic.setdefault(topic, []).append(subscription)
        for topic in set(topics).difference(found):
            cursor.end(topic)
        return found

    async def unsubscribe(self, topic: str) -> None:
        """Leave a topic, whoever reads it, also one from before a restart."""
        for subscription in list(self.by_topic.get(topic, ())):
            if subscription._pattern.is_plain:
                await subscription.close()
        self._leave(topic)

    async def _close(self, subscription: Subscription) -> None:
        if subscription._wanted is not None:
            subscription._wanted.close()
        if subscription in self._patterns:
            self._patterns.remove(subscription)
        for topic, subscriptions in list(self._routed.items()):
            if subscription in subscriptions:
                subscriptions.remove(subscription)
                if not subscriptions:
                    del self._routed[topic]
        for topic, subscriptions in list(self.by_topic.items()):
            if subscription in subscriptions:
                subscriptions.remove(subscription)
                if subscription._cursor is not None:
                    subscription._cursor.end(topic)
                if not subscriptions:
                    self._leave(topic)

    def _leave(self, topic: str) -> None:
        self.by_topic.pop(topic, None)
        self.driver.unsubscribe(topic)
        self._store.drop_subscription(topic)

    async def _ready(self, subscription: Subscription) -> None:
        """Wait until every topic of a subscription is reachable, or has nobody else for some cycles."""
        driver, since = self.driver, self.driver.peer_table.cycle
        patience = since + JOINING_CYCLES
        waits = self._expects()
        while waits:
            if not driver.joined.is_set() and driver.peer_table.cycle < patience:
                since = (
                    driver.peer_table.cycle
                )  # nobody has been met yet: whether anybody is there is not known
            mine = self._names_of(subscription)
            found = all(map(driver.is_ready, mine)) or (
                driver.peer_table.cycle - since >= self._alone_cycles
                and all(driver.is_ready(topic) or driver.is_alone(topic) for topic in mine)
            )
            if found:
                return
            if not await driver.next_cycle():
                raise ClosedError("the node was closed before the subscription was ready")

    def _names_of(self, subscription: Subscription) -> list[str]:
        """What the node takes part in for a subscription."""
        if subscription._wanted is not None and subscription._wanted.is_routed:
            return sorted(subscription._wanted.names)
        return [topic for topic, subscriptions in self.by_topic.items() if subscription in subscriptions]

    async def caught_up(self, topic: str) -> None:
        """See ``Node.caught_up``."""
        driver, streams = self.driver, self.driver.streams
        since = driver.peer_table.cycle
        while streams.is_alone(topic) and driver.peer_table.cycle - since < JOINING_CYCLES:
            if not await driver.next_cycle():
                return
        since = driver.peer_table.cycle
        while driver.peer_table.cycle - since < self._alone_cycles or not streams.repair.is_level(topic):
            if not await driver.next_cycle():
                return

    # Events that come.

    def take(self, signed: SignedEvent, hops: int) -> None:
        """Give an event to its readers."""
        topic = signed.record.topic
        self._offer(signed, hops, [*self.by_topic.get(topic, ()), *self._routed.get(topic, ())])

    def _offer(self, signed: SignedEvent, hops: int, subscriptions: list[Subscription]) -> None:
        event = Event(signed, hops)
        if not subscriptions:
            self.unread += 1
        for subscription in subscriptions:
            if not subscription._offer(event):
                self.driver.counters["dropped: subscriber too slow"] += 1

    def read(self, signed: SignedEvent, hops: int, position: int) -> None:
        """Give an event of a stream to its readers; at position 0, to those who have it for its content."""
        if not position:
            if not self._replay_window.is_new(signed.record.publisher, signed.record.sequence):
                self.driver.counters["refused: event replayed"] += 1
                return
            self._offer(signed, hops, self._routed.get(signed.record.topic, []))
            return
        subscriptions = self.by_topic.get(signed.record.topic)
        if not subscriptions:
            self.unread += 1
            return
        for subscription in subscriptions:
            subscription._read(signed, hops, position)

    # In the background.

    async def keep_following(self) -> None:
        """Look at each cycle whether patterns ask for more topics."""
        while await self.driver.next_cycle():
            self._follow_patterns()

    def _follow_patterns(self) -> None:
        """Read topics that a pattern asks for and that have become known."""
        known = self.driver.peer_table.topics.known() if self._patterns else []
        for subscription in self._patterns:
            missing = [
                name
                for name in subscription._pattern.choose(known)
                if subscription not in self.by_topic.get(name, ())
            ]
            if missing and not self._read(missing, subscription):
                self.driver.counters["refused: no room for a topic of a pattern"] += 1
