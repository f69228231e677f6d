"""Pastry's rules against obvious twins."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from support.protocols.pastry import CIRCLE, ROWS, nearest_of, some
from vinecast.core.circle import simulated_ids
from vinecast.core.draws import draw, purpose, stream
from vinecast.core.machine import NOBODY
from vinecast.protocols.pastry import rules
from vinecast.protocols.pastry.machine import GONE_MAX
from vinecast.protocols.pastry.rules import Ids, Peers

words = st.integers(0, CIRCLE - 1)
populations = st.lists(words, min_size=2, max_size=60, unique=True).map(sorted)


def as_ids(points: list[int]) -> Ids:
    return np.array(points, dtype=np.uint64)


class Node:
    """The arrays of one node, for the rules."""

    def __init__(self, ids: Ids, me: int, leaf_size: int = 8) -> None:
        self.ids, self.me = ids, me
        self.leafs: Peers = np.full((2, leaf_size // 2), NOBODY, dtype=np.int32)
        self.table: Peers = np.full((ROWS, 16), NOBODY, dtype=np.int32)
        self.gone: Peers = np.full(GONE_MAX, NOBODY, dtype=np.int32)

    def learn(self, peers: list[int], direct: bool = False, seed: int = 1) -> int:
        return rules.learn(
            self.ids, self.me, seed, self.leafs, self.table, self.gone, some(*peers), direct
        )  # fmt: skip

    def forget(self, peer: int) -> int:
        return rules.forget(self.ids, self.me, 1, self.leafs, self.table, peer)

    def next_hop(self, key: int, skip: int = NOBODY) -> int:
        return rules.next_hop(self.ids, self.me, self.leafs, self.table, np.uint64(key), skip)  # type: ignore[arg-type]

    @property
    def known(self) -> list[int]:
        return sorted({*self.leafs.ravel().tolist(), *self.table.ravel().tolist()} - {NOBODY})

    def nearest(self, among: list[int]) -> list[list[int]]:
        """What the leaf set should be, if the node knows these."""
        points, here = self.ids.tolist(), int(self.ids[self.me])
        size = self.leafs.shape[1]
        lower = sorted(among, key=lambda peer: (here - points[peer]) % CIRCLE)[:size]
        higher = sorted(among, key=lambda peer: (points[peer] - here) % CIRCLE)[:size]
        return [side + [NOBODY] * (size - len(side)) for side in (lower, higher)]


@given(words, words)
def test_digits_are_those_of_the_hexadecimal_number(a: int, b: int) -> None:
    left, right = f"{a:016x}", f"{b:016x}"
    pair = as_ids([a, b])
    assert [rules.digit(pair[0], row, ROWS) for row in range(ROWS)] == [int(c, 16) for c in left]
    shared = next((i for i, (x, y) in enumerate(zip(left, right, strict=True)) if x != y), ROWS)
    assert rules.shared_digits(pair[0], pair[1], ROWS) == shared


@given(words, st.sampled_from([1, 2, 8]))
def test_digits_may_have_other_sizes(point: int, bits: int) -> None:
    rows = 64 // bits
    digits = [rules.digit(as_ids([point])[0], row, rows) for row in range(rows)]
    value = 0
    for digit in digits:
        assert 0 <= digit < 2**bits
        value = value * 2**bits + digit
    assert value == point


@settings(max_examples=200)
@given(populations, st.data())
def test_the_leaf_set_is_the_nearest_of_all_it_was_told(points: list[int], data: st.DataObject) -> None:
    me = data.draw(st.integers(0, len(points) - 1))
    told = data.draw(st.lists(st.integers(-3, len(points) + 3), max_size=80))
    node = Node(as_ids(points), me)
    for peer in told:
        before = node.leafs.copy()
        changes = node.learn([peer])
        assert bool(changes & rules.LEAF) == bool((before != node.leafs).any())
        assert bool(changes & rules.NEAREST) == bool((before[:, 0] != node.leafs[:, 0]).any())
    real = sorted({peer for peer in told if 0 <= peer < len(points)} - {me})
    assert node.leafs.tolist() == node.nearest(real)


@settings(max_examples=200)
@given(populations, st.data())
def test_the_table_holds_everybodys_favourite_whatever_the_order(
    points: list[int], data: st.DataObject
) -> None:
    """Met in person; a slot's holder is the first in the node's own keyed order of all who fit there."""
    me = data.draw(st.integers(0, len(points) - 1))
    met = data.draw(st.lists(st.integers(0, len(points) - 1), max_size=80))
    node = Node(as_ids(points), me)
    for peer in met:
        node.learn([peer], direct=True)
    key = stream(1, purpose("pastry.table"), 0, me)
    obvious: dict[tuple[int, int], int] = {}
    for peer in sorted(set(met) - {me}, key=lambda peer: draw(key, peer)):
        row = int(rules.shared_digits(node.ids[me], node.ids[peer], ROWS))
        obvious.setdefault((row, int(f"{points[peer]:016x}"[row], 16)), peer)
    held = {(r, c): int(node.table[r, c]) for r in range(ROWS) for c in range(16) if node.table[r, c] >= 0}
    assert held == obvious


def test_hearsay_neither_replaces_an_entry_nor_raises_the_dead() -> None:
    points = [0, *[2**63 + i for i in range(20)]]  # all of them fit one slot of the first node's table
    node = Node(as_ids(points), 0, leaf_size=2)
    node.gone[0] = 5
    node.learn([4])
    node.learn([5, 6, 7])
    assert node.table[0, 8] == 4
    assert 5 not in node.known
    node.learn(list(range(1, 21)), direct=True)
    assert node.table[0, 8] != 4
    node.gone[0] = NOBODY
    node.learn([5], direct=True)


@settings(max_examples=200)
@given(populations, st.data())
def test_who_is_forgotten_is_nowhere_and_holes_are_filled(points: list[int], data: st.DataObject) -> None:
    me = data.draw(st.integers(0, len(points) - 1))
    node = Node(as_ids(points), me, leaf_size=4)
    node.learn(list(range(len(points))))
    for peer in data.draw(st.lists(st.integers(-2, len(points) + 2), max_size=10)):
        was_leaf = peer >= 0 and peer in node.leafs
        assert bool(node.forget(peer) & rules.LEAF) == was_leaf
        assert peer < 0 or peer not in node.known
        assert node.leafs.tolist() == node.nearest(node.known)


@settings(max_examples=200)
@given(populations, words, st.data())
def test_whatever_the_tables_hold_every_hop_is_nearer_and_no_way_is_a_circle(
    points: list[int], key: int, data: st.DataObject
) -> None:
    """Not only wrong tables: numbers strewn anywhere, in rows where they do not belong."""
    ids, everybody = as_ids(points), range(len(points))
    strewn = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    nodes = []
    for me in everybody:
        node = Node(ids, me, leaf_size=4)
        node.table[:] = strewn.integers(-1, len(points), node.table.shape)
        node.learn(strewn.integers(0, len(points), 5).tolist())
        nodes.append(node)
    at, way = 0, [0]
    while (hop := nodes[at].next_hop(key)) != at:
        assert nearest_of(points, key, [at, hop]) == hop
        at = hop
        way.append(at)
    assert len(set(way)) == len(way)


@given(populations, words)
def test_who_knows_everybody_finds_the_nearest(points: list[int], key: int) -> None:
    ids, everybody = as_ids(points), list(range(len(points)))
    for start in (0, len(points) - 1):
        node = Node(ids, start)
        node.learn(everybody)
        while (hop := node.next_hop(key)) != node.me:
            node = Node(ids, hop)
            node.learn(everybody)
        assert node.me == nearest_of(points, key, everybody)


def test_with_perfect_tables_a_way_is_about_as_long_as_the_ids_need_digits() -> None:
    ids = np.sort(simulated_ids(3, 1000))
    nodes = [Node(ids, me, leaf_size=32) for me in range(1000)]
    for node in nodes:
        node.learn(list(range(1000)))
    points = ids.tolist()
    lengths = []
    for i, key in enumerate(simulated_ids(4, 500).tolist()):
        at, hops = i, 0
        while (hop := nodes[at].next_hop(key)) != at:
            at, hops = hop, hops + 1
        assert at == nearest_of(points, key, list(range(1000)))
        lengths.append(hops)
    assert max(lengths) <= 4
    assert 2.0 < np.mean(lengths) < np.log(1000) / np.log(16)


def test_somebody_can_be_left_out_of_the_way() -> None:
    node = Node(as_ids([0, 100, 200]), 0)
    node.learn([1, 2])
    assert node.next_hop(100) == 1
    assert node.next_hop(100, skip=1) == 0
    assert node.next_hop(190, skip=1) == 2


def test_a_node_on_the_way_gives_the_rows_that_the_joiner_can_use() -> None:
    points = [0x1000 << 48, 0x1200 << 48, 0x1230 << 48, 0x8000 << 48]
    node = Node(as_ids(points), 1)
    node.learn([0, 2, 3])
    out = np.full(10, NOBODY, dtype=np.int32)
    assert rules.collect_rows(node.ids, 1, node.table, 0, 0, out, 0) == (2, 2)  # rows 0 and 1; 0 asks
    assert out[:2].tolist() == [1, 3]
    assert rules.collect_rows(node.ids, 1, node.table, 2, 1, out, 2) == (4, 3)  # rows 1 and 2
    assert out[2:4].tolist() == [1, 0]
    assert rules.collect_rows(node.ids, 1, node.table, 2, 0, out, 10) == (10, 3)  # no room, no harm
