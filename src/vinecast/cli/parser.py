"""What can be typed, with help and examples."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from vinecast import __version__
from vinecast.cli.bench import add_sized_benches
from vinecast.cli.campaign import add_campaign
from vinecast.cli.commands import DATA_VARIABLE, bench_sim, reproduce, sim_run, sim_show, sim_workload
from vinecast.cli.content import add_schema
from vinecast.cli.mutants import add_mutants
from vinecast.cli.net import add_net
from vinecast.cli.node import add_node
from vinecast.cli.node_bench import add_bench_node, add_bench_rivals
from vinecast.cli.pipeline import add_pipeline
from vinecast.cli.pipeline_bench import add_bench_pipeline
from vinecast.cli.replay import add_replay
from vinecast.cli.topic import add_topic
from vinecast.cli.values import positive, positives, seed, setting
from vinecast.core.errors import InputError


class _Parser(argparse.ArgumentParser):
    """A parser that complains in one sentence."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message} (see {self.prog} --help)")


def build_parser() -> argparse.ArgumentParser:
    """All commands with their help."""
    parser = _Parser(
        prog="vinecast",
        description="Peer-to-peer publish/subscribe: topics, content filters, durable streams; no broker.",
        epilog="example: vinecast sim run scenarios/cyclon-churn.toml",
    )
    parser.add_argument("--version", action="version", version=f"vinecast {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    add_node(commands, _command)
    add_topic(commands, _command)
    add_schema(commands, _command)
    add_net(commands, _command)
    add_replay(commands, _command)
    _add_sim(commands)
    add_pipeline(commands, _command)
    _add_bench(commands)
    add_campaign(commands, _command)
    add_mutants(commands, _command)
    _add_reproduce(commands)
    return parser


def _command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], about: str, example: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=about, description=about[0].upper() + about[1:] + ".", epilog=f"example: {example}"
    )
    parser.set_defaults(run=run)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    return parser


def _add_markdown(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")


def _add_figures(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--figures", type=Path, metavar="DIR", help="also draw figures there, as PNG and SVG")


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help=f"folder with traces, graphs and latency matrices (default: ${DATA_VARIABLE})",
    )


def _add_threads(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--threads",
        type=positive,
        default=_cores(),
        metavar="N",
        help="threads (default: all cores, %(default)s)",
    )


def _add_sim(commands: Any) -> None:
    sim = commands.add_parser(
        "sim", help="simulate", description="Simulate networks.", epilog="example: vinecast sim run FILE.toml"
    )
    actions = sim.add_subparsers(title="actions", metavar="ACTION", required=True)

    run = _command(
        actions,
        "run",
        sim_run,
        "run a scenario and write its folder",
        "vinecast sim run scenarios/cyclon-churn.toml",
    )
    run.add_argument("file", type=Path, metavar="FILE", help="the scenario, a TOML file")
    run.add_argument("--out", type=Path, metavar="DIR", help="folder to write (default: out/NAME)")
    run.add_argument("--force", action="store_true", help="replace an earlier run's folder")
    run.add_argument("--seed", type=seed, metavar="N", help="another seed than the scenario's")
    run.add_argument(
        "--set",
        action="append",
        default=[],
        type=setting,
        metavar="KEY=VALUE",
        help="another value than the scenario's, such as --set workload.kind=synthetic; can be repeated",
    )
    _add_figures(run)
    _add_threads(run)
    _add_data(run)

    show = _command(actions, "show", sim_show, "show a run again", "vinecast sim show out/cyclon-churn")
    show.add_argument("folder", type=Path, metavar="FOLDER", help="a run's folder")
    _add_figures(show)

    workload = _command(
        actions,
        "workload",
        sim_workload,
        "describe a subscription workload",
        "vinecast sim workload follower --nodes 10000",
    )
    workload.add_argument(
        "kind",
        metavar="KIND",
        help="random, low or high (S2 §3.6.1), follower (synthetic follower graph), or a file of edges",
    )
    workload.add_argument("--nodes", type=positive, default=10_000, metavar="N", help="default: %(default)s")
    workload.add_argument("--seed", type=seed, default=1, metavar="N", help="default: %(default)s")
    workload.add_argument("--undirected", action="store_true", help="both ends of an edge follow each other")
    _add_data(workload)


def _add_bench(commands: Any) -> None:
    bench = commands.add_parser(
        "bench", help="measure speed and memory", description="Measure.", epilog="example: vinecast bench sim"
    )
    subjects = bench.add_subparsers(title="subjects", metavar="SUBJECT", required=True)
    sim = _command(
        subjects,
        "sim",
        bench_sim,
        "measure the simulator's speed and memory, next to our targets",
        "vinecast bench sim --nodes 100000 --repeat 5",
    )
    _add_markdown(sim)
    sim.add_argument(
        "--system",
        choices=("cyclon", "poldercast", "poldercast_regular", "quasar", "vitis"),
        default="cyclon",
        help="default: %(default)s; poldercast_regular measures the run of S4 (1,000 nodes, the Skype trace)",
    )
    sim.add_argument("--quick", action="store_true", help="small populations, to see that it works")
    sim.add_argument(
        "--nodes",
        type=positive,
        metavar="N",
        help="default: 100000, or 10000 where nodes have topics (quasar: 32768)",
    )
    sim.add_argument("--repeat", type=positive, default=5, metavar="N", help="rounds (default: %(default)s)")
    sim.add_argument(
        "--largest",
        type=positive,
        metavar="N",
        help="for the last memory test (default: 1000000; where nodes have topics, left out)",
    )
    sim.add_argument(
        "--whole-trace",
        action="store_true",
        help="churn: all of the trace instead of a stretch (poldercast, poldercast_regular)",
    )
    _add_data(sim)
    add_bench_pipeline(subjects, _command)
    add_bench_node(subjects, _command)
    add_bench_rivals(subjects, _command)
    add_sized_benches(subjects, _command)


def _add_reproduce(commands: Any) -> None:
    parser = _command(
        commands,
        "reproduce",
        reproduce,
        "check claims of the papers: claim, paper's value, ours, whether it holds",
        "vinecast reproduce CY-1 CY-2 --scale small",
    )
    _add_markdown(parser)
    parser.add_argument(
        "claims", nargs="*", metavar="CLAIM", help="claim ids; none lists all; 'all' checks all"
    )
    parser.add_argument(
        "--scale",
        choices=("small", "paper"),
        default="paper",
        help="small: seconds; paper: the real size (default)",
    )
    parser.add_argument(
        "--workload",
        choices=("facebook", "slashdot", "twitter", "synthetic", "reddit", "uniform", "zipf"),
        help="whose subscriptions (default: facebook at paper scale with a data folder, else synthetic); "
        "PU-5: reddit, uniform or zipf (default: all, reddit with a data folder)",
    )
    parser.add_argument("--seed", type=seed, default=1, metavar="N", help="default: %(default)s")
    parser.add_argument(
        "--seeds", type=positive, metavar="N", help="RE-6 … RE-13: average over so many (default: S4's four)"
    )
    parser.add_argument(
        "--periods", type=positives, metavar="S[,S…]", help="RE-6 … RE-13: only cycles of so many seconds"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="DIR",
        help="keep finished runs there: what was stopped goes on where it was",
    )
    parser.add_argument(
        "--spark",
        nargs="?",
        const="local",
        metavar="MASTER",
        help="do those runs as one Spark sweep, here or on a cluster such as spark://host:7077; it needs "
        "--keep, a folder that all machines share",
    )
    parser.add_argument(
        "--no-live",
        action="store_true",
        help="PU-1 … PU-6: only by simulation, without real processes that are killed",
    )
    _add_figures(parser)
    _add_threads(parser)
    _add_data(parser)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
