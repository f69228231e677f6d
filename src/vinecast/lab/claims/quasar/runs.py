"""Runs of Quasar for the claims of S1 §4: populations at rest, in which one event is published in every
group.

How S1 is read here (docs/quasar.md says more): its overlay is a random graph "with a constant network
diameter", so the degree grows as the fourth root of the nodes, from 6 at 1,024 to 14 at 32,768, where a node
keeps the 22 kB of filters that S1 speaks of. A point of a figure is a hundred publications: some populations,
each with other links, other ids and other groups, and some groups in each.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.dissemination import MISSED
from vinecast.core.draws import below, purpose, stream
from vinecast.core.machine import NOBODY
from vinecast.lab.runs.run_cache import Arrays
from vinecast.protocols.directed_walk import WalkConfig
from vinecast.protocols.gravity import GravityConfig
from vinecast.sim.workload.myspace import group_sizes, groups_of
from vinecast.systems.quasar.machine import QuasarConfig
from vinecast.systems.quasar.sweep import Known, QuasarSweep, Reached, links_of, random_contacts

KINDS = ("MySpace", "constant", "proportional")
CONSTANT = 37  # S1 §4: friends on line, on average
PROPORTION = (
    32  # ours: one node in so many is a member; 1,024 of 32,768, like the largest of MySpace's groups
)
ROUNDS = 10
"""Times that members poll, at the most."""
_PUBLISHER = purpose("claims.quasar.publisher")
_SOURCES = 4  # ours: nodes from which the diameter is measured


def degree_for(nodes: int) -> int:
    """An even degree with which the diameter stays about the same, however many nodes there are."""
    return max(2 * round(math.sqrt(math.sqrt(nodes)) / 2), 4)


@dataclass(frozen=True, slots=True)
class QuasarPopulation:
    """Who is there: what several plays have in common."""

    nodes: int
    kind: str
    groups: int
    seed: int
    degree: int
    depth: int = 3
    filter_bytes: int = 512
    besides: int = 0
    """Groups a node, on average, in which nothing is published, of CONSTANT members each."""


@dataclass(frozen=True, slots=True)
class QuasarRun:
    """One event in every group of a population: a ``Job`` (lab/runs/run_cache.py)."""

    population: QuasarPopulation
    branching: int = 0
    polls: bool = False
    """Whether members poll until all of them have it."""
    keep: Path | None = None

    @property
    def name(self) -> str:
        at = self.population
        return f"{at.nodes:,} nodes, {at.kind} groups, {self.branching or 'all'} copies, seed {at.seed}"

    @property
    def work(self) -> float:
        """See ``Job``: bytes of homes, about."""
        at = self.population
        return float(at.nodes * at.degree * at.depth * at.filter_bytes)

    def decided_by(self) -> dict[str, Any]:
        return {"quasar": asdict(self.population), "branching": self.branching, "polls": self.polls}

    @property
    def alike(self) -> Hashable:
        """See ``Job``: plays of one population share its homes."""
        return self.population

    def run_with(self, others: "Sequence[QuasarRun]") -> list[Arrays]:
        population = populate(self.population)
        far = farthest(population.links, _SOURCES)
        return [play_on(population, play) | {"diameter": np.array([far])} for play in (self, *others)]


def populate(at: QuasarPopulation) -> QuasarSweep:
    """A population whose homes have settled."""
    if at.kind == "MySpace":
        sizes = group_sizes(at.seed, at.groups)
    else:
        size = CONSTANT if at.kind == "constant" else max(at.nodes // PROPORTION, 2)
        sizes = np.full(at.groups, size)
    silent = np.full(at.nodes * at.besides // CONSTANT, CONSTANT)
    found = groups_of(at.seed, at.nodes, np.concatenate([sizes, silent]))
    profiles = Profiles.simulated(at.seed, found.start, found.topics, found.topic_count)
    config = QuasarConfig(
        overlay="given", gravity=GravityConfig(at.filter_bytes, at.depth, degree=max(at.degree, 2))
    )
    sweep = QuasarSweep(config, at.seed, profiles, links_of(random_contacts(at.seed, at.nodes, at.degree)))
    sweep.disseminate()
    return sweep


def play_on(sweep: QuasarSweep, play: QuasarRun) -> Arrays:
    """Publish in every group, from a random member; what came of it. [group], tally [group, counted], and
    what polls did: [group, time of polling]"""
    sweep.walk = WalkConfig(branching=play.branching)
    rows: list[tuple[float, ...]] = []
    tallies, polled = [], []
    for topic in range(play.population.groups):
        known = sweep.group(topic)
        size = known.members.node.size
        publisher = int(known.members.node[below(stream(sweep.seed, _PUBLISHER, topic, 0), 0, size)])
        reached = sweep.publish(known, publisher, topic, exact=True)
        got = reached.hops[reached.hops > 0]
        last, mean = (float(got.max()), float(got.mean())) if got.size else (0.0, 0.0)
        rows.append((size, reached.coverage, reached.others, last, mean))
        tallies.append(reached.tally)
        polled.append(_poll(sweep, known, reached) if play.polls else np.zeros((2, 0)))
    columns = dict(zip(("size", "coverage", "others", "last", "mean"), np.array(rows).T, strict=True))
    return {**columns, "tally": np.array(tallies), "polled": np.array(polled)}


def _poll(sweep: QuasarSweep, known: Known, reached: Reached) -> NDArray[np.float64]:
    """Members without the event after each time of polling, and messages that it took. [2, time]"""
    found = np.zeros((2, ROUNDS))
    for time in range(ROUNDS):
        after, messages = sweep.poll(known, time + 1)
        found[:, time] = int((after.hops == MISSED).sum()), messages
    return found


def farthest(links: NDArray[np.int32], sources: int) -> int:
    """How many hops the farthest node is from some nodes: the diameter, or nearly so."""
    nodes, most = links.shape[0], 0
    for source in range(min(sources, nodes)):
        reached = np.zeros(nodes + 1, dtype=np.bool_)  # the last one stands for nobody
        reached[[source, NOBODY]] = True
        front, hops = np.array([source]), 0
        while front.size:
            near = np.zeros(nodes + 1, dtype=np.bool_)
            near[links[front]] = True
            front = np.flatnonzero(near & ~reached)
            reached[front] = True
            hops += 1
        most = max(most, hops - 1)
    return most
