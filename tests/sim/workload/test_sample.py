"""Samples: breadth first, all edges kept, numbers that tell nothing, and every workload by its name."""

import hashlib
from collections import deque
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vinecast.core.arrays.topic_overlap import TOPICS_MAX
from vinecast.core.draws import SEED_MAX
from vinecast.core.errors import InputError
from vinecast.sim.workload.edges import Edges, read_edges
from vinecast.sim.workload.sample import FILES, WORKLOADS, breadth_first, load_workload, renumbered, sampled
from vinecast.sim.workload.subscriptions import Subscriptions, describe, pattern, subscribe

MADE = [name for name in WORKLOADS if name not in FILES]


def graph(nodes: int, pairs: set[tuple[int, int]]) -> Edges:
    ordered = np.array(sorted(pair for pair in pairs if pair[0] != pair[1]), dtype=np.int64).reshape(-1, 2)
    return Edges(ordered[:, 0], ordered[:, 1], np.arange(nodes), 0, 0)


def pairs_of(subscriptions: Subscriptions) -> set[tuple[int, int]]:
    return {(n, t) for n in range(subscriptions.nodes) for t in subscriptions.of(n).tolist()}


def digest(subscriptions: Subscriptions) -> str:
    return hashlib.sha256(subscriptions.start.tobytes() + subscriptions.topics.tobytes()).hexdigest()


@st.composite
def graphs(draw: st.DrawFn) -> Edges:
    nodes = draw(st.integers(1, 25))
    user = st.integers(0, nodes - 1)
    return graph(nodes, draw(st.sets(st.tuples(user, user), max_size=40)))


seeds = st.integers(0, SEED_MAX)


@given(edges=graphs(), seed=seeds, starts=st.integers(1, 6), data=st.data())
def test_a_search_is_that_of_the_textbook(edges: Edges, seed: int, starts: int, data: st.DataObject) -> None:
    """Replayed with sets and lists from the start users that it took."""
    nodes = data.draw(st.integers(0, edges.nodes))
    found = breadth_first(edges, nodes, seed, starts).tolist()
    assert len(set(found)) == len(found) == nodes
    near: dict[int, set[int]] = {user: set() for user in range(edges.nodes)}
    for a, b in zip(edges.source.tolist(), edges.target.tolist(), strict=True):
        near[a].add(b)
        near[b].add(a)
    first = breadth_first(edges, edges.nodes, seed, starts).tolist()[: min(starts, edges.nodes)]
    order, queue = list(first), deque(first)
    while len(order) < nodes:
        if queue:
            fresh = sorted(near[queue.popleft()] - set(order))
        else:
            fresh = [found[len(order)]]  # any user of a component that nobody has entered
            assert not near[fresh[0]] & set(order)
        order += fresh
        queue.extend(fresh)
    assert order[:nodes] == found


def test_a_search_takes_the_nearest_first() -> None:
    line = graph(50, {(i, i + 1) for i in range(49)})
    found = breadth_first(line, 50, 3, starts=1)
    distance = np.abs(found - found[0])
    assert (np.diff(distance) >= 0).all()
    assert len({int(breadth_first(line, 1, seed)[0]) for seed in range(30)}) > 10


@pytest.mark.parametrize(("nodes", "starts", "words"), [(3, 1, "2 users"), (-1, 1, "2 users"), (1, 0, "one")])
def test_a_search_that_cannot_be(nodes: int, starts: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        breadth_first(graph(2, {(0, 1)}), nodes, 1, starts)


@given(edges=graphs(), seed=seeds, directed=st.booleans(), data=st.data())
def test_a_sample_keeps_all_edges_among_its_users(
    edges: Edges, seed: int, directed: bool, data: st.DataObject
) -> None:
    nodes = data.draw(st.integers(1, edges.nodes))
    users = breadth_first(edges, nodes, seed).tolist()
    wanted = {
        (users.index(a), users.index(b))
        for a, b in zip(edges.source.tolist(), edges.target.tolist(), strict=True)
        if a in users and b in users
    }
    found = sampled(edges, nodes, seed, directed)
    assert (found.nodes, found.topic_count) == (nodes, nodes)
    assert pairs_of(found) == (wanted if directed else wanted | {(b, a) for a, b in wanted})


@given(edges=graphs(), seed=seeds)
def test_new_numbers_are_a_permutation_of_users_and_topics(edges: Edges, seed: int) -> None:
    before = sampled(edges, edges.nodes, seed, directed=True)
    one = renumbered(subscribe(np.arange(edges.nodes), np.arange(edges.nodes), *[edges.nodes] * 2), seed)
    assert pairs_of(one) == {(n, n) for n in range(edges.nodes)}
    after = renumbered(before, seed)
    assert sorted(np.diff(after.start)) == sorted(np.diff(before.start))
    assert sorted(np.diff(after.by_topic()[0])) == sorted(np.diff(before.by_topic()[0]))
    mutual = [{(a, b) for a, b in pairs_of(s) if (b, a) in pairs_of(s)} for s in (before, after)]
    assert len(mutual[0]) == len(mutual[1])


def test_topics_that_are_no_users_keep_their_numbers() -> None:
    before = pattern("high", 1, 50, topics=1000, subscriptions=10)
    after = renumbered(before, 1)
    assert np.array_equal(after.by_topic()[0], before.by_topic()[0])
    assert not np.array_equal(after.topics, before.topics)


def test_neighbours_in_number_share_no_more_than_others() -> None:
    subscriptions = load_workload("synthetic", 1000, 1, None)
    own = [set(subscriptions.of(n).tolist()) for n in range(1000)]
    beside = np.mean([len(own[i] & own[i + 1]) / len(own[i] | own[i + 1]) for i in range(999)])
    assert beside < 1.3 * describe(subscriptions)["jaccard_random"]


@pytest.mark.parametrize("nodes", [3, 10, 300, 2000])
def test_the_synthetic_workload_fits_its_size(nodes: int) -> None:
    figures = describe(load_workload("synthetic", nodes, 1, None))
    assert figures["topics"] == nodes
    assert figures["subscriptions_mean"] == pytest.approx(0.8 * nodes**0.5, rel=0.1)


def test_the_synthetic_workload_of_the_papers_size() -> None:
    figures = describe(load_workload("synthetic", 10_000, 1, None))
    assert figures["subscriptions_mean"] == pytest.approx(80, rel=0.01)
    assert figures["subscriptions_max"] <= TOPICS_MAX / 2
    assert figures["jaccard_sharing"] > 4 * figures["jaccard_random"]


@pytest.mark.parametrize("kind", ["random", "low", "high"])
@pytest.mark.parametrize(("nodes", "each"), [(2, 10), (300, 10), (2000, 20), (10_000, 50), (50_000, 50)])
def test_the_patterns_fit_their_size(kind: str, nodes: int, each: int) -> None:
    subscriptions = load_workload(kind, nodes, 1, None)
    assert (np.diff(subscriptions.start) == each).all()
    assert subscriptions.topic_count == 100 * each


@pytest.mark.parametrize("name", MADE)
def test_the_same_seed_is_the_same_workload(name: str) -> None:
    once, again, other = (digest(load_workload(name, 200, seed, None)) for seed in (1, 1, 2))
    assert once == again != other


@pytest.mark.parametrize("name", FILES)
def test_a_graph_without_its_data(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=f'"{name}" needs {FILES[name][0]}.*--data DIR'):
        load_workload(name, 100, 1, None)
    with pytest.raises(InputError, match=f"{FILES[name][0]}, which is not in .*--data DIR"):
        load_workload(name, 100, 1, tmp_path)
    with pytest.raises(InputError, match="--data DIR"):
        load_workload(name, 100, 1, tmp_path / "nowhere")


def test_more_nodes_than_the_graph_has(tmp_path: Path) -> None:
    (tmp_path / "twitter-bofa.txt.gz").write_text("1 2\n2 3\n", encoding="utf-8")
    assert pairs_of(load_workload("twitter", 3, 1, tmp_path)) < {(a, b) for a in range(3) for b in range(3)}
    with pytest.raises(InputError, match="has only 3 users, not 4"):
        load_workload("twitter", 4, 1, tmp_path)


def test_a_workload_that_nobody_knows() -> None:
    with pytest.raises(InputError, match=r'one of "facebook", .*, not "friendster"'):
        load_workload("friendster", 100, 1, None)
    with pytest.raises(InputError, match="at least three nodes"):
        load_workload("synthetic", 2, 1, None)


@pytest.mark.parametrize(
    ("name", "mean", "most"), [("facebook", 95, 2500), ("slashdot", 32, 2600), ("twitter", 6, 4000)]
)
def test_samples_of_the_real_graphs(data_folder: Path, name: str, mean: float, most: int) -> None:
    """The means are those that the data's own notes give for samples of 10,000."""
    file, directed = FILES[name]
    figures = describe(sampled(read_edges(data_folder / file), 10_000, 1, directed))
    assert figures["subscriptions_mean"] == pytest.approx(mean, rel=0.25)
    assert figures["subscriptions_max"] <= most
    loaded = load_workload(name, 500, 1, data_folder)
    assert digest(loaded) == digest(load_workload(name, 500, 1, data_folder))
    assert digest(loaded) != digest(load_workload(name, 500, 2, data_folder))


def test_a_pattern_with_topics_and_subscriptions_of_ones_own() -> None:
    found = load_workload("random", 40, 1, None, topics=30, subscriptions=7)
    assert found.topic_count == 30
    assert set(np.diff(found.start)) == {7}


def test_a_synthetic_workload_with_a_mean_of_ones_own() -> None:
    found = load_workload("synthetic", 2000, 1, None, subscriptions=15)
    assert 12 < found.count / found.nodes < 18


@pytest.mark.parametrize(
    ("name", "chosen", "words"),
    [
        ("random", {"topics": 10, "subscriptions": 20}, "nobody can have 20 subscriptions to 10 topics"),
        ("facebook", {"subscriptions": 20}, "they are the file's"),
        ("synthetic", {"topics": 20}, "they come with it"),
        ("myspace", {"topics": 20, "subscriptions": 3}, "not both"),
    ],
)
def test_what_cannot_be_chosen_is_refused(name: str, chosen: dict[str, int], words: str) -> None:
    with pytest.raises(InputError, match=words):
        load_workload(name, 40, 1, None, **chosen)
