"""``vinecast bench content``."""

import argparse
from typing import Any

from vinecast.cli.node_bench import Command, add_sizes, measure_sizes
from vinecast.cli.output import need


def add_bench_content(subjects: Any, command: Command) -> None:
    """The options; no room is imported for them."""
    parser = command(
        subjects,
        "content",
        bench_content,
        "measure what it saves to route events by content, on live nodes",
        "vinecast bench content --nodes 40 --one-in 16",
    )
    add_sizes(
        parser,
        "few nodes, to see that it works",
        nodes="default: 40",
        events="default: 400",
        one_in="of all events, one in so many matches (default: 16)",
    )


def bench_content(arguments: argparse.Namespace) -> int:
    """Measure, and print the table."""
    with need("vinecast bench content", "node"):
        from vinecast.lab.bench.content import QUICK, ContentSizes, bench_content

    return measure_sizes("content", arguments, QUICK if arguments.quick else ContentSizes(), bench_content)
