"""``vinecast bench node`` and ``vinecast bench rivals``: live nodes, next to what others do."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vinecast.cli.output import print_below, print_json, print_results, print_table, progress
from vinecast.cli.values import positive

PARTS = ("two", "ten")
RIVALS = ("py-libp2p", "js-libp2p")
SCENARIOS = ("one-to-ten", "one-to-one", "ten-to-ten", "paced")
INSTEAD = ("jetstream", "nats", "zenoh", "redis", "mosquitto")
USUAL = {"events": 10_000, "repeat": 3, "seconds": 5}
QUICK = {"events": 1_000, "repeat": 1, "seconds": 1}

Command = Callable[..., argparse.ArgumentParser]


def add_bench_node(subjects: Any, command: Command) -> None:
    """The options; no room is imported for them."""
    parser = command(
        subjects,
        "node",
        bench_node,
        "measure live nodes' speed, next to our targets and to what others do in the same run",
        "vinecast bench node --only ten --with js-libp2p",
    )
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=PARTS,
        default=PARTS,
        metavar="PART",
        help="two: two nodes; ten: ten nodes' lossless rate",
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


def add_bench_rivals(subjects: Any, command: Command) -> None:
    """The options; no room is imported for them."""
    parser = command(
        subjects,
        "rivals",
        bench_rivals,
        "measure Vinecast as it ships (signed, TLS, default settings), next to what users would pick instead",
        "vinecast bench rivals --only one-to-ten paced --with jetstream nats",
    )
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    parser.add_argument("--quick", action="store_true", help="few events, to see that it works")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=SCENARIOS,
        default=SCENARIOS,
        metavar="PART",
        help="publishers and subscribers: one-to-ten, one-to-one, ten-to-ten (as fast as it goes), "
        "paced (one to ten, at some rates)",
    )
    parser.add_argument(
        "--with",
        dest="rivals",
        nargs="*",
        choices=INSTEAD,
        default=INSTEAD,
        metavar="RIVAL",
        help=f"compare with these (default: {', '.join(INSTEAD)}, as far as they can be had)",
    )
    sizes = {
        "events": "of a run; of one by one a tenth",
        "repeat": "turns, the median counts",
        "seconds": "that a rate is published at",
    }
    for name, text in sizes.items():
        text = f"{text} (default: {USUAL[name]})"
        parser.add_argument(f"--{name}", type=positive, metavar="N", help=text)
    folder = "on the disk that keeps streams meanwhile (default: where temporary files go)"
    parser.add_argument("--folder", type=Path, metavar="DIR", help=folder)


def bench_rivals(arguments: argparse.Namespace) -> int:
    """Measure, and print the tables."""
    from vinecast.lab.bench.rivals.plan import RivalPlan
    from vinecast.lab.bench.rivals.rows import FAST, PACED, bench_rivals

    usual = QUICK if arguments.quick else USUAL
    sizes: dict[str, Any] = {name: getattr(arguments, name) or value for name, value in usual.items()}
    plan = RivalPlan(tuple(arguments.only), tuple(arguments.rivals), **sizes, folder=arguments.folder)
    title = "vinecast bench rivals" + "".join(f" --{name} {value}" for name, value in sizes.items())
    title += f" --only {' '.join(arguments.only)}" if arguments.only != SCENARIOS else ""
    title += " ".join(("", "--with", *arguments.rivals)) if arguments.rivals != INSTEAD else ""
    with progress("bench", 0) as tell:
        rows = bench_rivals(plan, lambda text: tell(0, text))
    if arguments.json:
        print_json([row.as_dict() for row in rows])
        return 0
    fast, paced = ([row.cells() for row in rows if row.paced == which] for which in (False, True))
    if fast:
        print_table(FAST, fast, title, arguments.markdown, lines=False)
    if paced:
        below = print_below if fast else print_table
        below(PACED, paced, title, arguments.markdown)
    return 0
