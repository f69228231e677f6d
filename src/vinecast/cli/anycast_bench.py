"""``vinecast bench anycast``."""

import argparse
from typing import Any

from vinecast.cli.node_bench import Command, add_sizes, measure_sizes
from vinecast.cli.output import need


def add_bench_anycast(subjects: Any, command: Command) -> None:
    """The options; no room is imported for them."""
    parser = command(
        subjects,
        "anycast",
        bench_anycast,
        "measure what filters cost to keep up, and how far a search for a subscriber goes",
        "vinecast bench anycast --nodes 500",
    )
    add_sizes(
        parser,
        "few nodes, to see that it works",
        nodes="default: 500",
        topics="of each node (default: 5)",
        searches="default: 100",
    )


def bench_anycast(arguments: argparse.Namespace) -> int:
    """Measure, and print the table."""
    with need("vinecast bench anycast", "sim"):
        from vinecast.lab.bench.anycast import QUICK, AnycastSizes, bench_anycast

    return measure_sizes("anycast", arguments, QUICK if arguments.quick else AnycastSizes(), bench_anycast)
