"""The Reddit workload of PulsarCast's own evaluation: a trace of users, what they read and what they wrote.

One JSON object a line. A topic, and the number of events it should have:

    {"type": "topic", "name": "science", "totalNumberEvents": 651, …}

A user, who is a node, with its subscriptions and the events it published, numbered over all users:

    {"type": "user", "name": "bostich", "subscriptions": {"science": true, …},
     "events": [{"internalId": 529, "topic": "science", …}, …]}

The numbers give an order and no times. Whatever else a line says (votes, authors) is passed over. The file is
read strictly: a line that is not as above is refused with its number and the reason.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vinecast.core.errors import InputError
from vinecast.sim.workload.publications import Publications
from vinecast.sim.workload.subscriptions import Subscriptions, subscribe
from vinecast.sim.workload.textfile import lines_of

FILE = "pulsarcast-reddit-17k.jsonl.gz"
"""Its name in the data folder."""


@dataclass(frozen=True, eq=False)
class RedditTrace:
    """Users are numbered as they come in the file, topics likewise."""

    users: tuple[str, ...]
    topics: tuple[str, ...]
    subscriptions: Subscriptions
    publications: Publications

    def take(self, nodes: int) -> "RedditTrace":
        """The first so many users, with what they wrote."""
        end = int(self.subscriptions.start[nodes])
        there = self.publications.publisher < nodes
        return RedditTrace(
            self.users[:nodes],
            self.topics,
            Subscriptions(
                self.subscriptions.start[: nodes + 1],
                self.subscriptions.topics[:end],
                self.subscriptions.topic_count,
            ),
            Publications(self.publications.publisher[there], self.publications.topic[there]),
        )


class _TraceLines:
    """What the lines of a trace said so far."""

    def __init__(self) -> None:
        self.topics: dict[str, int] = {}
        self.promised: list[int] = []
        self.users: dict[str, int] = {}
        self.subscriptions: list[tuple[int, str]] = []
        self.events: dict[int, tuple[int, str]] = {}
        """Number -> user and topic."""

    def add(self, line: str) -> None:
        """One more line. ValueError says what is wrong with it."""
        try:
            told = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"not valid JSON: {error}") from None
        match told:
            case {"type": "topic", "name": str(name), "totalNumberEvents": int(events)}:
                if name in self.topics:
                    raise ValueError(f"the topic {name!r} stands here twice")
                self.topics[name] = len(self.topics)
                self.promised.append(events)
            case {"type": "user", "name": str(name), "subscriptions": dict(wanted), "events": list(events)}:
                self._add_user(name, wanted, events)
            case _:
                raise ValueError("neither a topic nor a user with subscriptions and events")

    def _add_user(self, name: str, wanted: dict[str, Any], events: list[Any]) -> None:
        if name in self.users:
            raise ValueError(f"the user {name!r} stands here twice")
        user = self.users[name] = len(self.users)
        for topic, reads in wanted.items():
            if not isinstance(reads, bool):
                raise ValueError(f"the subscription to {topic!r} must be true or false")
            if reads:
                self.subscriptions.append((user, topic))
        for event in events:
            match event:
                case {"internalId": int(number), "topic": str(topic)} if number >= 0:
                    if number in self.events:
                        raise ValueError(f"the event {number} stands here twice")
                    self.events[number] = user, topic
                case _:
                    raise ValueError("an event needs a number and a topic")


def read_reddit(path: Path) -> RedditTrace:
    """Read a trace, plain or gzipped."""
    lines = _TraceLines()
    for number, line in lines_of(path, comments=()):
        try:
            lines.add(line)
        except ValueError as error:
            raise InputError(f"{path}:{number}: {error}") from None
    if not lines.users:
        raise InputError(f"{path}: the trace has no user")
    topics = lines.topics
    named = [topic for _, topic in (*lines.subscriptions, *lines.events.values())]
    for topic in named:
        if topic not in topics:
            raise InputError(f"{path}: the topic {topic!r} has no line of its own")
    reader = np.array([user for user, _ in lines.subscriptions], dtype=np.int64)
    read = np.array([topics[topic] for _, topic in lines.subscriptions], dtype=np.int64)
    events = [lines.events[number] for number in sorted(lines.events)]
    publications = Publications(
        np.array([user for user, _ in events], dtype=np.int64),
        np.array([topics[topic] for _, topic in events], dtype=np.int64),
    )
    for name, has in zip(topics, np.bincount(publications.topic, minlength=len(topics)), strict=True):
        if has != lines.promised[topics[name]]:
            raise InputError(
                f"{path}: the topic {name!r} has {has:,} events, not {lines.promised[topics[name]]:,}"
            )
    found = subscribe(reader, read, len(lines.users), max(len(topics), 1))
    return RedditTrace(tuple(lines.users), tuple(topics), found, publications)
