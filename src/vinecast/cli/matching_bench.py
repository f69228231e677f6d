"""``vinecast bench matching``."""

import argparse
from dataclasses import asdict
from typing import Any

from vinecast.cli.node_bench import Command
from vinecast.cli.output import need, print_results, progress
from vinecast.cli.values import positive


def add_bench_matching(subjects: Any, command: Command) -> None:
    """The options; no room is imported for them."""
    parser = command(
        subjects,
        "matching",
        bench_matching,
        "measure how fast events are matched against many content filters, by the index and by a scan",
        "vinecast bench matching --filters 100000 --attributes 3",
    )
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--quick", action="store_true", help="few filters, to see that it works")
    parser.add_argument("--filters", type=positive, metavar="N", help="default: 100000")
    parser.add_argument("--attributes", type=positive, metavar="N", help="of the schema (default: 3)")
    parser.add_argument("--events", type=positive, metavar="N", help="of a round (default: 300)")
    parser.add_argument("--repeat", type=positive, metavar="N", help="rounds, the best counts (default: 3)")


def bench_matching(arguments: argparse.Namespace) -> int:
    """Measure, and print the table."""
    with need("vinecast bench matching", "sim"):
        from vinecast.lab.bench.matching import QUICK, MatchingSizes, bench_matching

    usual = asdict(QUICK if arguments.quick else MatchingSizes())
    sizes = MatchingSizes(**{option: getattr(arguments, option) or value for option, value in usual.items()})
    title = "vinecast bench matching"
    for option, value in asdict(sizes).items():
        title += f" --{option} {value}"
    with progress("bench", 0) as tell:
        results = list(bench_matching(sizes, lambda text: tell(0, text)))
    print_results(results, title, arguments.json, arguments.markdown)
    return 0
