"""The claims of S0 about PolderCast: convergence, degree, dissemination, churn, scale.

``paper`` scale is the paper's: 10,000 users of a social graph, one event for each topic. ``small`` is a
synthetic network that fits a test. Where the paper's own graphs cannot be had, the nearest real ones stand in
(docs/poldercast.md says which), and every result names its workload.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vinecast.claims.claim import Claim, Measured, Setup
from vinecast.core.errors import InputError
from vinecast.core.machine import NOBODY
from vinecast.core.profiles import Profiles
from vinecast.protocols.rings import RingsConfig
from vinecast.sim.churn import on_off, read_avt
from vinecast.sim.metrics import (
    SpreadStats,
    publish_and_measure,
    relays,
    ring_state,
    ring_targets,
    spread_stats,
)
from vinecast.sim.overlay import random_views
from vinecast.sim.run import find_file
from vinecast.sim.sample import load_workload
from vinecast.sim.sweep import SweepEngine
from vinecast.sim.workload import Subscriptions
from vinecast.sim.world import choose_contacts
from vinecast.systems.poldercast import PolderCastConfig
from vinecast.systems.poldercast_sweep import PolderCastSweep

LIMIT = 60  # S0 §6.2: cycles within which 99 % of the rings are complete
DONE = 0.01
TRACE = "skype.avt.gz"
FANOUTS = (2, 3, 4, 5, 6, 8, 10)
SHORTCUTS = ("both", "cyclon", "vicinity")
CONTACTS = 20
WARM_UPS = (1, 10)
"""Cycles for which newcomers are left out of the miss ratio."""

PAPER = PolderCastConfig()
INFORMED = PolderCastConfig(rings=RingsConfig(exchange="informed"))
WITHOUT_VICINITY = PolderCastConfig(with_vicinity=False)


def _workload(setup: Setup) -> str:
    if setup.workload:
        return setup.workload
    return "facebook" if setup.scale == "paper" and setup.data is not None else "synthetic"


def _nodes(setup: Setup) -> int:
    return 10_000 if setup.scale == "paper" else 600


@functools.lru_cache(maxsize=4)
def _subscriptions(name: str, nodes: int, seed: int, data: Path | None) -> Subscriptions:
    return load_workload(name, nodes, seed, data)


def population(
    subscriptions: Subscriptions, config: PolderCastConfig, seed: int, threads: int, online: NDArray[np.int64]
) -> SweepEngine:
    """Nodes that run Cyclon already and nothing else yet, as S0 §6.2 starts them."""
    profiles = Profiles.simulated(seed, subscriptions.start, subscriptions.topics, subscriptions.topic_count)
    sweep = PolderCastSweep(config, seed, profiles)
    degree = min(CONTACTS, online.size - 1)
    sweep.start(online, online[random_views(seed, online.size, degree)].astype(np.int32))
    return SweepEngine(sweep, config.period_us, "synchronous", threads)


@dataclass(frozen=True, slots=True)
class Convergence:
    """A network coming together, cycle by cycle."""

    incomplete: list[float]
    """Share of rings that are not complete after each cycle."""
    missing: list[float]
    """Share of ring links that are not in place."""
    missed: list[float]
    """Miss ratio of one event a topic."""
    settled: NDArray[np.int64]
    """[node], the cycle after which all of its links stayed in place"""
    engine: SweepEngine
    """The network at the end."""

    def first(self, series: list[float], at_most: float) -> int | None:
        """The first cycle after which a series is low enough."""
        return next((i + 1 for i, value in enumerate(series) if value <= at_most), None)


@functools.lru_cache(maxsize=6)
def converge(
    name: str, nodes: int, seed: int, threads: int, data: Path | None, config: PolderCastConfig, most: int
) -> Convergence:
    """Run until every ring is complete, or for ``most`` cycles, publishing on every topic after each."""
    subscriptions = _subscriptions(name, nodes, seed, data)
    engine = population(subscriptions, config, seed, threads, np.arange(nodes))
    sweep = engine.sweep
    assert isinstance(sweep, PolderCastSweep)
    everyone = np.ones(nodes, dtype=np.bool_)
    targets, owner = ring_targets(sweep.profiles, everyone), sweep.profiles.owners()
    half = config.rings.size // 2
    found = Convergence([], [], [], np.zeros(nodes, dtype=np.int64), engine)
    for cycle in range(most):
        engine.run(1)
        state = ring_state(sweep, targets)
        found.incomplete.append(state.incomplete_rings)
        found.missing.append(state.missing_links)
        _, stats = publish_and_measure(engine, cycle, everyone)
        found.missed.append(1 - stats.hit_ratio)
        wrong = (sweep.ring_peers[:, 0] != targets.lower) | (sweep.ring_peers[:, half] != targets.higher)
        found.settled[owner[wrong & (targets.higher != NOBODY)]] = cycle + 2
        if state.incomplete_rings == 0:
            break
    return found


def _converge(setup: Setup, config: PolderCastConfig, most: int = 0) -> Convergence:
    name, nodes = _workload(setup), _nodes(setup)
    most = most or (400 if setup.scale == "paper" else 250)
    return converge(name, nodes, setup.seed, setup.threads, setup.data, config, most)


def _where(setup: Setup) -> str:
    subscriptions = _subscriptions(_workload(setup), _nodes(setup), setup.seed, setup.data)
    mean = subscriptions.count / subscriptions.nodes
    return f"{_workload(setup)}, {_nodes(setup):,} nodes, {mean:.0f} subscriptions a node"


def _cycles(cycles: int | None, most: int) -> str:
    return f"{cycles}" if cycles is not None else f"more than {most}"


def _ring_claim(setup: Setup, config: PolderCastConfig) -> Measured:
    run = _converge(setup, config)
    at = min(LIMIT, len(run.incomplete)) - 1
    took = run.first(run.incomplete, DONE)
    text = (
        f"after {at + 1} cycles {1 - run.incomplete[at]:.1%} of rings complete, {run.missing[at]:.2%} of "
        f"links missing; 99 % after {_cycles(took, len(run.incomplete))} cycles ({_where(setup)})"
    )
    values = {"incomplete": run.incomplete, "missing": run.missing, "missed": run.missed, "cycles": took}
    return Measured(text, took is not None and took <= LIMIT, values)


def rings_close(setup: Setup) -> Measured:
    """PC-1, the exchange as S0 describes it."""
    return _ring_claim(setup, PAPER)


def rings_close_informed(setup: Setup) -> Measured:
    """PC-1+, our informed exchange: the same number of messages and of entries in each."""
    return _ring_claim(setup, INFORMED)


def events_before_rings(setup: Setup) -> Measured:
    """PC-2."""
    run = _converge(setup, PAPER)
    rings, events = run.first(run.incomplete, 0.0), run.first(run.missed, 0.0)
    most = len(run.incomplete)
    holds = events is not None and (rings is None or events < rings)
    text = f"no event missed after {_cycles(events, most)} cycles, rings closed after {_cycles(rings, most)}"
    return Measured(f"{text} ({_where(setup)})", holds, {"events": events, "rings": rings})


def without_vicinity(setup: Setup) -> Measured:
    """PC-3."""
    with_it = _converge(setup, PAPER)
    base = with_it.first(with_it.incomplete, DONE)
    most = 8 * (base or len(with_it.incomplete))
    without = _converge(setup, WITHOUT_VICINITY, most)
    took = without.first(without.incomplete, DONE)
    ratio = took / base if took is not None and base is not None else None
    factor = f"{ratio:.1f} times" if ratio is not None else f"more than {most / (base or most):.0f} times"
    text = f"99 % of rings after {_cycles(took, most)} cycles instead of {_cycles(base, most)}: {factor}"
    holds = ratio is not None and 3 <= ratio <= 6
    return Measured(f"{text} ({_where(setup)})", holds, {"with": base, "without": took, "ratio": ratio})


def large_nodes(setup: Setup) -> Measured:
    """PC-4: at small scale, the largest hundredth of the nodes stands in for those with over 400 topics."""
    run = _converge(setup, PAPER)
    sweep = run.engine.sweep
    assert isinstance(sweep, PolderCastSweep)
    size = sweep.table.cnt
    limit = 400 if (size > 400).any() else int(np.quantile(size, 0.99))
    large, small = run.settled[size > limit], run.settled[(size > 0) & (size <= limit)]
    ratio = float(large.mean() / max(small.mean(), 1.0))
    text = (
        f"all links in place after {large.mean():.0f} cycles on average for nodes with over {limit} topics "
        f"({large.size} of them), {small.mean():.0f} for the rest: {ratio:.2f} times ({_where(setup)})"
    )
    return Measured(text, ratio <= 3, {"large": float(large.mean()), "small": float(small.mean())})


def degree(setup: Setup) -> Measured:
    """PC-5: distinct ring neighbours (nearest on either side) against twice the number of topics."""
    run = _converge(setup, PAPER)
    sweep = run.engine.sweep
    assert isinstance(sweep, PolderCastSweep)
    half = sweep.config.rings.size // 2
    owner = sweep.profiles.owners()
    pairs = np.concatenate([sweep.ring_peers[:, 0], sweep.ring_peers[:, half]]).astype(np.int64)
    links = np.concatenate([owner, owner]).astype(np.int64) * sweep.nodes + pairs
    distinct = np.bincount(np.unique(links[pairs != NOBODY]) // sweep.nodes, minlength=sweep.nodes)
    size = sweep.table.cnt
    many = size >= max(np.quantile(size[size > 0], 0.5), 1)
    exponent = float(np.polyfit(np.log(size[many]), np.log(np.maximum(distinct[many], 1)), 1)[0])
    share = float(distinct[many].sum() / (2 * size[many].sum()))
    linear = _workload(setup) == "facebook"
    holds = exponent >= 0.9 if linear else exponent < 0.9
    text = f"degree grows like topics^{exponent:.2f} and is {share:.0%} of 2 × topics ({_where(setup)})"
    return Measured(text, holds, {"exponent": exponent, "share": share})


def _sweep_fanouts(setup: Setup) -> dict[str, dict[int, SpreadStats]]:
    run = _converge(setup, INFORMED)
    everyone = np.ones(_nodes(setup), dtype=np.bool_)
    epoch = 10_000
    return {
        kind: {f: publish_and_measure(run.engine, epoch + f, everyone, f, kind)[1] for f in FANOUTS}
        for kind in SHORTCUTS
    }


def static_network(setup: Setup) -> Measured:
    """PC-6: on a network whose rings are all complete; only subscribers ever carry an event."""
    run = _converge(setup, INFORMED)
    stats = _sweep_fanouts(setup)["both"]
    hit = min(found.hit_ratio for found in stats.values())
    worst = max(found.duplication / f for f, found in stats.items())
    sweep = run.engine.sweep
    assert isinstance(sweep, PolderCastSweep)
    unwanted = relays(sweep)
    holds = run.incomplete[-1] == 0 and hit == 1.0 and worst <= 1.0 and unwanted == 0
    text = (
        f"rings complete: {1 - run.incomplete[-1]:.2%}; hit ratio {hit:.4%} at the lowest, duplication at "
        f"most {worst:.2f} f, for f = {FANOUTS[0]} … {FANOUTS[-1]}; {unwanted} links to non-subscribers "
        f"({_where(setup)})"
    )
    return Measured(text, holds, {"hit_ratio": hit, "duplication_over_f": worst, "relays": unwanted})


def fanout_trade_off(setup: Setup) -> Measured:
    """PC-7."""
    stats = _sweep_fanouts(setup)
    run = _converge(setup, INFORMED)
    hops = {kind: [found.hops_mean for found in by.values()] for kind, by in stats.items()}
    copies = {kind: [found.duplication for found in by.values()] for kind, by in stats.items()}
    falls = all(b < a for a, b in zip(hops["both"], hops["both"][1:], strict=False))
    rises = all(b > a for a, b in zip(copies["both"], copies["both"][1:], strict=False))
    flat = hops["cyclon"][-1] > 0.8 * hops["cyclon"][0] and copies["cyclon"][-1] < 1.25 * copies["cyclon"][0]
    fewer = sum(hops["vicinity"]) < sum(hops["both"]) and sum(copies["vicinity"]) > sum(copies["both"])
    everyone = np.ones(_nodes(setup), dtype=np.bool_)
    spread, _ = publish_and_measure(run.engine, 20_000, everyone, 4, "vicinity")
    sweep = run.engine.sweep
    assert isinstance(sweep, PolderCastSweep)
    mean_copies = np.bincount(sweep.profiles.owners(), weights=spread.copies, minlength=sweep.nodes)
    four = float((mean_copies / np.maximum(sweep.table.cnt, 1) >= 4).mean())
    text = (
        f"f = {FANOUTS[0]} → {FANOUTS[-1]}: hops {_arrow(hops['both'])}, copies {_arrow(copies['both'])}; "
        f"Cyclon only {_arrow(hops['cyclon'])} and {_arrow(copies['cyclon'])}; Vicinity only "
        f"{_arrow(hops['vicinity'])} and {_arrow(copies['vicinity'])}; {four:.0%} of nodes get ≥ 4 copies "
        f"(Vicinity only, f = 4) ({_where(setup)})"
    )
    values = {"hops": hops, "duplication": copies, "nodes_with_4_copies": four}
    return Measured(text, falls and rises and flat and fewer, values)


def _arrow(series: list[float]) -> str:
    return f"{series[0]:.2f} → {series[-1]:.2f}"


def churn(setup: Setup) -> Measured:
    """PC-10, PolderCast's half: Skype's churn at one-minute cycles.

    S0 leaves nodes out for the first ten seconds after they join, which is the cycle they join in. A second
    figure leaves them out for ten cycles, to show what newcomers contribute.
    """
    nodes, cycles = (1000, 2880) if setup.scale == "paper" else (200, 150)
    name = setup.workload or ("slashdot" if setup.scale == "paper" and setup.data else "synthetic")
    if setup.scale == "paper" and setup.data is not None:
        availability = read_avt(find_file(TRACE, Path(), setup.data)).take(nodes)
        trace = "Skype"
    else:
        availability = on_off(setup.seed, nodes, cycles * 60.0, 12 * 3600.0, 6 * 3600.0)
        trace = "synthetic churn (12 h on, 6 h off)"
    subscriptions = load_workload(name, nodes, setup.seed, setup.data)
    masks = availability.at_cycles(60.0, cycles)
    missed = churn_run(subscriptions, masks, INFORMED, setup.seed, setup.threads, WARM_UPS)
    literal, settled = (np.array(series[CONTACTS:]) for series in missed)
    text = (
        f"miss ratio {_few(literal)}; leaving nodes out for {WARM_UPS[1]} cycles, {_few(settled)} "
        f"({trace}, {cycles:,} cycles, {name}, {nodes:,} nodes, f = 2, informed exchange)"
    )
    holds = bool(literal.max() <= 0.04 and (literal > 0.01).mean() <= 0.02)
    return Measured(text, holds, {f"missed after {w}": m for w, m in zip(WARM_UPS, missed, strict=True)})


def _few(series: NDArray[np.float64]) -> str:
    over = (series > 0.01).mean()
    return f"{series.mean():.4f} on average, {series.max():.3f} at most, above 0.01 in {over:.0%} of cycles"


def churn_run(
    subscriptions: Subscriptions,
    masks: Iterator[NDArray[np.bool_]],
    config: PolderCastConfig,
    seed: int,
    threads: int,
    warm_ups: tuple[int, ...],
) -> list[list[float]]:
    """The miss ratio of one event a topic after every cycle, among nodes older than each of the warm-ups."""
    old = next(masks)
    engine = population(subscriptions, config, seed, threads, np.flatnonzero(old))
    sweep = engine.sweep
    assert isinstance(sweep, PolderCastSweep)
    age = np.where(old, max(warm_ups), -1)
    missed: list[list[float]] = [[] for _ in warm_ups]
    for cycle, mask in enumerate(itertools.chain([old], masks)):
        sweep.stop(np.flatnonzero(old & ~mask))
        coming = np.flatnonzero(mask & ~old)
        if coming.size:
            sweep.start(coming, choose_contacts(seed, cycle, coming, np.flatnonzero(old & mask), 3))
        age = np.where(mask, age + 1, -1)
        engine.run(1)
        spread, _ = publish_and_measure(engine, cycle, mask)
        for series, warm_up in zip(missed, warm_ups, strict=True):
            series.append(1 - spread_stats(spread, sweep.profiles, age >= warm_up).hit_ratio)
        old = mask
    engine.close()
    return missed


def scale(setup: Setup) -> Measured:
    """PC-11: a node that subscribes to half of all topics joins in."""
    nodes = _nodes(setup)
    base = _subscriptions(_workload(setup), nodes, setup.seed, setup.data)
    if base.topic_count != nodes:
        raise InputError("PC-11 needs a workload in which users are topics")
    giant = np.arange(0, nodes, 2, dtype=np.int32)
    topics = np.concatenate([giant, base.topics[base.start[1] :]])
    start = np.concatenate([[0], base.start[1:] - base.start[1] + giant.size])
    grown = Subscriptions(start, topics, base.topic_count)
    engine = population(grown, INFORMED, setup.seed, setup.threads, np.arange(nodes))
    engine.run(LIMIT)
    sweep = engine.sweep
    assert isinstance(sweep, PolderCastSweep)
    everyone = np.ones(nodes, dtype=np.bool_)
    state = ring_state(sweep, ring_targets(sweep.profiles, everyone))
    _, stats = publish_and_measure(engine, 0, everyone)
    text = (
        f"{nodes:,} nodes, {nodes:,} topics, one node with {giant.size:,}: after {LIMIT} cycles "
        f"{1 - state.incomplete_rings:.1%} of rings complete, hit ratio {stats.hit_ratio:.4%}"
    )
    engine.close()
    return Measured(text, stats.hit_ratio >= 0.999, dataclasses.asdict(stats))


_TRADE_OFF = (
    "hops fall, duplicates rise with f; Cyclon only: neither; Vicinity only: fewer hops, more duplicates"
)
_DEGREE = "grows slower than topics on Twitter, nearly linearly on Facebook"

CLAIMS = (
    Claim("PC-1", "rings close", "≥ 99 % complete within 60 cycles", "S0 §6.2, Fig. 5", rings_close),
    Claim("PC-1+", "rings close, informed", "ours: ≥ 99 % within 60 cycles", "ours", rings_close_informed),
    Claim("PC-2", "events arrive before rings close", "fewer cycles", "S0 §6.2", events_before_rings),
    Claim("PC-3", "without Vicinity", "3–6 times as many cycles", "S0 §6.2, Fig. 5", without_vicinity),
    Claim("PC-4", "nodes with > 400 topics", "the same order of cycles", "S0 §6.2, Fig. 6", large_nodes),
    Claim("PC-5", "ring degree", _DEGREE, "S0 §6.3, Fig. 7", degree),
    Claim("PC-6", "static network", "hit ratio 100 %, overhead 0, duplication ≤ f", "S0 §4", static_network),
    Claim("PC-7", "fan-out and shortcuts", _TRADE_OFF, "S0 §6.4, Fig. 8", fanout_trade_off),
    Claim("PC-10", "Skype churn", "miss ratio ≤ 0.01, momentarily ≤ 0.04", "S0 §6.6, Fig. 11", churn),
    Claim("PC-11", "scale", "10K nodes, 10K topics, 5K topics a node", "S0 abstract", scale),
)
