"""``vinecast bench node``."""

import argparse
from collections.abc import Callable
from typing import Any

from vinecast.cli.output import print_results, progress
from vinecast.cli.values import positive

PARTS = ("two", "ten", "nats")
RIVALS = ("py-libp2p", "js-libp2p", "nats")

Command = Callable[..., argparse.ArgumentParser]


def add_bench_node(subjects: Any, command: Command) -> None:
    """The options; no room is imported for them."""
    parser = command(
        subjects,
        "node",
        bench_node,
        "measure live nodes' speed, next to our targets and to what others do in the same run",
        "vinecast bench node --only two ten --with js-libp2p",
    )
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=PARTS,
        default=PARTS,
        metavar="PART",
        help="two: two nodes; ten: ten nodes' lossless rate; nats: one publisher and ten subscribers",
    )
    parser.add_argument(
        "--with",
        dest="rivals",
        nargs="*",
        choices=RIVALS,
        default=RIVALS,
        metavar="RIVAL",
        help=f"compare with these (default: {', '.join(RIVALS)}, as far as they can be had)",
    )
    parser.add_argument(
        "--events", type=positive, default=20_000, metavar="N", help="of a run (default: %(default)s)"
    )
    parser.add_argument(
        "--repeat",
        type=positive,
        default=3,
        metavar="N",
        help="rounds, the median counts (default: %(default)s)",
    )


def bench_node(arguments: argparse.Namespace) -> int:
    """Measure, and print the table."""
    from vinecast.lab.bench.node import NodePlan, bench_node

    plan = NodePlan(tuple(arguments.only), arguments.events, arguments.repeat, tuple(arguments.rivals))
    title = f"vinecast bench node --repeat {arguments.repeat} --events {arguments.events}"
    title += f" --only {' '.join(arguments.only)}" if arguments.only != PARTS else ""
    title += " ".join(("", "--with", *arguments.rivals)) if arguments.rivals != RIVALS else ""
    with progress("bench", 0) as tell:
        results = list(bench_node(plan, lambda text: tell(0, text)))
    print_results(results, title, arguments.json, arguments.markdown)
    return 0
