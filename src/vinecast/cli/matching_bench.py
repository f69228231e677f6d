"""``vinecast bench matching``."""

import argparse
from typing import Any

from vinecast.cli.node_bench import Command, add_sizes, measure_sizes
from vinecast.cli.output import need


def add_bench_matching(subjects: Any, command: Command) -> None:
    """The options; no room is imported for them."""
    parser = command(
        subjects,
        "matching",
        bench_matching,
        "measure how fast events are matched against many content filters, by the index and by a scan",
        "vinecast bench matching --filters 100000 --attributes 3",
    )
    add_sizes(
        parser,
        "few filters, to see that it works",
        filters="default: 100000",
        attributes="of the schema (default: 3)",
        events="of a round (default: 300)",
        repeat="rounds, the best counts (default: 3)",
    )


def bench_matching(arguments: argparse.Namespace) -> int:
    """Measure, and print the table."""
    with need("vinecast bench matching", "sim"):
        from vinecast.lab.bench.matching import QUICK, MatchingSizes, bench_matching

    return measure_sizes("matching", arguments, QUICK if arguments.quick else MatchingSizes(), bench_matching)
