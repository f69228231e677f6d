"""Runs of Vinifera and Ferry* for the claims of S2 §4.6, on the event engine.

A network starts all at once with random contacts and settles for some cycles. Then events are published in
some rounds, for nodes to move to where the load is, if they do, and in a last one that is measured: as
configured, and in some networks as S2 has it to the letter (up to the owner, and only then down), and with
friends told directly. These differ in the way of events alone, so that one network serves all three; the
other two are measured with a quarter of the events.
"""

import functools
import gc
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vinecast.lab.runs.run_cache import Arrays, digest_of
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.tman import TManConfig
from vinecast.sim.scenario.content_run import ContentRun, ContentStats
from vinecast.sim.scenario.world import choose_contacts
from vinecast.sim.workload.churn import Availability, on_off, read_avt
from vinecast.sim.workload.content import HIGGS, SIZE, ContentWorkload, activity_workload, content_workload
from vinecast.sim.workload.higgs import made_acts, parse_acts
from vinecast.systems.ferry.machine import FerryConfig
from vinecast.systems.vinifera.events import ContentConfig
from vinecast.systems.vinifera.machine import ViniferaConfig

TABLE = 10  # S2 §4.6.2: about log N links, the ring's two included
ROUNDS = 6  # ours: rounds of events before the one that is measured, each of a fifth as many
CAPACITY = 20  # ours: S2's X, copies of events that a node can handle in a cycle
PERIOD_S = 60.0
HELD = 10  # ours: cycles after which a node that came is held to events, as in VI-8
A_CYCLE = 10  # ours: events in each cycle under churn
ACTS = 20  # ours: made-up acts a node, where there is no trace of them
WAYS = ("configured", "letter", "friends")
"""Of events: as configured; S2 to the letter; friends told directly."""
COLUMNS = ("due", "hits", "hops", "unwanted", "wanted", "online")


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without looking for cyclic garbage, of which runs make none and which takes a third of their time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
        gc.collect()


@dataclass(frozen=True, slots=True)
class ContentNetwork:
    """Nodes, what they want, and how they are linked."""

    system: str
    kind: str
    nodes: int
    attributes: int
    cycles: int
    """Until it has settled."""
    seed: int
    long_links: int = 0
    """Vinifera's K_sw."""
    to_friends: bool = False
    """Whether friends are told directly."""
    balanced: bool = True
    """Whether nodes move to where the load is."""
    one_in: int = SIZE
    """A filter matches one of so many points."""
    filters: int = 1
    """Of each node."""
    acts: Path | None = None
    """The trace of the kind ``higgs``; None: made-up acts."""

    def decided_by(self) -> dict[str, Any]:
        """All that decides what it is."""
        acts = None if self.acts is None else digest_of(self.acts)
        return asdict(replace(self, acts=None)) | {"acts": acts}

    def config(self) -> ContentConfig:
        """Of its nodes."""
        layers: dict[str, Any] = {
            "cyclon": CyclonConfig(period_s=PERIOD_S),
            "tman": TManConfig(table_size=TABLE, period_s=PERIOD_S),
        }
        if self.system == "ferry":
            return FerryConfig(**layers)
        layers |= {} if self.balanced else {"beta": 0}
        return ViniferaConfig(long_links=self.long_links, to_friends=self.to_friends, **layers)

    def workload(self) -> ContentWorkload:
        """Who wants what."""
        if self.kind == HIGGS:
            acts = made_acts(self.seed, ACTS * self.nodes) if self.acts is None else parse_acts(self.acts)
            return activity_workload(acts, self.seed, self.nodes, self.filters)
        size = self.nodes, self.attributes, self.filters, self.one_in
        return content_workload(self.kind, self.seed, *size)

    def make(self, most: int | None = None) -> ContentRun:
        """A run of it, with nobody on line."""
        return ContentRun(self.system, self.config(), self.workload(), self.seed, most=most)

    @property
    def moves(self) -> bool:
        """Whether its nodes move."""
        return self.system == "vinifera" and self.balanced

    @property
    def name(self) -> str:
        """In a few words."""
        name = "Ferry*" if self.system == "ferry" else f"Vinifera, {TABLE - 2 - self.long_links} friends"
        name += " told directly" if self.to_friends else ""
        name += "" if self.balanced else ", nobody moves"
        attributes = "one attribute" if self.attributes == 1 else f"{self.attributes} attributes"
        return f"{name}, {self.nodes:,} nodes, {attributes}, {self.kind}"


@dataclass(frozen=True, slots=True)
class ContentRestRun:
    """Events in a network at rest: a ``Job`` (lab/runs/run_cache.py)."""

    network: ContentNetwork
    events: int
    keep: Path | None = None
    ways: tuple[str, ...] = WAYS
    rounds: int = ROUNDS
    """Of events, before those that are measured."""

    @property
    def name(self) -> str:
        return self.network.name

    @property
    def work(self) -> float:
        """See ``Job``: nodes and cycles."""
        return float(self.network.nodes * (self.network.cycles + self.rounds))

    def decided_by(self) -> dict[str, Any]:
        published = {"events": self.events, "ways": self.ways, "rounds": self.rounds}
        return {"content": self.network.decided_by(), **published}

    @property
    def alike(self) -> Hashable:
        return self

    def run_with(self, others: "Sequence[ContentRestRun]") -> list[Arrays]:
        return [rest.run() for rest in (self, *others)]

    @_uncollected()
    def run(self) -> Arrays:
        """Of every way of events: counts, and load and traffic a node."""
        run = self.network.make()
        run.start()
        run.settle(self.network.cycles)
        for _ in range(self.rounds):
            if self.network.moves:
                run.publish(self.events // 5)
            else:
                run.skip(self.events // 5)
        run.meter.take()
        found: Arrays = {"moves": np.array(sum(run.world.engine.counters["load_balance.moves"]))}
        machines: list[Any] = list(run.world.engine.machines)
        for way in self.ways:
            for machine in machines:
                machine.on_the_way, machine.to_friends = way != "letter", way == "friends"
            run.publish(self.events if way == WAYS[0] else self.events // 4)
            found |= {f"{way}.{name}": column for name, column in _columns(run.meter.take()).items()}
        return found


def _columns(stats: ContentStats) -> Arrays:
    counts = stats.events, stats.due, stats.hits, stats.hops, stats.wrong
    columns = {"received": stats.received, "passed": stats.passed, "owned": stats.owned}
    return {"counts": np.array(counts), **columns}


def stats_of(found: Arrays, way: str = WAYS[0]) -> ContentStats:
    """What ``ContentRestRun`` found, of one way of events."""
    events, due, hits, hops, wrong = found[f"{way}.counts"].tolist()
    columns = (found[f"{way}.{name}"] for name in ("received", "passed", "owned"))
    return ContentStats(events, due, hits, hops, wrong, *columns)


@dataclass(frozen=True, slots=True)
class Rush:
    """More and more events a cycle, for nodes that can handle so many copies: a ``Job``."""

    network: ContentNetwork
    rates: tuple[float, ...]
    """Events a cycle, in parts of CAPACITY."""
    keep: Path | None = None

    @property
    def name(self) -> str:
        return f"{self.network.name}, rates"

    @property
    def work(self) -> float:
        return float(self.network.nodes * (self.network.cycles + 2 * len(self.rates)))

    def decided_by(self) -> dict[str, Any]:
        return {"content": self.network.decided_by(), "rates": self.rates, "capacity": CAPACITY}

    @property
    def alike(self) -> Hashable:
        return self

    def run_with(self, others: "Sequence[Rush]") -> list[Arrays]:
        return [rush.run() for rush in (self, *others)]

    @_uncollected()
    def run(self) -> Arrays:
        """The hit ratio at every rate, over three cycles each."""
        run = self.network.make(CAPACITY)
        run.start()
        run.settle(self.network.cycles)
        hits = []
        for rate in self.rates:
            for _ in range(3):
                run.publish(round(rate * CAPACITY))
            hits.append(run.meter.take().hit_ratio)
        return {"hit_ratio": np.array(hits)}


@dataclass(frozen=True, slots=True)
class ContentChurnRun:
    """A network whose nodes come and go, with some events in every cycle: a ``Job``."""

    network: ContentNetwork
    """Its cycles are those of the run."""
    trace: Path | None
    """An availability trace; None: synthetic churn."""
    keep: Path | None = None

    @property
    def name(self) -> str:
        return f"{self.network.name}, churn"

    @property
    def work(self) -> float:
        return float(self.network.nodes * self.network.cycles) / 3

    def decided_by(self) -> dict[str, Any]:
        trace = None if self.trace is None else digest_of(self.trace)
        return {"content": self.network.decided_by(), "churn": trace, "a cycle": A_CYCLE}

    @property
    def alike(self) -> Hashable:
        return self

    def run_with(self, others: "Sequence[ContentChurnRun]") -> list[Arrays]:
        return [crowd.run() for crowd in (self, *others)]

    @_uncollected()
    def run(self) -> Arrays:
        """By cycle: COLUMNS."""
        network = self.network
        masks = _availability(self.trace, network).at_cycles(PERIOD_S, network.cycles)
        run = network.make()
        old, age = np.zeros(network.nodes, dtype=np.bool_), np.full(network.nodes, -1)
        rows = []
        for cycle, mask in enumerate(masks):
            _follow(run, cycle, old, mask)
            age = np.where(mask, np.where(old, age + 1, 0 if cycle else HELD), -1)
            run.publish(A_CYCLE, age >= HELD)
            stats = run.meter.take()
            unwanted, wanted = stats.received.sum(axis=1).tolist()
            rows.append((stats.due, stats.hits, stats.hops, unwanted, wanted, int(mask.sum())))
            old = mask
        return dict(zip(COLUMNS, np.array(rows).T, strict=True))


@functools.lru_cache(maxsize=1)
def _availability(trace: Path | None, network: ContentNetwork) -> Availability:
    if trace is None:
        return on_off(network.seed, network.nodes, network.cycles * PERIOD_S, 7200.0, 3600.0)
    return read_avt(trace).take(network.nodes)


def _follow(run: ContentRun, cycle: int, old: NDArray[np.bool_], mask: NDArray[np.bool_]) -> None:
    """Let come and go whoever does."""
    if cycle == 0:
        run.start(np.flatnonzero(mask).tolist())
        return
    if (old & ~mask).any():
        run.world.stop(np.flatnonzero(old & ~mask), graceful=False)
    coming, known = np.flatnonzero(mask & ~old), np.flatnonzero(old & mask)
    if coming.size:
        contacts = choose_contacts(run.seed, cycle, coming, known, 1)
        run.world.start(coming, contacts, keep_state=True)
