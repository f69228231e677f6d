"""The claims of S0 about dissemination over PolderCast's overlay (§4, §6.4), on a network at rest."""

import functools

import numpy as np
from numpy.typing import NDArray

from vinecast.lab.claims.claim import Figure, Measured, Panel, ReferenceLine, Series, Setup, figure_name
from vinecast.lab.claims.poldercast.network import INFORMED, converge, nodes_of, sweep_of, where, workload_of
from vinecast.sim.engine.network import Network, NetworkConfig, read_matrix
from vinecast.sim.measure.metrics import DisseminationStats, publish_and_measure, relays

FANOUTS = (2, 3, 4, 5, 6, 8, 10)
SHORTCUTS = {
    "both": "PolderCast",
    "mixed": "PolderCast, mixed links",
    "cyclon": "PolderCast, Cyclon links only",
    "vicinity": "PolderCast, Vicinity links only",
}
"""Where random links are taken from, and what that is called in figures."""
MATRIX = "planetlab-490-rtt-ms.txt.gz"
FANOUT_DELAY, FANOUT_COPIES = 2, 4  # of S0 Fig. 8c and 8d; ours: S0 does not say

DELAY = "a) delay against fan-out"
COPIES = "b) duplication against fan-out"
DELAYS = f"c) distribution of delay, f = {FANOUT_DELAY}"
LOAD = f"d) distribution of copies, f = {FANOUT_COPIES}"
"""The panels of S0 Fig. 8."""


@functools.lru_cache(maxsize=2)
def _sweep_fanouts(setup: Setup) -> dict[str, dict[int, DisseminationStats]]:
    run = converge(setup, INFORMED)
    everyone = np.ones(nodes_of(setup), dtype=np.bool_)
    epoch = 10_000
    return {
        kind: {f: publish_and_measure(run.engine, epoch + f, everyone, f, kind)[1] for f in FANOUTS}
        for kind in SHORTCUTS
    }


def static_network(setup: Setup) -> Measured:
    """PC-6: on a network whose rings are all complete; only subscribers ever carry an event."""
    run = converge(setup, INFORMED)
    stats = _sweep_fanouts(setup)["both"]
    hit = min(found.hit_ratio for found in stats.values())
    worst = max(found.duplication / f for f, found in stats.items())
    unwanted = relays(sweep_of(run.engine))
    holds = run.incomplete[-1] == 0 and hit == 1.0 and worst <= 1.0 and unwanted == 0
    text = (
        f"rings complete: {1 - run.incomplete[-1]:.2%}; hit ratio {hit:.4%} at the lowest, duplication at "
        f"most {worst:.2f} f, for f = {FANOUTS[0]} … {FANOUTS[-1]}; {unwanted} ring links to non-subscribers "
        f"({where(setup)})"
    )
    return Measured(text, holds, {"hit_ratio": hit, "duplication_over_f": worst, "relays": unwanted})


def fanout_trade_off(setup: Setup) -> Measured:
    """PC-7.

    S0 compares links of one kind with a combination of both. The union of the views only adds choices, so it
    cannot lie between; a coin for each event can (``mixed``), and decides here. It was tried because the
    union did not fit; both are printed.
    """
    stats = _sweep_fanouts(setup)
    hops = {kind: [found.hops_mean for found in by.values()] for kind, by in stats.items()}
    copies = {kind: [found.duplication for found in by.values()] for kind, by in stats.items()}
    falls = all(b < a for a, b in zip(hops["mixed"], hops["mixed"][1:], strict=False))
    rises = all(b > a for a, b in zip(copies["mixed"], copies["mixed"][1:], strict=False))
    flat = hops["cyclon"][-1] > 0.8 * hops["cyclon"][0] and copies["cyclon"][-1] < 1.25 * copies["cyclon"][0]
    fewer = sum(hops["vicinity"]) < sum(hops["mixed"]) and sum(copies["vicinity"]) > sum(copies["mixed"])
    latency_ms = _latencies_ms(setup)
    load = {kind: _copies_a_node(setup, kind) for kind in SHORTCUTS}
    four = float((load["vicinity"] >= 4).mean())
    text = (
        f"f = {FANOUTS[0]} → {FANOUTS[-1]}, either view by a coin: hops {_arrow(hops['mixed'])}, copies "
        f"{_arrow(copies['mixed'])}; both views: {_arrow(hops['both'])} and {_arrow(copies['both'])}; "
        f"Cyclon only {_arrow(hops['cyclon'])} and {_arrow(copies['cyclon'])}; Vicinity only "
        f"{_arrow(hops['vicinity'])} and {_arrow(copies['vicinity'])}; {four:.0%} of nodes get ≥ 4 copies "
        f"(Vicinity only, f = {FANOUT_COPIES}) ({where(setup)})"
    )
    if latency_ms:
        text += f"; PlanetLab's latencies: {latency_ms[0]:.0f} → {latency_ms[-1]:.0f} ms on average"
    values = {"hops": hops, "duplication": copies, "nodes_with_4_copies": four, "latency_ms": latency_ms}
    panels: tuple[Panel, ...] = (
        _against_fanout(DELAY, "hops, mean", hops),
        _against_fanout(COPIES, "copies received / distinct events", copies),
        delay_panel({SHORTCUTS[kind]: _hops(setup, kind) for kind in SHORTCUTS}),
        _load_panel(load),
    )
    if latency_ms:
        panels += (_against_fanout("delay in milliseconds (PlanetLab)", "ms, mean", {"both": latency_ms}),)
    title = f"S0 Fig. 8: event dissemination ({where(setup)})"
    figure = Figure(figure_name(8, workload_of(setup)), title, panels)
    return Measured(text, falls and rises and flat and fewer, values, (figure,))


def _latencies_ms(setup: Setup) -> list[float]:
    """Mean latency for each fan-out, with PlanetLab's round-trip times; none without the file."""
    if setup.data is None or not (setup.data / MATRIX).is_file():
        return []
    nodes = nodes_of(setup)
    config = NetworkConfig("matrix", matrix=MATRIX)
    delays = Network(config, setup.seed, nodes, read_matrix(setup.data / MATRIX)).delays()
    everyone, engine = np.ones(nodes, dtype=np.bool_), converge(setup, INFORMED).engine
    stats = [publish_and_measure(engine, 10_000 + f, everyone, f, "both", delays)[1] for f in FANOUTS]
    return [found.latency_ms_mean or 0.0 for found in stats]


def _arrow(series: list[float]) -> str:
    return f"{series[0]:.2f} → {series[-1]:.2f}"


def _hops(setup: Setup, kind: str) -> NDArray[np.int64]:
    """Hops of all deliveries but the publishers' own. [delivery]"""
    everyone = np.ones(nodes_of(setup), dtype=np.bool_)
    engine = converge(setup, INFORMED).engine
    dissemination, _ = publish_and_measure(engine, 20_000, everyone, FANOUT_DELAY, kind)
    return dissemination.hops[dissemination.hops > 0].astype(np.int64)


def _copies_a_node(setup: Setup, kind: str) -> NDArray[np.float64]:
    """Copies of an event, averaged over a node's topics. [node with topics]"""
    everyone = np.ones(nodes_of(setup), dtype=np.bool_)
    engine = converge(setup, INFORMED).engine
    dissemination, _ = publish_and_measure(engine, 20_001, everyone, FANOUT_COPIES, kind)
    sweep = sweep_of(engine)
    copies = np.bincount(sweep.profiles.owners(), weights=dissemination.copies, minlength=sweep.nodes)
    size = sweep.table.cnt
    return copies[size > 0] / size[size > 0]


def _against_fanout(title: str, label: str, found: dict[str, list[float]]) -> Panel:
    series = tuple(Series(SHORTCUTS[kind], FANOUTS, values) for kind, values in found.items())
    return Panel(title, "fan-out f", label, series)


def delay_panel(hops: dict[str, NDArray[np.int64]]) -> Panel:
    """The distribution of hops by name of the series. hops: [delivery]"""
    series = []
    for name, found in hops.items():
        count = np.bincount(found)
        shares = 100 * np.cumsum(count) / found.size
        series.append(Series(name, list(range(count.size)), shares.tolist(), style="steps"))
    return Panel(DELAYS, "hops", "% of deliveries within as many", tuple(series))


def _load_panel(load: dict[str, NDArray[np.float64]]) -> Panel:
    grid = np.linspace(0, FANOUT_COPIES + 2, 61)
    series = tuple(
        Series(SHORTCUTS[kind], grid.tolist(), [float(100 * (found >= x).mean()) for x in grid])
        for kind, found in load.items()
    )
    mark = ReferenceLine("S0, Vicinity only: about 20 %", x=4, y=20)
    return Panel(
        LOAD, "copies of an event, mean of a node", "% of nodes with at least as many", series, (mark,)
    )
