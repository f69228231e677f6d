"""Who comes and goes: the scenario's churn and faults, told to a world cycle by cycle."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from vinecast.core.draws import purpose, shuffled, stream
from vinecast.core.errors import InputError
from vinecast.sim.measure.overlay import random_views
from vinecast.sim.scenario.scenario import Fault, Resolved, find_file
from vinecast.sim.scenario.world import Contacts, Nodes, World, choose_contacts
from vinecast.sim.workload.churn import Availability, on_off, read_avt
from vinecast.systems.registry import SYSTEMS

_VICTIMS = purpose("run.victims")
_TURNS = purpose("run.turns")


def _read_trace(path: Path) -> Availability:
    if path.is_dir() or path.suffix == ".parquet":
        from vinecast.sim.workload.parquet import read_sessions

        return read_sessions(path)
    return read_avt(path)


class FaultDriver:
    """Lets come and go whom the scenario says, at the beginning of each cycle.

    ``turns`` says who is the i-th of a trace, or the i-th to come: in systems with topics or filters, where a
    node's number is its place on the circle, a random one; elsewhere node i.
    """

    def __init__(self, resolved: Resolved, world: World, data: Path | None) -> None:
        self.scenario = resolved.scenario
        self.world = world
        self.joined = self.scenario.nodes
        self.came = self.went = 0
        self.absent = np.zeros(self.scenario.population, dtype=np.bool_)
        self.turns: Nodes = np.arange(self.scenario.population)
        system = SYSTEMS[self.scenario.system]
        if system.has_topics or system.has_content:
            self.turns = shuffled(stream(self.scenario.seed, _TURNS, 0, 0), self.scenario.population)
        self.masks: Iterator[Any] | None = None
        availability = self._availability(resolved, data)
        if availability is not None:
            period_s = resolved.config.period_us / 1e6
            self.masks = availability.at_cycles(period_s, self.scenario.cycles)

    def _availability(self, resolved: Resolved, data: Path | None) -> Availability | None:
        scenario, churn = self.scenario, self.scenario.churn
        if churn.kind == "trace" and churn.trace is not None:
            path = find_file(churn.trace, resolved.folder, data)
            trace = _read_trace(path)
            if trace.nodes < scenario.nodes:
                raise InputError(f"nodes: {path} has only {trace.nodes:,} nodes, not {scenario.nodes:,}")
            return trace.take(scenario.nodes)
        if churn.kind == "onoff":
            horizon_s = scenario.cycles * resolved.config.period_us / 1e6
            try:
                return on_off(scenario.seed, scenario.nodes, horizon_s, churn.mean_on_s, churn.mean_off_s)
            except InputError as error:
                raise InputError(f"churn.mean_on_s and churn.mean_off_s: {error}") from None
        return None

    def before(self, cycle: int) -> None:
        """Everything that happens at the beginning of a cycle."""
        if self.masks is not None:
            mask = next(self.masks)
            turned = np.zeros_like(mask)
            turned[self.turns] = mask
            self._follow(cycle, turned)
            return
        if cycle == 0:
            self._start_first(np.sort(self.turns[: self.scenario.nodes]))
        for number, fault in enumerate(self.scenario.faults):
            if fault.at_cycle == cycle:
                self._inflict(cycle, number, fault)

    def _follow(self, cycle: int, mask: Any) -> None:
        online = self.world.online
        leaving = np.flatnonzero(online & ~mask)
        coming = np.flatnonzero(mask & ~online)
        if cycle == 0:
            self._start_first(coming)
            return
        if leaving.size:
            self._stop(leaving, graceful=False)
        if coming.size:
            self._start_later(cycle, coming, np.flatnonzero(online & mask), self.scenario.churn.keep_state)

    def _start_first(self, nodes: Nodes) -> None:
        degree = min(self.scenario.start.contacts, max(nodes.size - 1, 0))
        contacts = np.full((nodes.size, 1), -1, dtype=np.int32)
        if degree:
            contacts = nodes[random_views(self.scenario.seed, nodes.size, degree)].astype(np.int32)
        self._start(nodes, contacts, keep_state=True)

    def _start(self, nodes: Nodes, contacts: Contacts, keep_state: bool) -> None:
        self.came += nodes.size
        self.world.start(nodes, contacts, keep_state)

    def _stop(self, nodes: Nodes, graceful: bool) -> None:
        self.went += nodes.size
        self.world.stop(nodes, graceful)

    def take_counts(self) -> tuple[int, int]:
        """How many came and went since this was last asked."""
        counts = self.came, self.went
        self.came = self.went = 0
        return counts

    def _start_later(self, cycle: int, nodes: Nodes, known: Nodes, keep_state: bool) -> None:
        pool = known if known.size else nodes
        contacts = choose_contacts(self.scenario.seed, cycle, nodes, pool, self.scenario.start.join_contacts)
        self._start(nodes, contacts, keep_state)

    def _inflict(self, cycle: int, number: int, fault: Fault) -> None:
        online = self.world.online
        if fault.kind == "join":
            nodes = np.sort(self.turns[self.joined : self.joined + (fault.count or 0)])
            self.joined += nodes.size
            self._start_later(cycle, nodes, np.flatnonzero(online), keep_state=True)
            return
        pool = np.flatnonzero(self.absent if fault.kind == "restart" else online)
        count = fault.count if fault.count is not None else round((fault.share or 0.0) * pool.size)
        key = stream(self.scenario.seed, _VICTIMS, cycle, number)
        chosen = np.sort(pool[shuffled(key, pool.size)[:count]])
        self.absent[chosen] = fault.kind != "restart"
        if fault.kind == "restart":
            self._start_later(cycle, chosen, np.flatnonzero(online), fault.keep_state)
        else:
            self._stop(chosen, graceful=fault.kind == "leave")
