"""The claims of S0 about PolderCast's overlay: how fast it comes together, its degree, its scale.

Dissemination is in ``events``, churn in ``churn``; all of them are listed here.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from vinecast.core.errors import InputError
from vinecast.lab.claims.claim import (
    Claim,
    Figure,
    Measured,
    Panel,
    ReferenceLine,
    Series,
    Setup,
    figure_name,
)
from vinecast.lab.claims.poldercast.churn import churn
from vinecast.lab.claims.poldercast.events import fanout_trade_off, static_network
from vinecast.lab.claims.poldercast.network import (
    CONTROL,
    INFORMED,
    MOST_CYCLES,
    PAPER,
    WITHOUT_VICINITY,
    Convergence,
    converge,
    nodes_of,
    population,
    subscriptions_of,
    sweep_of,
    where,
    workload_of,
)
from vinecast.sim.measure.metrics import (
    means_by_size,
    popularity,
    publish_and_measure,
    ring_state,
    ring_targets,
)
from vinecast.sim.workload.subscriptions import Subscriptions
from vinecast.systems.poldercast.config import PolderCastConfig

LIMIT = 60  # S0 §6.2: cycles within which 99 % of the rings are complete
DONE = 0.01
FEW = 8  # ours: topics with fewer subscribers are rare
CURVES = {
    PAPER: "paper's exchange",
    INFORMED: "informed exchange (ours)",
    WITHOUT_VICINITY: "paper's exchange, without Vicinity",
}


def _cycles(cycles: int | None, most: int) -> str:
    return f"{cycles}" if cycles is not None else f"more than {most}"


def _convergence_figure(
    setup: Setup, *configs: PolderCastConfig, most: int = MOST_CYCLES, enough: float = 0.0
) -> Figure:
    """S0 Fig. 5. Each claim gives the curves that it knows; together they make the figure."""
    runs = {CURVES[config]: converge(setup, config, most, enough) for config in configs}
    limit = ReferenceLine(f"S0: {LIMIT} cycles", x=LIMIT)
    return Figure(
        figure_name(5, workload_of(setup)),
        f"S0 Fig. 5: speed of convergence ({where(setup)})",
        (
            _curves("missing ring links", "% of ring links", {n: r.missing for n, r in runs.items()}),
            _curves(
                "incomplete rings",
                "% of rings",
                {n: r.incomplete for n, r in runs.items()},
                limit,
                ReferenceLine("99 % complete", y=100 * DONE),
            ),
            _curves("events missed", "% of deliveries", {n: r.missed for n, r in runs.items()}),
            _curves("disconnected topics", "% of topics", {n: r.disconnected for n, r in runs.items()}),
        ),
    )


def _curves(title: str, label: str, found: dict[str, list[float]], *marks: ReferenceLine) -> Panel:
    series = tuple(
        Series(name, list(range(1, len(shares) + 1)), [100 * share for share in shares])
        for name, shares in found.items()
    )
    return Panel(title, "cycles", label, series, marks, log_y=True)


def _ring_claim(setup: Setup, config: PolderCastConfig) -> Measured:
    run = converge(setup, config)
    at = min(LIMIT, len(run.incomplete)) - 1
    took = run.first(run.incomplete, DONE)
    text = (
        f"after {at + 1} cycles {1 - run.incomplete[at]:.1%} of rings complete, {run.missing[at]:.2%} of "
        f"links missing; 99 % after {_cycles(took, len(run.incomplete))} cycles ({where(setup)})"
    )
    values = {"incomplete": run.incomplete, "missing": run.missing, "missed": run.missed, "cycles": took}
    figures = (_convergence_figure(setup, config), _control_figure(setup, config))
    return Measured(text, took is not None and took <= LIMIT, values, figures)


def _control_figure(setup: Setup, config: PolderCastConfig) -> Figure:
    """PolderCast's part of S0 Fig. 9: messages by the number of subscriptions, averaged in classes."""
    run = converge(setup, config)
    sizes, messages = means_by_size(sweep_of(run.engine).table.cnt, run.control, by_class=True)
    a_cycle = [value / len(run.incomplete) for value in messages]
    series = Series(f"PolderCast, {CURVES[config]}", sizes, a_cycle)
    panel = Panel(CONTROL, "subscriptions", "sent and received a cycle", (series,), log_x=True, log_y=True)
    title = f"S0 Fig. 9: control messages ({where(setup)})"
    return Figure(figure_name(9, workload_of(setup)), title, (panel,))


def rings_close(setup: Setup) -> Measured:
    """PC-1, the exchange as S0 describes it."""
    return _ring_claim(setup, PAPER)


def rings_close_informed(setup: Setup) -> Measured:
    """PC-1+, our informed exchange: the same number of messages and of entries in each."""
    return _ring_claim(setup, INFORMED)


def events_before_rings(setup: Setup) -> Measured:
    """PC-2."""
    run = converge(setup, PAPER)
    rings, events = run.first(run.incomplete, 0.0), run.first(run.missed, 0.0)
    most = len(run.incomplete)
    holds = events is not None and (rings is None or events < rings)
    text = f"no event missed after {_cycles(events, most)} cycles, rings closed after {_cycles(rings, most)}"
    values = {"events": events, "rings": rings}
    return Measured(f"{text} ({where(setup)})", holds, values, (_convergence_figure(setup, PAPER),))


def without_vicinity(setup: Setup) -> Measured:
    """PC-3: by the cycles until 99 % of rings are complete, and until 99 % of their links are in place."""
    with_it = converge(setup, PAPER)
    waited = len(with_it.incomplete)
    base = with_it.first(with_it.incomplete, DONE)
    most = 8 * (base or waited)
    without = converge(setup, WITHOUT_VICINITY, most, DONE)
    took = without.first(without.incomplete, DONE)
    ratio = took / base if took is not None and base is not None else None
    factor = f": {ratio:.1f} times" if ratio is not None else ""
    links = without.first(without.missing, DONE), with_it.first(with_it.missing, DONE)
    text = (
        f"99 % of rings after {_cycles(took, most)} cycles instead of {_cycles(base, waited)}{factor}; 99 % "
        f"of their links after {_cycles(links[0], most)} instead of {_cycles(links[1], waited)}"
    )
    for few, size in ((True, f"fewer than {FEW}"), (False, f"{FEW} or more")):
        text += f"; rings of {size} close after {_mean_closing(without, few):.0f} cycles on average instead "
        text += f"of {_mean_closing(with_it, few):.0f}"
    holds = ratio is not None and 3 <= ratio <= 6
    figures = (
        _convergence_figure(setup, PAPER),
        _convergence_figure(setup, WITHOUT_VICINITY, most=most, enough=DONE),
    )
    values = {"with": base, "without": took, "ratio": ratio, "incomplete": without.incomplete}
    return Measured(f"{text} ({where(setup)})", holds, values, figures)


def _mean_closing(run: Convergence, few: bool) -> float:
    """After how many cycles the rings of rare topics, or of all others, stay complete; those that did not,
    count as if they had at the end."""
    size = popularity(sweep_of(run.engine).profiles)
    return float(run.closed[(size >= 2) & ((size < FEW) == few)].mean())


def large_nodes(setup: Setup) -> Measured:
    """PC-4: at small scale, the largest hundredth of the nodes stands in for those with over 400 topics."""
    run = converge(setup, PAPER)
    size = sweep_of(run.engine).table.cnt
    limit = 400 if (size > 400).any() else int(np.quantile(size, 0.99))
    large, small = run.settled[size > limit], run.settled[(size > 0) & (size <= limit)]
    ratio = float(large.mean() / max(small.mean(), 1.0))
    text = (
        f"all links in place after {large.mean():.0f} cycles on average for nodes with over {limit} topics "
        f"({large.size} of them), {small.mean():.0f} for the rest: {ratio:.2f} times ({where(setup)})"
    )
    values = {"large": float(large.mean()), "small": float(small.mean())}
    return Measured(text, ratio <= 3, values, (_size_figure(setup, run),))


def _size_figure(setup: Setup, run: Convergence) -> Figure:
    """S0 Fig. 6."""
    profiles = sweep_of(run.engine).profiles
    nodes = _by_size("subscriptions of a node", "cycles until its links stay", profiles.cnt, run.settled)
    rings = _by_size(
        "subscribers of a topic", "cycles until its ring stays complete", popularity(profiles), run.closed
    )
    title = f"S0 Fig. 6: convergence and size, {CURVES[PAPER]} ({where(setup)})"
    return Figure(figure_name(6, workload_of(setup)), title, (nodes, rings))


def _by_size(
    title: str, label: str, size: NDArray[np.int32] | NDArray[np.int64], y: NDArray[np.int64]
) -> Panel:
    one, by_class = means_by_size(size, y, by_class=False), means_by_size(size, y, by_class=True)
    series = (Series("mean of one size", *one, style="points"), Series("mean of a class of sizes", *by_class))
    return Panel(title, title, label, series, log_x=True)


def degree(setup: Setup) -> Measured:
    """PC-5: distinct ring neighbours (nearest on either side) against twice the number of topics.

    Complete rings are the same whichever exchange completed them.
    """
    sweep = sweep_of(converge(setup, INFORMED).engine)
    distinct = sweep.degrees()
    size = sweep.table.cnt
    many = size >= max(np.quantile(size[size > 0], 0.5), 1)
    exponent = float(np.polyfit(np.log(size[many]), np.log(np.maximum(distinct[many], 1)), 1)[0])
    share = float(distinct[many].sum() / (2 * size[many].sum()))
    linear = workload_of(setup) == "facebook"
    holds = exponent >= 0.9 if linear else exponent < 0.9
    text = f"degree grows like topics^{exponent:.2f} and is {share:.0%} of 2 × topics ({where(setup)})"
    figures = (_degree_figure(setup, size, distinct),)
    return Measured(text, holds, {"exponent": exponent, "share": share}, figures)


def _degree_figure(setup: Setup, size: NDArray[np.int32], distinct: NDArray[np.int64]) -> Figure:
    """S0 Fig. 7."""
    ours, most = "ring degree", "two links a topic"
    sizes, degrees = means_by_size(size, distinct, by_class=False)
    against = Panel(
        "degree against subscriptions",
        "subscriptions of a node",
        "distinct ring neighbours, mean",
        (Series(ours, sizes, degrees, style="points"), Series(most, sizes, [2 * x for x in sizes])),
        log_x=True,
        log_y=True,
    )
    spread = Panel(
        "distribution of degrees",
        "degree",
        "share of nodes with at least as many",
        (Series(ours, *at_least(distinct), style="steps"), Series(most, *at_least(2 * size), style="steps")),
        log_x=True,
        log_y=True,
    )
    title = f"S0 Fig. 7: node degree in the Rings layer ({where(setup)})"
    return Figure(figure_name(7, workload_of(setup)), title, (against, spread))


def at_least(values: NDArray[np.int32] | NDArray[np.int64]) -> tuple[list[float], list[float]]:
    """Every value that occurs, and the share of all that are not below it."""
    found, count = np.unique(values, return_counts=True)
    share = np.cumsum(count[::-1])[::-1] / values.size
    return found.astype(float).tolist(), share.tolist()


def scale(setup: Setup) -> Measured:
    """PC-11: a node that subscribes to half of all topics joins in."""
    nodes = nodes_of(setup)
    base = subscriptions_of(setup)
    if base.topic_count != nodes:
        raise InputError("PC-11 needs a workload in which users are topics")
    giant = np.arange(0, nodes, 2, dtype=np.int32)
    topics = np.concatenate([giant, base.topics[base.start[1] :]])
    start = np.concatenate([[0], base.start[1:] - base.start[1] + giant.size])
    grown = Subscriptions(start, topics, base.topic_count)
    engine = population(grown, INFORMED, setup.seed, setup.threads, np.arange(nodes))
    engine.run(LIMIT)
    sweep = sweep_of(engine)
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
