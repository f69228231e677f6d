"""The commands: each imports the room that it needs, and returns an exit code."""

import argparse
import math
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vinecast.cli.output import (
    complain,
    make_console,
    need,
    print_below,
    print_json,
    print_results,
    print_table,
    progress,
)
from vinecast.core.errors import InputError

if TYPE_CHECKING:
    from vinecast.lab.claims.live import LiveOutcome
    from vinecast.lab.claims.registry import Claim, Setup

DATA_VARIABLE = "VINECAST_DATA"
LONG_S = 60.0
"""Seconds left from which on every run that is done is told, where there is no terminal to show progress."""


def data_folder(arguments: argparse.Namespace) -> Path | None:
    given: Path | None = arguments.data
    if given is None and os.environ.get(DATA_VARIABLE):
        given = Path(os.environ[DATA_VARIABLE])
    if given is not None and not given.is_dir():
        raise InputError(f"{given}: no such data folder")
    return given


def sim_run(arguments: argparse.Namespace) -> int:
    with need("vinecast sim run", "sim"):
        from vinecast.sim.measure.overlay import OverlayStats
        from vinecast.sim.scenario.run import run_to_folder
        from vinecast.sim.scenario.scenario import read_scenario
        from vinecast.sim.scenario.show import show

    _check_drawing(arguments)
    overrides = (
        dict(arguments.set) if arguments.seed is None else {**dict(arguments.set), "seed": arguments.seed}
    )
    resolved = read_scenario(arguments.file, overrides)
    scenario = resolved.scenario
    folder = arguments.out or Path("out") / scenario.name
    with progress(scenario.name, scenario.cycles) as tell:

        def watch(cycle: int, stats: OverlayStats | None) -> None:
            online = f" · {stats.online:,} on line" if stats else ""
            tell(cycle + 1, f"{scenario.name}{online}")

        outcome = run_to_folder(
            resolved,
            folder,
            threads=arguments.threads,
            data=data_folder(arguments),
            progress=watch,
            replace=arguments.force,
        )
    _draw_run(arguments, outcome.summary, outcome.rows)
    if arguments.json:
        print_json(outcome.summary)
        return 0
    console = make_console()
    show(console, outcome.summary, outcome.rows, outcome.classes)
    line = f"Written to {folder}; show it again with: vinecast sim show {folder}"
    console.print(line, highlight=False, markup=False, soft_wrap=True)
    return 0


def sim_show(arguments: argparse.Namespace) -> int:
    from vinecast.sim.scenario.show import load, load_classes, show

    _check_drawing(arguments)
    summary, rows = load(arguments.folder)
    _draw_run(arguments, summary, rows)
    if arguments.json:
        print_json(summary)
    else:
        show(make_console(), summary, rows, load_classes(arguments.folder))
    return 0


def _check_drawing(arguments: argparse.Namespace) -> None:
    """Whether figures can be drawn, if they are asked for: before the work, not after it."""
    if arguments.figures is not None:
        from vinecast.sim.measure.figures import check_drawing

        check_drawing()


def _draw_run(arguments: argparse.Namespace, summary: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    if arguments.figures is not None:
        from vinecast.sim.measure.figures import draw
        from vinecast.sim.scenario.show import figure_of

        draw([figure_of(summary, rows)], arguments.figures)


def sim_workload(arguments: argparse.Namespace) -> int:
    with need("vinecast sim workload", "sim"):
        from vinecast.sim.scenario.scenario import find_file
        from vinecast.sim.workload.subscriptions import describe, follower_graph, pattern

    if arguments.kind in ("random", "low", "high"):
        subscriptions = pattern(arguments.kind, arguments.seed, arguments.nodes)
    elif arguments.kind == "follower":
        subscriptions = follower_graph(arguments.seed, arguments.nodes)
    else:
        from vinecast.sim.workload.edges import read_edges, subscriptions_from

        data = data_folder(arguments)
        try:
            path = find_file(arguments.kind, Path(), data)
        except InputError:
            kinds = "random, low, high or follower"
            raise InputError(f"{arguments.kind}: neither a workload ({kinds}) nor a file") from None
        edges = read_edges(path)
        subscriptions = subscriptions_from(edges, directed=not arguments.undirected)
    figures = describe(subscriptions)
    if arguments.json:
        print_json(figures)
        return 0
    rows = [
        (name.replace("_", " "), f"{value:,.4g}" if value % 1 else f"{value:,.0f}")
        for name, value in figures.items()
    ]
    print_table(("figure", "value"), rows, f"{arguments.kind}, seed {arguments.seed}")
    return 0


def bench_sim(arguments: argparse.Namespace) -> int:
    with need("vinecast bench sim", "sim"):
        from vinecast.lab.bench.poldercast import QUICK, PolderCastSizes, bench_poldercast
        from vinecast.lab.bench.quasar import NODES as QUASAR_NODES
        from vinecast.lab.bench.quasar import QUICK as QUICK_QUASAR
        from vinecast.lab.bench.quasar import bench_quasar
        from vinecast.lab.bench.regular import QUICK as QUICK_REGULAR
        from vinecast.lab.bench.regular import RegularSizes as RegularSizes
        from vinecast.lab.bench.regular import bench_regular
        from vinecast.lab.bench.sim import bench_sim
        from vinecast.lab.bench.vitis import NODES as VITIS_NODES
        from vinecast.lab.bench.vitis import QUICK as QUICK_VITIS
        from vinecast.lab.bench.vitis import bench_vitis

    title = f"vinecast bench sim --repeat {arguments.repeat}"
    for option in ("nodes", "largest"):
        if getattr(arguments, option):
            title += f" --{option} {getattr(arguments, option)}"
    title += " --quick" if arguments.quick else ""
    if arguments.system != "cyclon":
        title += " --whole-trace" if arguments.whole_trace else ""
        title += f" --system {arguments.system}" + (" --data DIR" if data_folder(arguments) else "")
    if arguments.system == "poldercast_regular":
        regular = QUICK_REGULAR if arguments.quick else RegularSizes()
        regular = replace(regular, nodes=arguments.nodes or regular.nodes)
        steps = bench_regular(data_folder(arguments), regular, arguments.whole_trace)
    elif arguments.system == "quasar":
        nodes = arguments.nodes or (QUICK_QUASAR if arguments.quick else QUASAR_NODES)
        steps = bench_quasar(nodes, arguments.repeat, arguments.largest)
    elif arguments.system == "vitis":
        nodes = arguments.nodes or (QUICK_VITIS if arguments.quick else VITIS_NODES)
        steps = bench_vitis(nodes, arguments.repeat)
    elif arguments.system == "poldercast":
        sizes = QUICK if arguments.quick else PolderCastSizes()
        sizes = replace(sizes, nodes=arguments.nodes or sizes.nodes)
        data, largest = data_folder(arguments), arguments.largest
        steps = bench_poldercast(data, arguments.repeat, sizes, largest, arguments.whole_trace)
    else:
        nodes, largest = (2_000, 3_000) if arguments.quick else (100_000, 1_000_000)
        steps = bench_sim(arguments.nodes or nodes, arguments.repeat, arguments.largest or largest)
    results = []
    with progress("bench", 0) as tell:
        for result in steps:
            tell(0, result.what)
            results.append(result)
    print_results(results, title, arguments.json, arguments.markdown)
    return 0


def reproduce(arguments: argparse.Namespace) -> int:
    with need("vinecast reproduce", "sim"):
        from vinecast.lab.claims.registry import CLAIMS, Setup, check_claim, select_claims

    if not arguments.claims:
        return _list_claims(CLAIMS, arguments.json)
    chosen = select_claims(arguments.claims)
    _check_drawing(arguments)
    data = data_folder(arguments)
    setup = Setup(
        arguments.scale,
        arguments.seed,
        arguments.threads,
        data,
        arguments.workload,
        arguments.seeds,
        arguments.periods,
        arguments.keep,
        None if arguments.no_live else _run_live,
    )
    if arguments.spark is not None and arguments.keep is None:
        raise InputError("Spark's tasks need a folder for what they find: give one with --keep DIR")
    _do_runs(chosen, setup, arguments.spark)
    verdicts = []
    with progress("reproduce", len(chosen)) as tell:
        for done, claim in enumerate(chosen):
            tell(done, f"{claim.id}: {claim.title}")
            verdicts.append(check_claim(claim, setup, alone=len(chosen) == 1))
    if arguments.figures is not None:
        from vinecast.sim.measure.figures import draw

        draw([figure for verdict in verdicts for figure in verdict.figures], arguments.figures)
    if arguments.json:
        print_json([verdict.as_dict() for verdict in verdicts])
    else:
        rows = [
            (f"{v.claim.id} {v.claim.title}", v.claim.paper, v.measured, "yes" if v.holds else "no")
            for v in verdicts
        ]
        ids = " ".join(arguments.claims)
        title = f"vinecast reproduce {ids} --scale {arguments.scale} --seed {arguments.seed}"
        if arguments.workload:
            title += f" --workload {arguments.workload}"
        if arguments.seeds:
            title += f" --seeds {arguments.seeds}"
        if arguments.periods:
            title += f" --periods {','.join(map(str, arguments.periods))}"
        if data is not None:
            title += " --data DIR"
        if arguments.no_live:
            title += " --no-live"
        print_table(("claim", "paper", "measured", "holds"), rows, title, arguments.markdown)
        for verdict in verdicts:
            if "table" in verdict.values:
                table, title = verdict.values["table"], f"{verdict.claim.id}: {verdict.claim.title}"
                print_below(table["headings"], table["rows"], title, arguments.markdown)
    return 0 if all(verdict.holds for verdict in verdicts) else 1


def _run_live(claim: str, scale: str, seed: int) -> "LiveOutcome":
    """A claim's live half: claims know no live node, so they are handed this."""
    from vinecast.lab.localnet.durable_kinds import run_live

    return run_live(claim, scale, seed)


def _do_runs(chosen: "Sequence[Claim]", setup: "Setup", spark: str | None) -> None:
    """Do the runs that claims need, several at a time, or on Spark."""
    from vinecast.lab.runs.run_cache import Job, check_folder, do, missing

    jobs: list[Job] = []
    for claim in chosen:
        with suppress(InputError):  # the claim itself will say what it lacks
            jobs += claim.needs(setup)
    due = missing(jobs)
    if due and setup.keep is not None:
        check_folder(setup.keep)
        if not sys.stderr.isatty():  # runs worth keeping may take long
            complain(f"{len(due)} of {len(set(jobs))} runs to do")
    with progress("runs", len(due)) as tell:

        def told(done: int, of: int, name: str, left_s: float) -> None:
            text = f"{done} of {of} runs done, about {math.ceil(left_s / 60)} min left ({name})"
            tell(done, text, of)
            if left_s >= LONG_S and not sys.stderr.isatty():
                complain(text)

        do(due, setup.threads, told, spark)


def _list_claims(claims: Any, as_json: bool) -> int:
    listed = list(claims.values())
    if as_json:
        print_json([{"claim": c.id, "title": c.title, "paper": c.paper, "source": c.source} for c in listed])
        return 0
    rows = [(claim.id, claim.title, claim.paper, claim.source) for claim in listed]
    print_table(("claim", "what it says", "paper", "source"), rows, "claims")
    make_console().print(
        "Check some with: vinecast reproduce CLAIM…, or all of them with: vinecast reproduce all"
    )
    return 0
