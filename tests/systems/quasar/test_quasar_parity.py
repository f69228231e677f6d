"""Quasar's machines equal its sweep, bit for bit: homes, events and polls."""

import hashlib
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.dissemination import MISSED
from vinecast.core.events import Deliver, Publish
from vinecast.protocols.directed_walk import WalkConfig
from vinecast.protocols.directed_walk.sweep import EXPIRED, MISLED, SENT
from vinecast.protocols.gravity import GravityConfig
from vinecast.sim.engine.engine import EventEngine
from vinecast.sim.engine.network import Network, NetworkConfig
from vinecast.sim.workload.subscriptions import Subscriptions, pattern
from vinecast.systems.quasar.machine import Quasar, QuasarConfig
from vinecast.systems.quasar.sweep import QuasarSweep, links_of, random_contacts

GRAVITY = GravityConfig(filter_bytes=64, degree=6, period_s=10.0)
LATENCY_MS = 10.0


def config_of(branching: int, polls: int = 0) -> QuasarConfig:
    return QuasarConfig(
        overlay="given", polls=polls, poll_s=10.0, offer_s=1000.0, gravity=GRAVITY,
        walk=WalkConfig(ttl=12, branching=branching, negatives=4),
    )  # fmt: skip


class Twins:
    """The same population twice: as a sweep and as machines on the event engine, given the same contacts."""

    def __init__(self, subscriptions: Subscriptions, seed: int, config: QuasarConfig) -> None:
        self.profiles = [
            Profiles.simulated(seed, subscriptions.start, subscriptions.topics, subscriptions.topic_count)
            for _ in range(2)
        ]
        nodes = subscriptions.nodes
        contacts = random_contacts(seed, nodes, config.gravity.degree)
        self.sweep = QuasarSweep(config, seed, self.profiles[0], links_of(contacts))
        self.delivered: dict[tuple[int, int], int] = {}
        self.engine = EventEngine(
            lambda node: Quasar(config, seed, node, self.profiles[1]), nodes, seed,
            Network(NetworkConfig(latency_ms=LATENCY_MS), seed, nodes), on_deliver=self._deliver,
        )  # fmt: skip
        for node, known in enumerate(contacts.tolist()):
            self.engine.start(node, 0, tuple(known))
        self.sweep.disseminate()
        self.engine.run(5 * config.period_us + config.period_us // 2)

    def _deliver(self, node: int, deliver: Deliver) -> None:
        assert (node, deliver.event) not in self.delivered
        self.delivered[node, deliver.event] = deliver.hops

    def machine(self, node: int) -> Quasar:
        machine = self.engine.machines[node]
        assert isinstance(machine, Quasar)
        return machine

    def count(self, name: str) -> int:
        return sum(self.engine.counters[name])

    def counts(self) -> NDArray[np.int64]:
        return np.array(
            [self.count(name) for name in ("sent.quasar.event", "quasar.expired", "quasar.misled")]
        )


@pytest.mark.parametrize(("branching", "seed"), [(0, 1), (2, 2), (3, 3)])
def test_homes_and_events_are_the_same(branching: int, seed: int) -> None:
    config = config_of(branching)
    twins = Twins(pattern("random", seed, 120, topics=10, subscriptions=1), seed, config)
    for node in range(120):
        machine = twins.machine(node)
        peers, rows, _ = machine.gravity.neighbours
        assert peers.tolist() == [peer for peer in twins.sweep.links[node].tolist() if peer >= 0]
        assert np.array_equal(machine.gravity.home, twins.sweep.homes[node])
        assert np.array_equal(machine.gravity.homes[rows], twins.sweep.homes[peers])
    for topic in range(10):
        known = twins.sweep.group(topic)
        if not known.members.node.size:
            continue
        publisher = int(known.members.node[topic % known.members.node.size])
        before = twins.counts()
        twins.engine.command(publisher, twins.engine.now_us, Publish(topic, topic))
        twins.engine.run(twins.engine.now_us + config.period_us // 20)
        reached = twins.sweep.publish(known, publisher, topic, exact=True)
        hops = [twins.delivered.get((node, topic), MISSED) for node in reached.node.tolist()]
        assert hops == reached.hops.tolist()
        assert (twins.counts() - before).tolist() == reached.tally[[SENT, EXPIRED, MISLED]].tolist()


def test_polls_are_the_same() -> None:
    """Members that have polled before: the sweep takes over whom they asked, and goes on from there."""
    config = config_of(1, polls=5)
    twins = Twins(pattern("random", 4, 100, topics=2, subscriptions=1), 4, config)
    topic, found = 1, []
    known = twins.sweep.group(topic)
    members = [twins.machine(node) for node in known.members.node.tolist()]
    for place, machine in enumerate(members):
        missed = machine.missed[topic]
        known.members.asked[place] = missed.asked
        known.members.asked_count[place], known.members.waiting[place] = missed.asked_count, missed.waiting
    publisher = int(known.members.node[0])
    twins.engine.command(publisher, twins.engine.now_us, Publish(topic, 7))
    reached = twins.sweep.publish(known, publisher, 7)
    for _ in range(8):
        twins.engine.run(twins.engine.now_us + config.period_us)
        reached, _ = twins.sweep.poll(known, members[0].missed[topic].polls)
        have = [(node, 7) in twins.delivered for node in reached.node.tolist()]
        assert have == (reached.hops != MISSED).tolist()
        found.append(sum(have))
    assert found[0] < found[-1] == len(members)  # it had something to do, and did it


def test_the_number_of_messages_of_a_poll_is_the_same() -> None:
    config = config_of(1, polls=1)
    twins = Twins(pattern("random", 5, 60, topics=1, subscriptions=1), 5, config)
    known = twins.sweep.group(0)
    members = [twins.machine(node) for node in known.members.node.tolist()]
    for place, machine in enumerate(members):
        missed = machine.missed[0]
        known.members.asked[place] = missed.asked
        known.members.asked_count[place], known.members.waiting[place] = missed.asked_count, missed.waiting
    kinds = ("sent.quasar.poll", "sent.quasar.answer")
    before = sum(map(twins.count, kinds))
    twins.engine.run(twins.engine.now_us + config.period_us)
    _, messages = twins.sweep.poll(known, members[0].missed[0].polls)
    assert sum(map(twins.count, kinds)) - before == messages > len(members)


def test_a_larger_population_on_several_threads_has_the_same_homes() -> None:
    from vinecast.protocols.cyclon import CyclonConfig
    from vinecast.protocols.cyclon.sweep import CyclonSweep
    from vinecast.sim.engine.sweep import SweepEngine  # its way of dividing work

    found = pattern("random", 6, 500, topics=50, subscriptions=3)
    profiles = Profiles.simulated(6, found.start, found.topics, found.topic_count)
    config = replace(config_of(0), gravity=GravityConfig(filter_bytes=256, degree=8))
    sweeps = [QuasarSweep(config, 6, profiles, links_of(random_contacts(6, 500, 8))) for _ in range(2)]
    engine = SweepEngine(CyclonSweep(CyclonConfig(), 1, 2), 1, "synchronous", 3)
    sweeps[0].disseminate()
    sweeps[1].disseminate(engine.divide)
    engine.close()
    assert np.array_equal(sweeps[0].homes, sweeps[1].homes)


DIGEST = """
import hashlib
from vinecast.lab.claims.quasar.runs import QuasarPopulation, QuasarRun
digest = hashlib.sha256()
for arrays in QuasarRun(QuasarPopulation(64, "MySpace", 3, 5, 4, 3, 64), 2, True).run_with([]):
    for name in sorted(arrays):
        digest.update(name.encode() + arrays[name].tobytes())
print(digest.hexdigest())
"""


def test_the_same_bits_without_numba() -> None:
    plain = subprocess.run(
        [sys.executable, "-c", DIGEST], env={**os.environ, "VINECAST_COMPILE": "0"}, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    from vinecast.lab.claims.quasar.runs import QuasarPopulation, QuasarRun

    digest = hashlib.sha256()
    for arrays in QuasarRun(QuasarPopulation(64, "MySpace", 3, 5, 4, 3, 64), 2, True).run_with([]):
        for name in sorted(arrays):
            digest.update(name.encode() + arrays[name].tobytes())
    assert plain.stdout.strip() == digest.hexdigest()
