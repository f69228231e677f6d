"""The numbers of topics that a node carries for others.

A node has a place in trees, or on relay paths, of topics that it does not subscribe to, and that nobody it
knows does. The number of such a topic is taken when a message names it, and kept as long as the node has a
place there.
"""

from collections.abc import Callable, Iterable

from vinecast.peer.table.topic_numbers import TopicNumbers


class RelayedTopics:
    """The topics that one node relays. ``carries(number)``: whether it has a place in a topic."""

    def __init__(self, topics: TopicNumbers, carries: Callable[[int], bool]) -> None:
        self._topics, self._carries = topics, carries
        self._in_hand: list[int] = []
        """Taken for what is being handled."""
        self._held: set[int] = set()
        """Kept for a place in the topic."""

    def number_of(self, name: str) -> int | None:
        """The number of a topic, taken until ``release``; None when there is no room for one more."""
        number = self._topics.take(name, mine=False)
        if number is not None:
            self._in_hand.append(number)
        return number

    def member(self, name: str) -> int | None:
        """The number of a topic in which this node has a place."""
        number = self._topics.number_of(name)
        return number if number is not None and self._carries(number) else None

    def keep(self, number: int) -> None:
        """Keep a number if the node has a place in its topic."""
        name = self._topics.names[number]
        if name is not None:
            self._topics.take(name)
            self._in_hand.append(number)
            self.release()

    def release(self) -> None:
        """Let go of what was taken, but for topics in which the node has a place now."""
        while self._in_hand:
            number = self._in_hand.pop()
            if number not in self._held and self._carries(number):
                self._held.add(number)
            else:
                self._topics.leave(number)

    def sweep(self) -> None:
        """Let go of topics in which it has no place any more."""
        for number in [number for number in sorted(self._held) if not self._carries(number)]:
            self._held.discard(number)
            self._topics.leave(number)

    def name_of(self, number: int) -> str:
        """The name of a topic that is held or in hand."""
        name = self._topics.names[number]
        assert name is not None
        return name

    def names_of(self, numbers: Iterable[int]) -> tuple[str, ...]:
        """The names of such topics."""
        return tuple([self.name_of(number) for number in numbers])
