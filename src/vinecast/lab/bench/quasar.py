"""Speed and memory of Quasar in the simulator, next to the targets that were set.

A population at rest, with MySpace-like groups: how long until everybody's home is filled to depth 3, how long
a hundred publications take. The largest population has a process of its own, so that its memory is its own.
"""

import json
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.errors import InputError
from vinecast.core.rule import COMPILED
from vinecast.lab.bench.result import Result, at_most
from vinecast.lab.bench.sim import SEED, SMALLEST, child
from vinecast.protocols.gravity import GravityConfig
from vinecast.sim.workload.myspace import group_sizes, groups_of
from vinecast.systems.quasar.machine import QuasarConfig
from vinecast.systems.quasar.sweep import QuasarSweep, links_of, random_contacts

NODES, QUICK = 32_768, 2_048
GROUPS = 100
PARTS = 16  # ours: ranges that a pass is divided into, for each thread


def degree_for(nodes: int) -> int:
    """An even degree, 14 at 32,768 nodes: with the fourth root of the nodes the diameter stays the same."""
    return max(2 * round(math.sqrt(math.sqrt(nodes)) / 2), 4)


def quasar_population(nodes: int) -> QuasarSweep:
    """A population with random links and MySpace-like groups, whose homes are empty yet."""
    found = groups_of(SEED, nodes, group_sizes(SEED, GROUPS))
    profiles = Profiles.simulated(SEED, found.start, found.topics, found.topic_count)
    degree = degree_for(nodes)
    config = QuasarConfig(overlay="given", gravity=GravityConfig(degree=degree))
    return QuasarSweep(config, SEED, profiles, links_of(random_contacts(SEED, nodes, degree)))


def disseminate(sweep: QuasarSweep, threads: int) -> float:
    """Seconds until everybody's home is filled."""
    with ThreadPoolExecutor(threads) as pool:

        def divide(count: int, run: Callable[[int, int, int], None]) -> None:
            parts = threads * PARTS
            ranges = [(count * i // parts, count * (i + 1) // parts) for i in range(parts)]
            list(pool.map(lambda one: run(one[0], one[1], 0), ranges))

        begin = time.perf_counter()
        sweep.disseminate(divide)
        return time.perf_counter() - begin


def publish_everywhere(sweep: QuasarSweep, branching: int) -> tuple[float, float]:
    """Seconds that an event in every group takes, and the share of members that they reach."""
    sweep.walk = type(sweep.walk)(branching=branching)
    got = members = 0
    begin = time.perf_counter()
    for topic in range(sweep.profiles.topic_ids.size):
        known = sweep.group(topic)
        reached = sweep.publish(known, int(known.members.node[0]), topic)
        got += round(reached.coverage * reached.hops.size)
        members += reached.hops.size
    return time.perf_counter() - begin, got / members


_ALONE = """
import json, sys
from vinecast.lab.bench.sim import peak_bytes
from vinecast.lab.bench.quasar import disseminate, publish_everywhere, quasar_population
sweep = quasar_population(int(sys.argv[1]))
filled = disseminate(sweep, int(sys.argv[2]))
published, coverage = publish_everywhere(sweep, 0)
found = {"filled": filled, "published": published, "coverage": coverage, "gb": peak_bytes() / 1e9}
print(json.dumps({**found, "state": sweep.state_bytes / sweep.nodes}))
"""


def bench_quasar(nodes: int, rounds: int, largest: int | None = None, threads: int = 2) -> Iterator[Result]:
    """All figures, one after the other. ``largest``: nodes of a last, huge population, if there is one."""
    if min(nodes, largest or nodes) < SMALLEST:
        raise InputError(f"a benchmark needs at least {SMALLEST} nodes")
    if not COMPILED:
        yield Result("rules", "plain Python", 0.0, "compiled", False)
    warm = quasar_population(SMALLEST)
    disseminate(warm, threads)
    publish_everywhere(warm, 0)
    sweep = quasar_population(nodes)
    what = f"Quasar, {nodes:,} nodes, degree {sweep.links.shape[1]}"
    filled = {count: min(disseminate(sweep, count) for _ in range(rounds)) for count in (1, threads)}
    for count, seconds in filled.items():
        named = f"{count} thread{'s' if count > 1 else ''}"
        yield at_most(f"{what}, homes filled to depth 3, {named}", seconds, 2.0, "s")
    for branching, copies in ((0, "to all neighbours"), (4, "4 copies")):
        found = [publish_everywhere(sweep, branching) for _ in range(rounds)]
        seconds, coverage = min(found)
        yield at_most(f"{what}, {GROUPS} publications, {copies}", seconds, 1.0, "s")
        yield Result(f"{what}, … reach of their members", f"{coverage:.2%}", coverage)
    yield at_most(
        f"{what}, filters that a node keeps", sweep.config.gravity.state_bytes / 1000, 22.0, "kB", ".1f"
    )
    if largest is not None:
        alone = json.loads(child(_ALONE, str(largest), str(threads)))
        at = f"Quasar, {largest:,} nodes, degree {degree_for(largest)}"
        yield at_most(f"{at}, peak memory of the whole process", alone["gb"], 24.0, "GB", ".2f")
        yield Result(f"{at}, homes and links", f"{alone['state']:.0f} bytes a node", alone["state"])
        yield Result(f"{at}, homes filled, {threads} threads", f"{alone['filled']:.1f} s", alone["filled"])
        yield Result(f"{at}, {GROUPS} publications", f"{alone['published']:.2f} s", alone["published"])
        yield Result(f"{at}, … reach of their members", f"{alone['coverage']:.2%}", alone["coverage"])
