"""The overlay's measures: on graphs known by heart, and against slow and obvious twins."""

from collections import deque
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from vinecast.core.draws import below, purpose, stream, substream
from vinecast.core.errors import InputError
from vinecast.core.machine import NOBODY
from vinecast.core.rule import word
from vinecast.sim.measure.overlay import Components, Overlay, OverlayStats, PathLength, measure, random_views

SEED = 20050601
ALL = 10**9


def to_views(rows: list[list[int]]) -> NDArray[np.int32]:
    """Ragged rows as [node, slot]."""
    views = np.full((len(rows), max(map(len, rows), default=0)), NOBODY, dtype=np.int32)
    for node, row in enumerate(rows):
        views[node, : len(row)] = row
    return views


def overlay_of(rows: list[list[int]], *, offline: tuple[int, ...] = ()) -> Overlay:
    return Overlay.of(
        to_views(rows), np.array([node not in offline for node in range(len(rows))], dtype=np.bool_)
    )


# Graphs known by heart.


def ring(nodes: int) -> list[list[int]]:
    return [[(node + 1) % nodes] for node in range(nodes)]


def complete(nodes: int) -> list[list[int]]:
    return [[other for other in range(nodes) if other != node] for node in range(nodes)]


def test_ring() -> None:
    overlay = overlay_of(ring(8))
    assert overlay.in_degrees().tolist() == np.diff(overlay.links.indptr).tolist() == [1] * 8
    assert overlay.components() == Components(1, 8)
    assert overlay.clustering(ALL, SEED) == 0
    # Undirected: two nodes each at 1, 2 and 3 hops, one at 4.
    assert overlay.path_length(ALL, SEED) == PathLength(16 / 7, 0.0)


def test_complete_graph() -> None:
    overlay = overlay_of(complete(6))
    assert overlay.in_degrees().tolist() == np.diff(overlay.links.indptr).tolist() == [5] * 6
    assert overlay.clustering(ALL, SEED) == 1
    assert overlay.path_length(ALL, SEED) == PathLength(1.0, 0.0)


def test_star() -> None:
    leaves = 5
    overlay = overlay_of([[]] + [[0]] * leaves)
    assert overlay.in_degrees().tolist() == [leaves] + [0] * leaves
    assert np.diff(overlay.links.indptr).tolist() == [0] + [1] * leaves
    assert overlay.empty_views == 1
    assert overlay.components() == Components(1, leaves + 1)
    assert overlay.clustering(ALL, SEED) == 0
    # Ten ordered pairs with the hub at one hop, twenty among leaves at two.
    assert overlay.path_length(ALL, SEED) == PathLength(50 / 30, 0.0)


def test_triangle_with_a_tail() -> None:
    overlay = overlay_of([[1], [2], [0, 3], []])
    # The two free corners see one triangle each; one pair of three of node 2's neighbours is linked.
    assert overlay.clustering(ALL, SEED) == pytest.approx((1 + 1 + 1 / 3 + 0) / 4)


def test_two_components() -> None:
    overlay = overlay_of([[1], [2], [0], [4], [3]])
    assert overlay.components() == Components(2, 3)
    paths = overlay.path_length(ALL, SEED)
    assert paths == PathLength(1.0, 12 / 20)


def test_dead_links_are_counted_and_left_out() -> None:
    overlay = overlay_of([[1, 2], [2, 3], [0], [2], []], offline=(2,))
    assert overlay.online == 4
    assert overlay.dead_links == 3
    assert overlay.empty_views == 1  # node 4; node 3 has a view, if a dead one
    assert np.diff(overlay.links.indptr).tolist() == [1, 1, 0, 0]
    assert overlay.in_degrees().tolist() == [0, 1, 1, 0]
    assert overlay.components() == Components(2, 3)


def test_mutual_and_repeated_links_and_self_links_join_two_nodes_once() -> None:
    overlay = overlay_of([[1, 1, 0], [2, 0], [0]])
    assert np.diff(overlay.links.indptr).tolist() == [3, 2, 1]
    assert overlay.undirected.toarray().tolist() == [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    assert overlay.clustering(ALL, SEED) == 1


def test_more_sources_than_bits_in_a_word() -> None:
    nodes = 150
    expected = sum(min(hops, nodes - hops) for hops in range(1, nodes)) / (nodes - 1)
    overlay = overlay_of(ring(nodes))
    assert overlay.path_length(ALL, SEED) == PathLength(expected, 0.0)
    assert overlay.path_length(100, SEED) == PathLength(expected, 0.0)  # every node of a ring sees the same


# Slow and obvious twins.


def neighbours_slowly(rows: list[list[int]], online: list[bool]) -> dict[int, set[int]]:
    neighbours: dict[int, set[int]] = {node: set() for node, up in enumerate(online) if up}
    for node, row in enumerate(rows):
        for other in row:
            if other != NOBODY and online[node] and online[other] and other != node:
                neighbours[node].add(other)
                neighbours[other].add(node)
    return neighbours


def clustering_slowly(neighbours: dict[int, set[int]]) -> float:
    coefficients = []
    for own in neighbours.values():
        pairs = list(combinations(sorted(own), 2))
        coefficients.append(sum(b in neighbours[a] for a, b in pairs) / len(pairs) if pairs else 0.0)
    return sum(coefficients) / len(coefficients) if coefficients else 0.0


def path_length_slowly(neighbours: dict[int, set[int]]) -> PathLength:
    hops = reached = 0
    for source in neighbours:
        distance = {source: 0}
        queue = deque([source])
        while queue:
            node = queue.popleft()
            for other in neighbours[node] - distance.keys():
                distance[other] = distance[node] + 1
                queue.append(other)
        hops += sum(distance.values())
        reached += len(distance) - 1
    pairs = len(neighbours) * (len(neighbours) - 1)
    return PathLength(hops / reached if reached else None, (pairs - reached) / pairs if pairs else 0.0)


def components_slowly(neighbours: dict[int, set[int]]) -> Components:
    parent = {node: node for node in neighbours}

    def root(node: int) -> int:
        return node if parent[node] == node else root(parent[node])

    for node, others in neighbours.items():
        for other in others:
            parent[root(node)] = root(other)
    roots = [root(node) for node in neighbours]
    return Components(len(set(roots)), max((roots.count(r) for r in roots), default=0))


def measure_slowly(rows: list[list[int]], online: list[bool]) -> OverlayStats:
    up = [node for node, is_up in enumerate(online) if is_up]
    links = [(node, other) for node in up for other in rows[node] if other != NOBODY and online[other]]
    degrees = [sum(other == node for _, other in links) for node in up] or [0]
    mean = sum(degrees) / len(degrees)
    neighbours = neighbours_slowly(rows, online)
    components = components_slowly(neighbours)
    paths = path_length_slowly(neighbours)
    return OverlayStats(
        online=len(up),
        in_degree_mean=mean,
        in_degree_std=(sum((degree - mean) ** 2 for degree in degrees) / len(degrees)) ** 0.5,
        in_degree_min=min(degrees),
        in_degree_max=max(degrees),
        out_degree_mean=len(links) / max(len(up), 1),
        dead_links=sum(other != NOBODY and not online[other] for node in up for other in rows[node]),
        empty_views=sum(all(other == NOBODY for other in rows[node]) for node in up),
        components=components.count,
        largest_component=components.largest,
        clustering=clustering_slowly(neighbours),
        path_length=paths.mean,
        unreachable=paths.unreachable,
    )


@st.composite
def populations(draw: st.DrawFn) -> tuple[list[list[int]], list[bool]]:
    """Views with holes anywhere, and now and then with what should not be there: itself, or a node twice."""
    nodes = draw(st.integers(1, 12))
    slots = draw(st.integers(0, 5))
    entry = st.integers(NOBODY, nodes - 1)
    rows = draw(st.lists(st.lists(entry, min_size=slots, max_size=slots), min_size=nodes, max_size=nodes))
    return rows, draw(st.lists(st.booleans(), min_size=nodes, max_size=nodes))


@given(populations())
def test_measures_agree_with_slow_twins(population: tuple[list[list[int]], list[bool]]) -> None:
    rows, online = population
    views = np.array(rows, dtype=np.int32).reshape(len(rows), -1)
    fast = measure(views, np.array(online), seed=SEED, clustering_sample=ALL, path_sources=ALL)
    slow = measure_slowly(rows, online)
    for field, expected in vars(slow).items():
        assert getattr(fast, field) == (expected if expected is None else pytest.approx(expected)), field


def test_samples_estimate_and_repeat() -> None:
    overlay = Overlay.of(random_views(SEED, 1000, 10), np.ones(1000, dtype=np.bool_))
    exact = overlay.clustering(ALL, SEED)
    assert overlay.clustering(1000, SEED) == exact
    assert overlay.clustering(300, SEED) == pytest.approx(exact, rel=0.15)
    assert overlay.clustering(300, SEED) == overlay.clustering(300, SEED)
    assert overlay.clustering(300, SEED) != overlay.clustering(300, SEED + 1)
    exact_paths, paths = overlay.path_length(ALL, SEED), overlay.path_length(40, SEED)
    assert exact_paths.mean is not None
    assert paths.mean == pytest.approx(exact_paths.mean, rel=0.02)
    assert paths == overlay.path_length(40, SEED)
    assert paths != overlay.path_length(40, SEED + 1)


# The random graph.


def random_views_slowly(seed: int, nodes: int, degree: int) -> list[list[int]]:
    rows = []
    for node in range(nodes):
        key = word(substream(word(stream(seed, purpose("overlay.random_views"), 0, 0)), node))
        free = [other for other in range(nodes) if other != node]
        rows.append([free.pop(below(key, slot, len(free))) for slot in range(degree)])
    return rows


@given(st.integers(0, 2**63 - 1), st.data())
def test_random_views_are_distinct_others(seed: int, data: st.DataObject) -> None:
    nodes = data.draw(st.integers(1, 40))
    degree = data.draw(st.integers(0, nodes - 1))
    views = random_views(seed, nodes, degree)
    assert views.shape == (nodes, degree)
    assert views.dtype == np.int32
    assert views.tolist() == random_views_slowly(seed, nodes, degree)
    for node, row in enumerate(views.tolist()):
        assert len(set(row)) == degree
        assert set(row) <= set(range(nodes)) - {node}


def test_random_views_are_keyed() -> None:
    views = random_views(SEED, 50, 8)
    assert np.array_equal(views, random_views(SEED, 50, 8))
    assert np.array_equal(views[:, :5], random_views(SEED, 50, 5))
    assert not np.array_equal(views, random_views(SEED + 1, 50, 8))


def test_random_views_never_change() -> None:
    """Seeded runs start here: another answer is another run, whatever the platform or the compiler."""
    assert random_views(7, 10, 3)[:4].tolist() == [[3, 7, 8], [6, 2, 7], [3, 1, 0], [9, 5, 8]]


def test_in_degrees_of_random_views_are_binomial() -> None:
    nodes, degree = 20_000, 20
    stats = measure(random_views(SEED, nodes, degree), np.ones(nodes, dtype=np.bool_), seed=SEED)
    assert stats.in_degree_mean == stats.out_degree_mean == degree
    assert stats.in_degree_std == pytest.approx(degree**0.5, rel=0.03)
    assert stats.components == 1


def test_every_slot_of_random_views_is_uniform() -> None:
    """Over many seeds, each of the others is as likely in each slot, also when nearly all are taken."""
    nodes, seeds = 6, 3000
    drawn = np.stack([random_views(seed, nodes, nodes - 1) for seed in range(seeds)])  # [seed, node, slot]
    for node in range(nodes):
        for slot in range(nodes - 1):
            counts = np.bincount(drawn[:, node, slot], minlength=nodes)
            assert counts[node] == 0
            expected = seeds / (nodes - 1)
            assert np.all(np.abs(np.delete(counts, node) - expected) < 5 * expected**0.5)


def test_random_graph_has_the_clustering_and_the_path_length_of_theory() -> None:
    nodes, degree = 5000, 20
    stats = measure(
        random_views(SEED, nodes, degree),
        np.ones(nodes, dtype=np.bool_),
        seed=SEED,
        clustering_sample=ALL,
        path_sources=64,
    )
    # Two others are linked with chance 2 × degree / nodes; a neighbour that links to the node itself (half of
    # them do) has spent one link on it. About 10,000 triangles: a standard error of 1 %.
    assert stats.clustering == pytest.approx((2 * degree - 1) / nodes, rel=0.05)
    assert stats.path_length is not None
    # Fronczak, Fronczak and Hołyst (Phys. Rev. E 70, 2004), for Poisson degrees; ours spread less.
    expected = (np.log(nodes) - np.euler_gamma) / np.log(2 * degree) + 0.5
    assert stats.path_length == pytest.approx(expected, rel=0.05)


# Degenerate cases.


@pytest.mark.parametrize(("nodes", "degree"), [(0, 0), (1, 1), (5, 5), (5, 9), (5, -1)])
def test_random_views_refuse_impossible_degrees(nodes: int, degree: int) -> None:
    with pytest.raises(InputError):
        random_views(SEED, nodes, degree)


@pytest.mark.parametrize("nodes", [0, 4])
def test_nobody_on_line(nodes: int) -> None:
    views = np.full((nodes, 3), NOBODY, dtype=np.int32)
    stats = measure(views, np.zeros(nodes, dtype=np.bool_), seed=SEED, clustering_sample=9, path_sources=9)
    assert stats == OverlayStats(0, 0.0, 0.0, 0, 0, 0.0, 0, 0, 0, 0, 0.0, None, 0.0)


def test_one_node() -> None:
    stats = measure(
        np.array([[1], [0]], dtype=np.int32),
        np.array([True, False]),
        seed=SEED,
        clustering_sample=9,
        path_sources=9,
    )
    assert stats == OverlayStats(1, 0.0, 0.0, 0, 0, 0.0, 1, 0, 1, 1, 0.0, None, 0.0)


@pytest.mark.parametrize("slots", [0, 3])
def test_all_views_empty(slots: int) -> None:
    views = np.full((4, slots), NOBODY, dtype=np.int32)
    stats = measure(views, np.ones(4, dtype=np.bool_), seed=SEED, clustering_sample=9, path_sources=9)
    assert stats == OverlayStats(4, 0.0, 0.0, 0, 0, 0.0, 0, 4, 4, 1, 0.0, None, 1.0)


def test_not_measured_is_none() -> None:
    stats = measure(to_views(ring(4)), np.ones(4, dtype=np.bool_), seed=SEED)
    assert (stats.clustering, stats.path_length, stats.unreachable) == (None, None, None)


def test_wrong_input_is_refused() -> None:
    everyone = np.ones(3, dtype=np.bool_)
    with pytest.raises(InputError):
        Overlay.of(np.zeros((4, 2), dtype=np.int32), everyone)
    with pytest.raises(InputError):
        Overlay.of(np.full((3, 1), 3, dtype=np.int32), everyone)
    with pytest.raises(InputError):
        Overlay.of(np.full((3, 1), -2, dtype=np.int32), everyone)
    with pytest.raises(InputError):
        overlay_of(ring(3)).clustering(0, SEED)
    with pytest.raises(InputError):
        overlay_of(ring(3)).path_length(-1, SEED)
