"""``vinecast bench durable``, ``matching``, ``content`` and others: benchmarks whose sizes can be set."""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from vinecast.cli.node_bench import Command
from vinecast.cli.output import need, print_results, progress
from vinecast.cli.values import positive

FEW = "few nodes, to see that it works"


def add_sized_benches(subjects: Any, command: Command) -> None:
    """The options; no room is imported for them."""
    about = "measure how fast streams are stored, replayed, opened and caught up with, next to our targets"
    example = "vinecast bench durable --folder /var/tmp --repeat 5"
    parser = command(subjects, "durable", bench_durable, about, example)
    _add_sizes(
        parser,
        "short streams, to see that it works",
        events="of a round (default: 50000)",
        repeat="rounds, the median counts (default: 3)",
        stored="events of the stream that is opened (default: 1000000, which take 1 GB of disk for a while)",
        missed="events that a node gets from others after it was off line (default: 100000)",
    )
    folder = "on the disk to measure (default: where temporary files go)"
    parser.add_argument("--folder", type=Path, metavar="DIR", help=folder)
    about = "measure how fast events are matched against many content filters, by the index and by a scan"
    example = "vinecast bench matching --filters 100000 --attributes 3"
    _add_sizes(
        command(subjects, "matching", bench_matching, about, example),
        "few filters, to see that it works",
        filters="default: 100000",
        attributes="of the schema (default: 3)",
        events="of a round (default: 300)",
        repeat="rounds, the best counts (default: 3)",
    )
    about = "measure what it saves to route events by content, on live nodes"
    example = "vinecast bench content --nodes 40 --one-in 16"
    one_in = "of all events, one in so many matches (default: 16)"
    parser = command(subjects, "content", bench_content, about, example)
    _add_sizes(parser, FEW, nodes="default: 40", events="default: 400", one_in=one_in)
    about = "measure what filters cost to keep up, and how far a search for a subscriber goes"
    parser = command(subjects, "anycast", bench_anycast, about, "vinecast bench anycast --nodes 500")
    topics = "of each node (default: 5)"
    _add_sizes(parser, FEW, nodes="default: 500", topics=topics, searches="default: 100")
    about = "measure how fast whole peers are simulated, next to our targets"
    parser = command(subjects, "peers", bench_peers, about, "vinecast bench peers --seeds 100")
    seeds, repeat = "of the campaign (default: 60)", "standard runs, the median counts (default: 5)"
    _add_sizes(parser, "few seeds, to see that it works", seeds=seeds, repeat=repeat)


def _add_sizes(parser: argparse.ArgumentParser, quick: str, **sizes: str) -> None:
    """The options of a benchmark with sizes; each with its help."""
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--quick", action="store_true", help=quick)
    for name, text in sizes.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=positive, metavar="N", help=text)


def bench_durable(arguments: argparse.Namespace) -> int:
    from vinecast.lab.bench.catch_up import bench_catch_up
    from vinecast.lab.bench.durable import QUICK, DurableSizes, bench_durable
    from vinecast.lab.bench.result import Result

    def both(sizes: DurableSizes, tell: Callable[[str], object]) -> Iterator[Result]:
        for bench in (bench_durable, bench_catch_up):
            yield from bench(sizes, arguments.folder, tell)

    return _measure("durable", arguments, QUICK if arguments.quick else DurableSizes(), both)


def bench_matching(arguments: argparse.Namespace) -> int:
    with need("vinecast bench matching", "sim"):
        from vinecast.lab.bench.matching import QUICK, MatchingSizes, bench_matching

    return _measure("matching", arguments, QUICK if arguments.quick else MatchingSizes(), bench_matching)


def bench_content(arguments: argparse.Namespace) -> int:
    with need("vinecast bench content", "node"):
        from vinecast.lab.bench.content import QUICK, ContentSizes, bench_content

    return _measure("content", arguments, QUICK if arguments.quick else ContentSizes(), bench_content)


def bench_anycast(arguments: argparse.Namespace) -> int:
    with need("vinecast bench anycast", "sim"):
        from vinecast.lab.bench.anycast import QUICK, AnycastSizes, bench_anycast

    return _measure("anycast", arguments, QUICK if arguments.quick else AnycastSizes(), bench_anycast)


def bench_peers(arguments: argparse.Namespace) -> int:
    from vinecast.lab.bench.peers import QUICK, PeersSizes, bench_peers

    return _measure("peers", arguments, QUICK if arguments.quick else PeersSizes(), bench_peers)


def _measure(name: str, arguments: argparse.Namespace, usual: Any, bench: Callable[..., Any]) -> int:
    """Measure with the sizes that are given, else the usual ones, and print the table."""
    given = {option: getattr(arguments, option) or value for option, value in asdict(usual).items()}
    title = f"vinecast bench {name}"
    for option, value in given.items():
        title += f" --{option.replace('_', '-')} {value}"
    with progress("bench", 0) as tell:
        results = list(bench(replace(usual, **given), lambda text: tell(0, text)))
    print_results(results, title, arguments.json, arguments.markdown)
    return 0
