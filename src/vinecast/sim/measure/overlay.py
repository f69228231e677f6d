"""The overlay: what the nodes' views look like as a graph, and how close that is to a random one.

The entries of all views together are the links of a directed graph. Gossip membership is judged by it, with
the measures of Cyclon's paper (Voulgaris, Gavidia and van Steen, JNSM 2005): in-degrees that hardly spread
mean that load is shared evenly, few dead links (links to nodes that left) that churn is absorbed, one
component that everyone can be reached, and a clustering coefficient and path length like those of a random
graph that views are good samples of the population.

Only on-line nodes and the links among them make up the graph; a link to an off-line node is counted as dead
and then left out. Degrees count links as they stand in the views. Components, clustering and path lengths
are those of the *undirected* graph, as in the paper: a link joins two nodes whoever holds it, once. Here the
on-line nodes are numbered 0 … online − 1, in the order of their numbers in the population.

The two measures that are dear on a large graph are estimated from a keyed sample of nodes, without
replacement; a sample as large as the graph gives the exact value.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, get_index_dtype
from scipy.sparse.csgraph import connected_components

from vinecast.core.draws import below_array, purpose, shuffled, stream, substream_array
from vinecast.core.errors import InputError
from vinecast.core.machine import NOBODY

Links: TypeAlias = "csr_array[np.float64, tuple[int, int]]"
"""[node, node], 1 where there is a link. Floats, for csgraph would convert anything else on every call."""

_CLUSTERING = purpose("overlay.clustering")
_PATHS = purpose("overlay.paths")
_BLOCK = 65_536  # ours: rows at a time, so that scratch memory does not grow with the network
_RANDOM_VIEWS = purpose("overlay.random_views")

_OFF_LINE = NOBODY - 1
_CLUSTERING_ROWS = 1024  # ours: 40 neighbours each make a product of about 20 MB
_WORD_BITS = 64


@dataclass(frozen=True)
class Components:
    """The weakly connected components of an overlay."""

    count: int
    largest: int
    """Nodes in the largest one; 0 when no node is on line."""


@dataclass(frozen=True)
class PathLength:
    """Shortest paths from some sources to every other node."""

    mean: float | None
    """Hops, over the pairs that are connected; None when no pair is."""
    unreachable: float
    """The share of pairs that are not connected; 0 when there is no pair at all."""


@dataclass(frozen=True, eq=False)
class Overlay:
    """The graph of links among the on-line nodes."""

    links: Links
    """[on-line node, on-line node], from the holder of the view to the node in it."""
    dead_links: int
    """Links from on-line to off-line nodes."""
    empty_views: int
    """On-line nodes with nobody at all in their views, dead or alive."""

    @classmethod
    def of(cls, views: NDArray[np.int32], online: NDArray[np.bool_]) -> "Overlay":
        """The overlay of a population. views: [node, slot], ``NOBODY`` where empty; online: [node]"""
        if views.ndim != 2 or online.shape != views.shape[:1]:
            raise InputError(f"views {views.shape} and online {online.shape} do not describe the same nodes.")
        if views.size and (views.min() < NOBODY or views.max() >= online.size):
            raise InputError(f"A view names a node outside 0 … {online.size - 1}.")
        count = int(np.count_nonzero(online))
        # One lookup decides all: a number among the on-line nodes, _OFF_LINE, or, at index −1, NOBODY.
        number = np.full(online.size + 1, _OFF_LINE, dtype=np.int32)
        number[:-1][online] = np.arange(count, dtype=np.int32)
        number[NOBODY] = NOBODY
        targets = number[views[online]]
        alive = targets >= 0
        bounds = np.zeros(count + 1, dtype=get_index_dtype(maxval=views.size))
        np.cumsum(np.count_nonzero(alive, axis=1), out=bounds[1:])
        indices = targets[alive]
        links = csr_array((np.ones(indices.size), indices, bounds), shape=(count, count))
        dead = int(np.count_nonzero(targets == _OFF_LINE))
        filled = np.count_nonzero(targets != NOBODY, axis=1)
        return cls(links, dead, count - int(np.count_nonzero(filled)))

    @property
    def online(self) -> int:
        """The number of on-line nodes."""
        return self.links.shape[0]

    @cached_property
    def undirected(self) -> Links:
        """[on-line node, on-line node]: links either way, once each, none to oneself; symmetric."""
        both = (self.links + self.links.T).tocsr()
        if both.diagonal().any():
            both.setdiag(0)
            both.eliminate_zeros()
        both.data[:] = 1
        return both

    def in_degrees(self) -> NDArray[np.int64]:
        """How many views each node is in. [on-line node]"""
        return np.bincount(self.links.indices, minlength=self.online)

    def components(self) -> Components:
        """The parts that no link joins."""
        if self.online == 0:
            return Components(0, 0)
        count, labels = connected_components(self.links, directed=True, connection="weak")
        return Components(int(count), int(np.bincount(labels).max()))

    def clustering(self, sample: int, seed: int) -> float:
        """The mean local clustering coefficient over ``sample`` nodes, or over all if there are no more.

        A node's coefficient is the share of the pairs of its neighbours that are linked; it is 0 for a
        node with fewer than two neighbours. The clustering of an overlay without nodes is 0, too.

        Triangles are rare in a large random graph, so that small samples are noisy: with views of d out of
        n nodes, about (2d)³ / 2n linked pairs are met per node sampled, and the relative standard error is
        one over the root of all that are met (d = 20, n = 100,000: 6 % for 1,000 nodes, 2 % for 10,000).
        """
        nodes = _sample(seed, _CLUSTERING, self.online, sample)
        total = 0.0
        for start in range(0, nodes.size, _CLUSTERING_ROWS):
            total += float(_coefficients(self.undirected, nodes[start : start + _CLUSTERING_ROWS]).sum())
        return total / nodes.size if nodes.size else 0.0

    def path_length(self, sources: int, seed: int) -> PathLength:
        """The mean shortest path from ``sources`` nodes, or from all if there are no more, to all others."""
        nodes = _sample(seed, _PATHS, self.online, sources)
        pairs = nodes.size * (self.online - 1)
        hops = reached = 0
        for start in range(0, nodes.size, _WORD_BITS):
            for distance, count in enumerate(_ripple(self.undirected, nodes[start : start + _WORD_BITS]), 1):
                hops += distance * count
                reached += count
        return PathLength(
            mean=hops / reached if reached else None, unreachable=(pairs - reached) / pairs if pairs else 0.0
        )


def _sample(seed: int, purpose_word: int, online: int, size: int) -> NDArray[np.int64]:
    if size < 1:
        raise InputError(f"A sample has at least one node, not {size}.")
    if size >= online:
        return np.arange(online)
    return np.sort(shuffled(stream(seed, purpose_word, 0, 0), online)[:size])


def _coefficients(links: Links, nodes: NDArray[np.int64]) -> NDArray[np.float64]:
    """The local clustering coefficients of some nodes of an undirected graph. [place in nodes]"""
    rows = links[nodes]
    degrees = np.diff(rows.indptr).astype(np.float64)
    # (rows @ links)[v, w] counts the neighbours of v that are linked to w; keep those w that v is linked to.
    closed: NDArray[np.float64] = np.asarray((rows @ links).multiply(rows).sum(axis=1))
    return closed / np.maximum(degrees * (degrees - 1), 1)


def _ripple(links: Links, sources: NDArray[np.int64]) -> list[int]:
    """How many (source, node) pairs are 1, 2, 3 … hops apart, by breadth-first search from ≤ 64 sources.

    All the searches share one sweep over the links, a bit of a word for each source, for in a graph of
    small diameter they meet the same nodes at about the same time. Every level touches only the links of
    the nodes that some search has just reached, so that long chains stay affordable.
    """
    fresh = np.zeros(links.shape[0], dtype=np.uint64)
    fresh[sources] = np.uint64(1) << np.arange(sources.size, dtype=np.uint64)
    seen = fresh.copy()
    counts = []
    while (frontier := np.flatnonzero(fresh)).size:
        rows = links[frontier]
        told = np.zeros_like(seen)
        np.bitwise_or.at(told, rows.indices, np.repeat(fresh[frontier], np.diff(rows.indptr)))
        fresh = told & ~seen
        seen |= fresh
        counts.append(int(np.bitwise_count(fresh).sum(dtype=np.int64)))
    return counts


def random_views(seed: int, nodes: int, degree: int) -> NDArray[np.int32]:
    """The reference random graph: everyone knows ``degree`` others, chosen uniformly. [node, slot]

    A row holds distinct nodes, never its own; every ordered choice is equally likely. Row v depends only on
    (seed, v, nodes), and the views of a smaller degree are the first slots of those of a larger one.

    Slot k takes one draw among the nodes − 1 − k that are still free. Its number among the free becomes a
    node by stepping over the taken ones in ascending order: nothing is ever drawn twice, so that all rows
    take the same steps. The cost is nodes × degree².
    """
    if not 0 <= degree < nodes:
        raise InputError(f"Of {nodes} nodes, each can know 0 … {nodes - 1} others, not {degree}.")
    key = stream(seed, _RANDOM_VIEWS, 0, 0)
    views = np.empty((nodes, degree), dtype=np.int32)
    for begin in range(0, nodes, _BLOCK):
        own = np.arange(begin, min(begin + _BLOCK, nodes), dtype=np.int32)
        _fill_random(views[begin : begin + _BLOCK], own, substream_array(key, own), nodes)
    return views


def _fill_random(
    views: NDArray[np.int32], own: NDArray[np.int32], keys: NDArray[np.uint64], nodes: int
) -> None:
    """``random_views`` for the rows of the nodes ``own``. views: [own node, slot]"""
    taken = [own]  # [rank][own node], ascending in rank
    for slot in range(views.shape[1]):
        choice = below_array(keys, slot, nodes - 1 - slot).astype(np.int32)
        for other in taken:
            choice += choice >= other
        views[:, slot] = choice
        for rank, other in enumerate(taken):
            taken[rank], choice = np.minimum(other, choice), np.maximum(other, choice)
        taken.append(choice)


@dataclass(frozen=True)
class OverlayStats:
    """An overlay in numbers."""

    online: int
    """Nodes on line; all that follows is about them."""
    in_degree_mean: float
    in_degree_std: float
    in_degree_min: int
    in_degree_max: int
    out_degree_mean: float
    """Equal to ``in_degree_mean``, for every link that counts has both ends on line."""
    dead_links: int
    """Links to off-line nodes."""
    empty_views: int
    """Nodes with nobody in their views."""
    components: int
    largest_component: int
    """Nodes in the largest component."""
    clustering: float | None = None
    """Mean local clustering coefficient; None where not measured."""
    path_length: float | None = None
    """Mean shortest path in hops; None where not measured, or where no pair is connected."""
    unreachable: float | None = None
    """Share of pairs without a path; None where not measured."""


def measure(
    views: NDArray[np.int32],
    online: NDArray[np.bool_],
    *,
    seed: int,
    clustering_sample: int = 0,
    path_sources: int = 0,
) -> OverlayStats:
    """The overlay in numbers; a sample of 0 means "do not measure". views: [node, slot]; online: [node]

    Without samples it is cheap enough for every cycle. With no node on line, all numbers are 0.
    """
    overlay = Overlay.of(views, online)
    degrees = overlay.in_degrees() if overlay.online else np.zeros(1, dtype=np.int64)
    components = overlay.components()
    paths = overlay.path_length(path_sources, seed) if path_sources else None
    return OverlayStats(
        online=overlay.online,
        in_degree_mean=float(degrees.mean()),
        in_degree_std=float(degrees.std()),
        in_degree_min=int(degrees.min()),
        in_degree_max=int(degrees.max()),
        out_degree_mean=overlay.links.nnz / overlay.online if overlay.online else 0.0,
        dead_links=overlay.dead_links,
        empty_views=overlay.empty_views,
        components=components.count,
        largest_component=components.largest,
        clustering=overlay.clustering(clustering_sample, seed) if clustering_sample else None,
        path_length=paths.mean if paths else None,
        unreachable=paths.unreachable if paths else None,
    )
