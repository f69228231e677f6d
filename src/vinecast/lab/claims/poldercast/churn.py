"""The claim of S0 §6.6 about churn: Skype's super-peers come and go, and hardly an event is missed."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vinecast.lab.claims.claim import Figure, Measured, Panel, ReferenceLine, Series, Setup, figure_name
from vinecast.lab.claims.poldercast.network import CONTACTS, INFORMED, population, sweep_of
from vinecast.sim.measure.metrics import reach_of
from vinecast.sim.scenario.scenario import find_file
from vinecast.sim.scenario.world import choose_contacts
from vinecast.sim.workload.churn import on_off, read_avt
from vinecast.sim.workload.sample import load_workload
from vinecast.sim.workload.subscriptions import Subscriptions
from vinecast.systems.poldercast.config import PolderCastConfig

TRACE = "skype.avt.gz"
PERIOD_S = 60.0
SETTLED = 20
"""Cycles that the network is given to come together before anything counts (ours)."""
WARM_UPS = (1, 10)
"""Cycles for which newcomers are left out: they neither publish nor count."""
DROPS = 0.02
"""The share of cycles that we count as times of a sharp drop (ours)."""
USUAL, SELDOM = 0.01, 0.04  # S0 §6.6: the miss ratio never grows beyond the first but at a sharp drop


@dataclass(frozen=True, slots=True)
class ChurnRun:
    """A network under churn, cycle by cycle; the outer lists are one a warm-up."""

    missed: list[list[float]]
    """Miss ratio of one event a topic, among nodes older than the warm-up."""
    nodes_missing: list[list[float]]
    """Share of those nodes that missed at least one event."""
    online: list[int]


def churn(setup: Setup) -> Measured:
    """PC-10, PolderCast's half: Skype's churn at one-minute cycles.

    S0 leaves nodes out for the first ten seconds after they join, which is the cycle they join in, and means
    by the miss ratio the share of nodes that missed at least one event. That decides. Besides, it is measured
    over deliveries, and leaving nodes out for ten cycles (S4 §6.6.4), to show what newcomers contribute.
    """
    nodes, cycles = (1000, 2880) if setup.scale == "paper" else (200, 150)
    name = setup.workload or ("slashdot" if setup.scale == "paper" and setup.data else "synthetic")
    if setup.scale == "paper" and setup.data is not None:
        availability = read_avt(find_file(TRACE, Path(), setup.data)).take(nodes)
        trace = "Skype"
    else:
        availability = on_off(setup.seed, nodes, cycles * PERIOD_S, 12 * 3600.0, 6 * 3600.0)
        trace = "synthetic churn (12 h on, 6 h off)"
    subscriptions = load_workload(name, nodes, setup.seed, setup.data)
    masks = availability.at_cycles(PERIOD_S, cycles)
    run = churn_run(subscriptions, masks, INFORMED, setup.seed, setup.threads, WARM_UPS)
    literal = np.array(run.nodes_missing[0][SETTLED:])
    text = "; ".join(
        f"{_few(np.array(series[SETTLED:]))} ({what}, older than {warm_up} cycle{'s' * (warm_up > 1)})"
        for number, warm_up in enumerate(WARM_UPS)
        for what, series in (("nodes", run.nodes_missing[number]), ("deliveries", run.missed[number]))
    )
    text += f" ({trace}, {cycles:,} cycles, {name}, {nodes:,} nodes, f = 2, informed exchange)"
    holds = bool(literal.max() <= SELDOM and (literal > USUAL).mean() <= DROPS)
    values = {
        "online": run.online,
        **{f"missed after {w}": series for w, series in zip(WARM_UPS, run.missed, strict=True)},
        **{f"nodes missing after {w}": series for w, series in zip(WARM_UPS, run.nodes_missing, strict=True)},
    }
    title = f"S0 Fig. 11: dissemination under churn ({trace}, {name}, {nodes:,} nodes, f = 2)"
    figure = Figure(figure_name(11, name), title, _panels(run), columns=1)
    return Measured(text, holds, values, (figure,))


def _few(series: NDArray[np.float64]) -> str:
    over = (series > USUAL).mean()
    return f"{series.mean():.4f} missed, {series.max():.3f} at most, above 0.01 in {over:.0%} of cycles"


def _panels(run: ChurnRun) -> tuple[Panel, ...]:
    hours = (np.arange(len(run.online)) * PERIOD_S / 3600).tolist()
    marks = (
        ReferenceLine(f"S0: {USUAL}", y=USUAL),
        ReferenceLine(f"S0, at a sharp drop: {SELDOM}", y=SELDOM),
    )
    names = ("PolderCast", f"PolderCast, without nodes younger than {WARM_UPS[1]} cycles")
    missed = tuple(Series(name, hours, series) for name, series in zip(names, run.missed, strict=True))
    online = Series("on line", hours, run.online)
    return (
        Panel("miss ratio", "hours", "miss ratio", missed, marks, log_y=True),
        Panel("nodes on line", "hours", "nodes", (online,)),
    )


def churn_run(
    subscriptions: Subscriptions,
    masks: Iterator[NDArray[np.bool_]],
    config: PolderCastConfig,
    seed: int,
    threads: int,
    warm_ups: tuple[int, ...],
) -> ChurnRun:
    """One event a topic after every cycle. Whoever comes knows as many random peers as at the beginning."""
    old = next(masks)
    engine = population(subscriptions, config, seed, threads, np.flatnonzero(old))
    sweep = sweep_of(engine)
    age = np.where(old, max(warm_ups), -1)
    run = ChurnRun([[] for _ in warm_ups], [[] for _ in warm_ups], [])
    for cycle, mask in enumerate(itertools.chain([old], masks)):
        sweep.stop(np.flatnonzero(old & ~mask))
        coming = np.flatnonzero(mask & ~old)
        if coming.size:
            sweep.start(coming, choose_contacts(seed, cycle, coming, np.flatnonzero(old & mask), CONTACTS))
        age = np.where(mask, age + 1, -1)
        engine.run(1)
        run.online.append(int(mask.sum()))
        for number, warm_up in enumerate(warm_ups):
            joined = age >= warm_up
            dissemination = sweep.publish(cycle, publishers=joined).run(engine.divide)
            stats = reach_of(dissemination, sweep.profiles, joined).stats()
            run.missed[number].append(1 - stats.hit_ratio)
            run.nodes_missing[number].append(stats.nodes_missing)
        old = mask
    engine.close()
    return run
