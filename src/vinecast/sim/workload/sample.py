"""Samples: from a social graph, or a name, to the subscriptions of a population.

S0 §6.1 draws its workloads from graphs that are too large to simulate: from a few random users it goes
breadth first until enough are found, and keeps *all* edges among them. For the search the graph is taken as
undirected, since from a user one comes to those it follows and to those who follow it alike; who follows whom
is kept as it was.

Peers are numbered in the order of their ids on the circle (core/arrays/profiles.py), and ids are random. So a
user's number must tell nothing about its place in the graph: both a breadth-first order and the communities
of a synthetic graph are broken up by a keyed permutation, ``renumbered``.
"""

import math
from collections import deque
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vinecast.core.draws import purpose, shuffled, stream
from vinecast.core.errors import InputError
from vinecast.sim.workload import myspace, reddit
from vinecast.sim.workload.edges import Edges, read_edges, subscriptions_from
from vinecast.sim.workload.publications import Publications
from vinecast.sim.workload.subscriptions import Subscriptions, follower_graph, pattern, subscribe
from vinecast.sim.workload.zipf import zipf_subscriptions

_STARTS = purpose("sample.starts")
_NUMBERS = purpose("sample.numbers")

FILES = {
    "facebook": ("facebook-cornell5.txt.gz", False),
    "slashdot": ("soc-Slashdot0902.txt.gz", True),
    "twitter": ("twitter-bofa.txt.gz", True),
    "reddit": (reddit.FILE, True),
}
"""What lies in the data folder by name: the file and, of a social graph, whether it is directed. Reddit's is
no graph but a trace of readers (sim/workload/reddit.py)."""

PATTERNS = ("random", "low", "high", "zipf", "myspace")
WORKLOADS = (*FILES, "synthetic", *PATTERNS)

TWITTER_MEAN = 87.9  # S2 §3.6.5


def start_order(seed: int, users: int) -> NDArray[np.int64]:
    """All users in the keyed random order in which searches start from them; numbers ascend with names."""
    return shuffled(stream(seed, _STARTS, 0, 0), users)


def random_numbers(seed: int, nodes: int) -> NDArray[np.int64]:
    """For each user of a sample, in the order found, the number that it gets. [node]"""
    return shuffled(stream(seed, _NUMBERS, 0, 0), nodes)


def breadth_first(edges: Edges, nodes: int, seed: int, starts: int = 5) -> NDArray[np.int64]:
    """The first ``nodes`` users that a breadth-first search finds, in the order found.

    It begins with ``starts`` random users in its queue and meets neighbours in ascending order of their
    numbers. When the queue is empty, whole components are exhausted; then one more random user is taken.
    """
    if starts < 1:
        raise InputError(f"a search needs at least one user to start from, not {starts}")
    if not 0 <= nodes <= edges.nodes:
        raise InputError(f"the graph has {edges.nodes:,} users, not {nodes:,}")
    friends = subscriptions_from(edges, directed=False)
    fresh = np.ones(edges.nodes, dtype=np.bool_)
    found: list[int] = []
    queue: deque[int] = deque()

    def meet(users: NDArray[np.int64] | NDArray[np.int32]) -> None:
        users = users[fresh[users]]
        fresh[users] = False
        found.extend(users.tolist())
        queue.extend(users.tolist())

    order = start_order(seed, edges.nodes)
    meet(order[:starts])
    later = iter(order[starts:, None])
    while len(found) < nodes:
        meet(friends.of(queue.popleft()) if queue else next(later))
    return np.array(found[:nodes], dtype=np.int64)


def sampled(edges: Edges, nodes: int, seed: int, directed: bool) -> Subscriptions:
    """A breadth-first sample with all edges among its users; users are numbered in the order found."""
    users = breadth_first(edges, nodes, seed)
    number = np.full(edges.nodes, -1, dtype=np.int64)
    number[users] = np.arange(nodes)
    follower, followed = number[edges.source], number[edges.target]
    inside = (follower >= 0) & (followed >= 0)
    follower, followed = follower[inside], followed[inside]
    if not directed:
        follower, followed = np.concatenate([follower, followed]), np.concatenate([followed, follower])
    return subscribe(follower, followed, nodes, nodes)


def renumbered(subscriptions: Subscriptions, seed: int) -> Subscriptions:
    """The same subscriptions under numbers that tell nothing; where users are topics, topics go with them."""
    nodes, topic_count = subscriptions.nodes, subscriptions.topic_count
    number = random_numbers(seed, nodes)
    node = number[np.repeat(np.arange(nodes), np.diff(subscriptions.start))]
    topic = subscriptions.topics.astype(np.int64)
    return subscribe(node, number[topic] if topic_count == nodes else topic, nodes, topic_count)


def load_workload(
    name: str,
    nodes: int,
    seed: int,
    data: Path | None,
    topics: int | None = None,
    subscriptions: int | None = None,
) -> Subscriptions:
    """The subscriptions of so many nodes, by the name of the workload; ``data`` is the folder with graphs.

    ``topics`` (of a pattern) and ``subscriptions`` of each node (of a pattern, or on average of a synthetic
    graph) follow from the number of nodes unless given. A real graph has its own.
    """
    if subscriptions is not None and name in FILES:
        raise InputError(f'subscriptions cannot be chosen for the workload "{name}": they are the file\'s')
    if topics is not None and name not in PATTERNS:
        raise InputError(f'topics cannot be chosen for the workload "{name}": they come with it')
    if name == "reddit":
        return reddit_workload(nodes, seed, data)[0]
    if name in FILES:
        return renumbered(_from_graph(name, nodes, seed, data), seed)
    if name == "synthetic":
        return renumbered(synthetic(seed, nodes, subscriptions), seed)
    if name == "myspace":
        return myspace.groups(seed, nodes, topics, subscriptions)
    if name in PATTERNS:
        return scaled_pattern(name, seed, nodes, topics, subscriptions)
    known = ", ".join(f'"{known}"' for known in WORKLOADS)
    raise InputError(f'the workload must be one of {known}, not "{name}"')


def reddit_workload(nodes: int, seed: int, data: Path | None) -> tuple[Subscriptions, Publications]:
    """The first so many users of the Reddit trace, what they read, and what they wrote."""
    path = _file_of("reddit", data)
    trace = reddit.read_reddit(path)
    _check_users("reddit", path, len(trace.users), nodes)
    trace = trace.take(nodes)
    number, wrote = random_numbers(seed, nodes), trace.publications
    reader = number[np.repeat(np.arange(nodes), np.diff(trace.subscriptions.start))]
    read = trace.subscriptions.topics.astype(np.int64)
    found = subscribe(reader, read, nodes, trace.subscriptions.topic_count)
    return found, Publications(number[wrote.publisher], wrote.topic)


def _from_graph(name: str, nodes: int, seed: int, data: Path | None) -> Subscriptions:
    path = _file_of(name, data)
    edges = read_edges(path)
    _check_users(name, path, edges.nodes, nodes)
    return sampled(edges, nodes, seed, directed=FILES[name][1])


def _file_of(name: str, data: Path | None) -> Path:
    file = FILES[name][0]
    if data is None:
        raise InputError(f'the workload "{name}" needs {file}: give the folder that holds it with --data DIR')
    path = data / file
    if not path.is_file():
        raise InputError(f'the workload "{name}" needs {file}, which is not in {data} (--data DIR)')
    return path


def _check_users(name: str, path: Path, users: int, nodes: int) -> None:
    if nodes > users:
        raise InputError(f'the workload "{name}" ({path}) has only {users:,} users, not {nodes:,}')


def synthetic(seed: int, nodes: int, mean: float | None = None) -> Subscriptions:
    """A follower graph for any number of nodes, from three up.

    Unless given, the mean is 0.8 · √nodes, but no more than Twitter's 87.9 (ours): 80 among 10,000, 36 among
    2,000, 14 among 300. A mean that stayed would leave few nodes no room for a tail. Subscriptions deviate by
    twice the mean, as in a sample of Slashdot: with Twitter's 414, one node in 10,000 would follow nearly
    everybody.
    A community is a twentieth of all nodes, 500 at the most.
    """
    if nodes < 3:
        raise InputError(f'the workload "synthetic" needs at least three nodes, not {nodes}')
    mean = mean or min(0.8 * math.sqrt(nodes), TWITTER_MEAN)
    community = min(max(nodes // 20, 2), 500)
    return follower_graph(seed, nodes, mean=mean, std_out=2 * mean, community=community)


def scaled_pattern(
    kind: str, seed: int, nodes: int, topics: int | None = None, subscriptions: int | None = None
) -> Subscriptions:
    """A pattern of S2 §3.6.1, or Zipf's, for any number of nodes: everyone subscribes to a hundredth of the
    topics.

    Half of √nodes subscriptions each, in steps of ten, for buckets to divide them, from 10 to the paper's 50
    among 10,000 nodes (S2: 5,000 topics). Ours: it keeps topics from thinning out as quickly as nodes do.
    """
    if subscriptions is None:
        subscriptions = min(max(10 * round(math.sqrt(nodes) / 20), 10), 50)
    topics = topics or 100 * subscriptions
    if kind == "zipf":
        return zipf_subscriptions(seed, nodes, topics, subscriptions)
    return pattern(kind, seed, nodes, topics, subscriptions)
