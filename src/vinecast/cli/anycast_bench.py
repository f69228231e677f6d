"""``vinecast bench anycast``."""

import argparse
from dataclasses import asdict
from typing import Any

from vinecast.cli.node_bench import Command
from vinecast.cli.output import need, print_results, progress
from vinecast.cli.values import positive


def add_bench_anycast(subjects: Any, command: Command) -> None:
    """The options; no room is imported for them."""
    parser = command(
        subjects,
        "anycast",
        bench_anycast,
        "measure what filters cost to keep up, and how far a search for a subscriber goes",
        "vinecast bench anycast --nodes 500",
    )
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--quick", action="store_true", help="few nodes, to see that it works")
    parser.add_argument("--nodes", type=positive, metavar="N", help="default: 500")
    parser.add_argument("--topics", type=positive, metavar="N", help="of each node (default: 5)")
    parser.add_argument("--searches", type=positive, metavar="N", help="default: 100")


def bench_anycast(arguments: argparse.Namespace) -> int:
    """Measure, and print the table."""
    with need("vinecast bench anycast", "sim"):
        from vinecast.lab.bench.anycast import QUICK, AnycastSizes, bench_anycast

    usual = asdict(QUICK if arguments.quick else AnycastSizes())
    sizes = AnycastSizes(**{option: getattr(arguments, option) or value for option, value in usual.items()})
    title = "vinecast bench anycast"
    for option, value in asdict(sizes).items():
        title += f" --{option} {value}"
    with progress("bench", 0) as tell:
        results = list(bench_anycast(sizes, lambda text: tell(0, text)))
    print_results(results, title, arguments.json, arguments.markdown)
    return 0
