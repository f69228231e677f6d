"""``vinecast bench durable``."""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from vinecast.cli.node_bench import Command, add_sizes, measure_sizes


def add_bench_durable(subjects: Any, command: Command) -> None:
    """The options; no room is imported for them."""
    parser = command(
        subjects,
        "durable",
        bench_durable,
        "measure how fast streams are stored, replayed, opened and caught up with, next to our targets",
        "vinecast bench durable --folder /var/tmp --repeat 5",
    )
    add_sizes(
        parser,
        "short streams, to see that it works",
        events="of a round (default: 50000)",
        repeat="rounds, the median counts (default: 3)",
        stored="events of the stream that is opened (default: 1000000, which take 1 GB of disk for a while)",
        missed="events that a node gets from others after it was off line (default: 100000)",
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
    from vinecast.lab.bench.result import Result

    def both(sizes: DurableSizes, tell: Callable[[str], object]) -> Iterator[Result]:
        for bench in (bench_durable, bench_catch_up):
            yield from bench(sizes, arguments.folder, tell)

    return measure_sizes("durable", arguments, QUICK if arguments.quick else DurableSizes(), both)
