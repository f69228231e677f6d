"""``vinecast bench content``."""

import argparse
from dataclasses import asdict
from typing import Any

from vinecast.cli.node_bench import Command
from vinecast.cli.output import need, print_results, progress
from vinecast.cli.values import positive


def add_bench_content(subjects: Any, command: Command) -> None:
    """The options; no room is imported for them."""
    parser = command(
        subjects,
        "content",
        bench_content,
        "measure what it saves to route events by content, on live nodes",
        "vinecast bench content --nodes 40 --one-in 16",
    )
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--quick", action="store_true", help="few nodes, to see that it works")
    parser.add_argument("--nodes", type=positive, metavar="N", help="default: 40")
    parser.add_argument("--events", type=positive, metavar="N", help="default: 400")
    parser.add_argument(
        "--one-in", type=positive, metavar="N", help="of all events, one in so many matches (default: 16)"
    )


def bench_content(arguments: argparse.Namespace) -> int:
    """Measure, and print the table."""
    with need("vinecast bench content", "node"):
        from vinecast.lab.bench.content import QUICK, ContentSizes, bench_content

    usual = asdict(QUICK if arguments.quick else ContentSizes())
    sizes = ContentSizes(**{option: getattr(arguments, option) or value for option, value in usual.items()})
    title = "vinecast bench content"
    for option, value in asdict(sizes).items():
        title += f" --{option.replace('_', '-')} {value}"
    with progress("bench", 0) as tell:
        results = list(bench_content(sizes, lambda text: tell(0, text)))
    print_results(results, title, arguments.json, arguments.markdown)
    return 0
