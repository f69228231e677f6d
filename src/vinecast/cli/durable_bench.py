"""``vinecast bench durable``."""

import argparse
from pathlib import Path
from typing import Any

from vinecast.cli.node_bench import Command
from vinecast.cli.output import print_results, progress
from vinecast.cli.values import positive


def add_bench_durable(subjects: Any, command: Command) -> None:
    """The options; no room is imported for them."""
    parser = command(
        subjects,
        "durable",
        bench_durable,
        "measure how fast streams are stored, replayed, opened and caught up with, next to our targets",
        "vinecast bench durable --folder /var/tmp --repeat 5",
    )
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--quick", action="store_true", help="short streams, to see that it works")
    parser.add_argument("--events", type=positive, metavar="N", help="of a round (default: 50000)")
    parser.add_argument("--repeat", type=positive, metavar="N", help="rounds, the median counts (default: 3)")
    parser.add_argument(
        "--stored",
        type=positive,
        metavar="N",
        help="events of the stream that is opened (default: 1000000, which take 1 GB of disk for a while)",
    )
    parser.add_argument(
        "--missed",
        type=positive,
        metavar="N",
        help="events that a node gets from others after it was off line (default: 100000)",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        metavar="DIR",
        help="on the disk to measure (default: where temporary files go)",
    )


def bench_durable(arguments: argparse.Namespace) -> int:
    """Measure, and print the table."""
    from vinecast.lab.bench.catch_up import bench_catch_up
    from vinecast.lab.bench.durable import QUICK, DurableSizes, bench_durable

    usual = QUICK if arguments.quick else DurableSizes()
    sizes = DurableSizes(
        arguments.events or usual.events,
        arguments.repeat or usual.repeat,
        arguments.stored or usual.stored,
        arguments.missed or usual.missed,
    )
    title = "vinecast bench durable"
    for option in ("events", "repeat", "stored", "missed"):
        title += f" --{option} {getattr(sizes, option)}"
    with progress("bench", 0) as tell:
        results = [
            result
            for bench in (bench_durable, bench_catch_up)
            for result in bench(sizes, arguments.folder, lambda text: tell(0, text))
        ]
    print_results(results, title, arguments.json, arguments.markdown)
    return 0
