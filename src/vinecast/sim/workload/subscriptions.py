"""Workloads: who subscribes to what.

Vitis is evaluated with three synthetic patterns of 50 out of 5,000 topics (S2 §3.6.1): uniformly random, or
gathered in 5 (*low* correlation) or 2 (*high*) out of 100 buckets of topics. Every topic is equally popular
in all three; only the overlap of interests differs. The buckets are the same for all: blocks of topics.

The fourth workload stands in for Twitter (S2 §3.6.5; S0 §6.1): every user is a topic, and a user subscribes
to those it follows. In- and out-degrees follow a power law with an exponent of about 1.65 and a mean of 87.9;
their standard deviations are 982 and 414 among 2.4 million users. A power law alone cannot have all three, so
we take P(k) ∝ (k + shift)^−exponent · exp(−k / cutoff), 1 ≤ k < nodes, and solve for the shift, which makes
the mean, and the cutoff, which makes the deviation. Few nodes have no room for such a tail: then the cutoff
is infinite, mean and exponent stay, and the deviation is what it is; ``describe`` tells.

A user draws its followees one after the other, never the same twice, in proportion to their popularity, which
is drawn from the in-degree model. A share ``locality`` of the draws is confined to its own community, a block
of ``community`` users; the others go to all users, so that hubs are popular everywhere.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar
from scipy.sparse import csr_array
from scipy.special import zeta

from vinecast.core.draws import below_array, purpose, shuffled, stream, substream_array, unit_array
from vinecast.core.errors import InputError

BUCKETS = 100  # S2 §3.6.1
BUCKETS_PER_NODE = {"low": 5, "high": 2}  # S2 §3.6.1
K_MIN = 10  # ours: below it the shift bends the power law, from it on 2.4 million users give 1.65 and 1.62
JACCARD_PAIRS = 5_000  # ours: the mean is then good to a few per cent

_STEEPEST, _FLATTEST = -1 + 1e-9, 1e12  # shifts: nearly all degrees are 1, all degrees are nearly alike
_CHUNK = 4096  # ours: users whose draws are held at once; about 100 MB at the mean of Twitter
_HEAVY = 16  # ours: a user that wants more than a 16th of what it can reach rejects too often

_PATTERN = purpose("workload.pattern")
_FOLLOW = purpose("workload.follow")
_OUT_DEGREE = purpose("workload.out_degree")
_POPULARITY = purpose("workload.popularity")
_PAIRS = purpose("workload.pairs")


@dataclass(frozen=True, eq=False)
class Subscriptions:
    """The topics of every node, ascending and distinct within a node."""

    start: NDArray[np.int64]
    """[node + 1] where the topics of a node begin in ``topics``."""
    topics: NDArray[np.int32]
    """[subscription] the topic."""
    topic_count: int
    """Topics there are, subscribed to or not."""

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return self.start.size - 1

    @property
    def count(self) -> int:
        """The number of subscriptions, all nodes together."""
        return self.topics.size

    def of(self, node: int) -> NDArray[np.int32]:
        """The topics of one node. [subscription]"""
        return self.topics[self.start[node] : self.start[node + 1]]

    def by_topic(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The subscribers of every topic, ascending. → start [topic + 1], nodes [subscription]"""
        subscriber = np.repeat(np.arange(self.nodes, dtype=np.int32), np.diff(self.start))
        return _bounds(self.topics, self.topic_count), subscriber[np.argsort(self.topics, kind="stable")]


def subscribe(
    node: NDArray[np.int64], topic: NDArray[np.int64], nodes: int, topic_count: int
) -> Subscriptions:
    """Subscriptions from pairs in any order; a repeated pair counts once. node, topic: [pair]"""
    pair = np.sort(node * topic_count + topic)  # np.unique sorts too, but ten times slower
    owner, topics = np.divmod(pair[np.diff(pair, prepend=-1) > 0], topic_count)
    return Subscriptions(_bounds(owner, nodes), topics.astype(np.int32), topic_count)


def _bounds(group: NDArray[np.integer], groups: int) -> NDArray[np.int64]:
    """Where each group begins once the items stand in order of their groups. [group + 1]"""
    start = np.zeros(groups + 1, dtype=np.int64)
    np.cumsum(np.bincount(group, minlength=groups), out=start[1:])
    return start


def pattern(kind: str, seed: int, nodes: int, topics: int = 5000, subscriptions: int = 50) -> Subscriptions:
    """One of the patterns of S2 §3.6.1, "random", "low" or "high": ``subscriptions`` topics a node."""
    if kind != "random" and kind not in BUCKETS_PER_NODE:
        raise InputError(f'the pattern must be "random", "low" or "high", not "{kind}"')
    if min(nodes, topics, subscriptions) < 1:
        raise InputError("a pattern needs at least one node, one topic and one subscription")
    if subscriptions > topics:
        raise InputError(f"nobody can have {subscriptions} subscriptions to {topics} topics")
    if kind == "random":
        chosen = _sample(_keys(seed, _PATTERN, 0, np.arange(nodes)), topics, subscriptions)
    else:
        chosen = _sample_buckets(seed, nodes, topics, subscriptions, kind)
    start = np.arange(nodes + 1) * subscriptions
    return Subscriptions(start, np.sort(chosen, axis=1).ravel().astype(np.int32), topics)


def _sample_buckets(seed: int, nodes: int, topics: int, subscriptions: int, kind: str) -> NDArray[np.int64]:
    """Topics spread evenly over a few buckets of each node's choice. → [node, subscription]"""
    buckets = BUCKETS_PER_NODE[kind]
    size, each = topics // BUCKETS, subscriptions // buckets
    if topics % BUCKETS or subscriptions % buckets:
        raise InputError(
            f'the pattern "{kind}" needs topics that divide by {BUCKETS} and subscriptions that divide '
            f"by {buckets}, not {topics} and {subscriptions}"
        )
    if each > size:
        raise InputError(f'the pattern "{kind}" cannot take {each} topics from a bucket of {size}')
    number = np.arange(nodes)
    bucket = _sample(_keys(seed, _PATTERN, 1, number), BUCKETS, buckets)
    inner = _keys(seed, _PATTERN, 2, (number[:, None] * BUCKETS + bucket).ravel())
    within = _sample(inner, size, each).reshape(nodes, buckets, each)
    return (bucket[:, :, None] * size + within).reshape(nodes, subscriptions)


def _keys(seed: int, purpose_word: int, part: int, numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A key for every number; a workload has no cycles, so that word tells its parts apart."""
    return substream_array(stream(seed, purpose_word, part, 0), numbers)


def _sample(keys: NDArray[np.uint64], choices: int, count: int) -> NDArray[np.int64]:
    """``count`` different numbers below ``choices`` for every key, by Floyd's algorithm. → [key, count]"""
    chosen = np.full((keys.size, count), -1)
    for i, last in enumerate(range(choices - count, choices)):
        drawn = below_array(keys, np.array([i]), last + 1)
        taken = (chosen[:, :i] == drawn[:, None]).any(axis=1)
        chosen[:, i] = np.where(taken, last, drawn)
    return chosen


@dataclass(frozen=True)
class DegreeModel:
    """P(k) ∝ (k + shift)^−exponent · exp(−k / cutoff) for 1 ≤ k ≤ largest."""

    exponent: float
    shift: float
    cutoff: float
    largest: int

    def weigh(self, k: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(k) up to a constant factor; at most one, for the sums to stay finite."""
        log = -self.exponent * np.log(k + self.shift) - k / self.cutoff
        return np.asarray(np.exp(log - log[0]))

    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation."""
        k, width = _blocks(self.largest)
        share = width * self.weigh(k)
        share /= share.sum()
        mean = float(np.sum(share * k))
        return mean, math.sqrt(np.sum(share * (k - mean) ** 2))

    def draw(self, units: NDArray[np.float64]) -> NDArray[np.int64]:
        """A degree for every number in [0, 1)."""
        reach = np.cumsum(self.weigh(np.arange(1.0, self.largest + 1)))
        return np.asarray(np.searchsorted(reach[:-1], units * reach[-1], side="right") + 1)


@lru_cache(maxsize=8)
def _blocks(largest: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Degrees to sum over and how many each stands for: exact up to 4,096, then middles of blocks. → [block]

    Over a block 0.2 % wide a power law is all but straight: ten thousand terms are good to seven digits.
    """
    edges = [min(4096, largest) + 1]
    while edges[-1] <= largest:
        edges.append(min(edges[-1] + edges[-1] // 500, largest + 1))
    low, high = np.array(edges[:-1]), np.array(edges[1:])
    exact = np.arange(1, edges[0])
    return np.concatenate([exact, (low + high - 1) / 2]), np.concatenate([np.ones(exact.size), high - low])


def calibrate(mean: float, std: float, exponent: float, largest: int) -> DegreeModel:
    """The model with this mean and, where the largest degree leaves room for such a tail, this deviation."""
    if not (0 < exponent <= 10 and std > 0):
        raise InputError(f"no degree model has the exponent {exponent} and the standard deviation {std}")
    low, high = (DegreeModel(exponent, x, math.inf, largest).moments()[0] for x in (_STEEPEST, _FLATTEST))
    if not low < mean < high:
        raise InputError(f"degrees from 1 to {largest} have a mean above 1 and below {high:g}, not {mean}")

    def fit(log_cutoff: float) -> DegreeModel:
        return _fit_shift(mean, exponent, math.exp(log_cutoff), largest)

    def flat_mean(log_cutoff: float) -> float:
        return DegreeModel(exponent, _FLATTEST, math.exp(log_cutoff), largest).moments()[0]

    loosest = math.log(largest) + 15
    if std >= fit(loosest).moments()[1]:
        return _round(_fit_shift(mean, exponent, math.inf, largest))
    # A hair above the smallest cutoff that reaches the mean; the distribution is geometric there.
    tightest = brentq(lambda x: flat_mean(x) - mean, -10, loosest) + 1e-6
    if std <= (floor := fit(tightest).moments()[1]):
        raise InputError(f"degrees with a mean of {mean} deviate by more than {floor:.4g}, not {std}")
    return _round(fit(brentq(lambda x: fit(x).moments()[1] - std, tightest, loosest)))


def _fit_shift(mean: float, exponent: float, cutoff: float, largest: int) -> DegreeModel:
    """The model whose shift makes the mean."""

    def model(log: float) -> DegreeModel:
        return DegreeModel(exponent, math.expm1(log), cutoff, largest)

    log_shift = brentq(lambda x: model(x).moments()[0] - mean, math.log1p(_STEEPEST), math.log1p(_FLATTEST))
    return model(log_shift)


def _round(model: DegreeModel) -> DegreeModel:
    """To six digits: the last ones of a solver depend on the machine's mathematical library."""
    first, cutoff = (float(f"{x:.6g}") for x in (1 + model.shift, model.cutoff))
    return DegreeModel(model.exponent, first - 1, cutoff, model.largest)


@dataclass(frozen=True, eq=False)
class _Crowd:
    """Whom a user may follow, and with which chance."""

    reach: NDArray[np.float64]
    """[user + 1] the popularity of all users before this one."""
    locality: float
    community: int

    def pick(self, user: NDArray[np.int64], units: NDArray[np.float64]) -> NDArray[np.int64]:
        """Somebody for every user's draw, perhaps the user itself. [draw]"""
        everybody = self.reach.size - 1
        local = units < self.locality
        low = np.where(local, user - user % self.community, 0)
        high = np.where(local, np.minimum(low + self.community, everybody), everybody)
        share = np.where(local, units, units - self.locality)
        share /= np.where(local, self.locality, 1 - self.locality)
        point = self.reach[low] + share * (self.reach[high] - self.reach[low])
        return np.asarray(np.minimum(np.searchsorted(self.reach, point, side="right") - 1, high - 1))

    def chances(self, user: int) -> NDArray[np.float64]:
        """The chance of everybody in one draw of this user. [user]"""
        popularity = np.diff(self.reach)
        chances: NDArray[np.float64] = popularity * ((1 - self.locality) / self.reach[-1])
        own = slice(low := user - user % self.community, low + self.community)
        chances[own] += popularity[own] * (self.locality / popularity[own].sum())
        return chances


def follower_graph(
    seed: int,
    nodes: int,
    mean: float = 87.9,
    exponent: float = 1.65,
    std_in: float = 982.0,
    std_out: float = 414.0,
    locality: float = 0.92,
    community: int = 500,
) -> Subscriptions:
    """A synthetic Twitter: every node is a topic, and nobody follows oneself.

    Degrees are those of S2 §3.6.5. Locality and community are ours: at 10,000 nodes ``describe`` then finds a
    Jaccard similarity of 0.048 between nodes that share a topic and 0.008 between any two, a sixth. In
    samples of 10,000 users, taken breadth first as in S0 §6.1, it finds 0.044 and 0.007 (Facebook at Cornell)
    or 0.05 to 0.07 and 0.008 to 0.013 (Slashdot), a sixth as well. Who follows more people than there are in
    the community must look beyond it, so that about 0.4 of all subscriptions stay inside, not 0.92.

    Nobody follows a hub twice: among few nodes, the followers deviate much less than their popularity does.
    """
    if nodes < 2:
        raise InputError(f"a follower graph needs at least two nodes, not {nodes}")
    if not 0 <= locality < 1:
        raise InputError(f"the locality must be at least 0 and below 1, not {locality}")
    if community < 1:
        raise InputError(f"a community must have at least one user, not {community}")
    degree = calibrate(mean, std_out, exponent, nodes - 1).draw(_strata(seed, _OUT_DEGREE, nodes))
    popularity = calibrate(mean, std_in, exponent, nodes - 1).draw(_strata(seed, _POPULARITY, nodes))
    crowd = _Crowd(np.concatenate([[0.0], np.cumsum(popularity)]), locality, community)
    keys = _keys(seed, _FOLLOW, 0, np.arange(nodes))
    # Drawing again until it is somebody new is fast, but not for those who want nearly everybody.
    heavy = degree * _HEAVY > (1 - locality) * nodes
    light = np.flatnonzero(~heavy)
    pairs = [
        _follow_by_rejection(light[i : i + _CHUNK], degree, keys, crowd) for i in range(0, light.size, _CHUNK)
    ]
    pairs += [_follow_by_race(user, degree, keys, crowd) for user in np.flatnonzero(heavy).tolist()]
    follower, followed = np.concatenate(pairs, axis=1)
    return subscribe(follower, followed, nodes, nodes)


def _strata(seed: int, purpose_word: int, count: int) -> NDArray[np.float64]:
    """One number in each of ``count`` equal parts of [0, 1), in random order.

    Independent numbers would leave the mean of 10,000 heavy-tailed degrees off by several per cent.
    """
    part = shuffled(stream(seed, purpose_word, 0, 0), count)
    return (part + unit_array(stream(seed, purpose_word, 1, 0), np.arange(count))) / count


def _follow_by_rejection(
    users: NDArray[np.int64], degree: NDArray[np.int64], keys: NDArray[np.uint64], crowd: _Crowd
) -> NDArray[np.int64]:
    """The first ``degree`` different people that each user draws. → [follower and followed, pair]

    Draws are functions of their number, so a user who has too few simply starts over with twice as many.
    """
    nodes, done, draws = degree.size, [], 2
    while users.size:
        length = degree[users] * draws + draws
        user = np.repeat(users, length)
        turn = np.arange(user.size) - np.repeat(np.cumsum(length) - length, length)
        drawn = crowd.pick(user, unit_array(keys[user], turn))
        _, first = np.unique(user * nodes + drawn, return_index=True)
        first = np.sort(first[drawn[first] != user[first]])
        user, drawn = user[first], drawn[first]
        found = np.bincount(user, minlength=nodes)
        rank = np.arange(user.size) - (np.cumsum(found) - found)[user]
        kept = (rank < degree[user]) & (found >= degree)[user]
        done.append(np.stack([user[kept], drawn[kept]]))
        users = users[found[users] < degree[users]]
        draws *= 2
    return np.concatenate(done, axis=1)


def _follow_by_race(
    user: int, degree: NDArray[np.int64], keys: NDArray[np.uint64], crowd: _Crowd
) -> NDArray[np.int64]:
    """The same choice in one sweep over everybody. → [follower and followed, pair]

    Let everybody arrive after an exponential time with their chance as the rate: the order of arrival is
    distributed as the order of drawing without replacement (Efraimidis and Spirakis, IPL 2006).
    """
    arrival = -np.log1p(-unit_array(keys[user], np.arange(degree.size))) / crowd.chances(user)
    arrival[user] = np.inf
    count = int(degree[user])
    followed = np.argpartition(arrival, count - 1)[:count]
    return np.stack([np.full(count, user), followed])


def describe(subscriptions: Subscriptions) -> dict[str, float]:
    """A workload in figures, to hold against the published ones and those of real graphs.

    *Subscriptions* are counted over nodes, *followers* over topics. Interest locality is the mean Jaccard
    similarity |A ∩ B| / |A ∪ B| of the subscriptions of two nodes, over a keyed sample of pairs: *sharing*, a
    random node and another subscriber of a random one of its topics; *random*, any two nodes. What has no
    value here is nan.
    """
    figures = {"nodes": float(subscriptions.nodes), "topics": float(subscriptions.topic_count)}
    out_degree, in_degree = np.diff(subscriptions.start), np.diff(subscriptions.by_topic()[0])
    for name, degree in (("subscriptions", out_degree), ("followers", in_degree)):
        figures[f"{name}_mean"] = float(degree.mean())
        figures[f"{name}_std"] = float(degree.std())
        figures[f"{name}_max"] = float(degree.max())
        figures[f"{name}_exponent"] = fit_exponent(degree)
    figures["jaccard_sharing"] = _mean_similarity(subscriptions, *_sharing_pairs(subscriptions))
    figures["jaccard_random"] = _mean_similarity(subscriptions, *_random_pairs(subscriptions))
    return figures


def fit_exponent(degree: NDArray[np.int64]) -> float:
    """The discrete maximum likelihood of a power law from ``K_MIN`` up (Clauset, Shalizi, Newman 2009)."""
    tail = degree[degree >= K_MIN]
    if not tail.size:
        return math.nan
    mean_log = float(np.log(tail).mean())
    unlikely = minimize_scalar(lambda a: math.log(zeta(a, K_MIN)) + a * mean_log, bounds=(1.01, 10))
    return float(unlikely.x)


def _random_pairs(subscriptions: Subscriptions) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    nodes, i = subscriptions.nodes, np.arange(JACCARD_PAIRS if subscriptions.nodes > 1 else 0)
    a = below_array(stream(0, _PAIRS, 0, 0), i, nodes)
    return a, (a + 1 + below_array(stream(0, _PAIRS, 1, 0), i, nodes - 1)) % nodes


def _sharing_pairs(subscriptions: Subscriptions) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    degree, (start, subscriber) = np.diff(subscriptions.start), subscriptions.by_topic()
    active, i = np.flatnonzero(degree), np.arange(JACCARD_PAIRS if subscriptions.count else 0)
    a = active[below_array(stream(0, _PAIRS, 2, 0), i, active.size)]
    topic = subscriptions.topics[subscriptions.start[a] + below_array(stream(0, _PAIRS, 3, 0), i, degree[a])]
    others = start[topic + 1] - start[topic] - 1  # none: that topic makes no pair
    i, a, topic, others = (x[others > 0] for x in (i, a, topic, others))
    place = start[topic] + below_array(stream(0, _PAIRS, 4, 0), i, others)
    return a, subscriber[place + (subscriber[place] >= a)]  # subscribers ascend: step over a itself


def _mean_similarity(subscriptions: Subscriptions, a: NDArray[np.integer], b: NDArray[np.integer]) -> float:
    """The mean Jaccard similarity of pairs of nodes; none between two that subscribe to nothing."""
    if not a.size:
        return math.nan
    shape = (subscriptions.nodes, subscriptions.topic_count)
    matrix = csr_array((np.ones(subscriptions.count), subscriptions.topics, subscriptions.start), shape=shape)
    common: NDArray[np.float64] = matrix[a].multiply(matrix[b]).sum(axis=1)
    degree = np.diff(subscriptions.start)
    return float(np.mean(common / np.maximum(degree[a] + degree[b] - common, 1)))
