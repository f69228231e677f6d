"""The command ``vinecast``: parses, imports the room that is asked for, and turns errors into sentences.

Nothing heavy is imported before it is needed, so that ``vinecast --help`` is there at once. Results go to
standard output, progress and errors to standard error. Exit codes: 0 done, 1 done but something does not
hold, 2 wrong input, 130 interrupted.
"""

import argparse
import io
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from vinecast import __version__
from vinecast.core.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from rich.console import Console

DATA_VARIABLE = "VINECAST_DATA"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a sign still shows the rest
    try:
        arguments = build_parser().parse_args(argv)
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except InputError as error:
        return _complain(str(error), 2)
    except KeyboardInterrupt:
        return _complain("interrupted", 130)
    except MemoryError:
        return _complain("there is not enough memory for this", 2)
    except BrokenPipeError:  # whoever read our output has seen enough
        _discard_output()
        return 0
    except OSError as error:
        _discard_output()
        return _complain(f"cannot write the output ({error.strerror or error})", 2)
    return code


def _complain(sentence: str, code: int) -> int:
    print(f"vinecast: {' '.join(sentence.split())}", file=sys.stderr)  # noqa: T201
    return code


def _discard_output() -> None:
    """Let what is still buffered go nowhere, so that Python's own exit does not trip over it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Parser(argparse.ArgumentParser):
    """A parser that complains in one sentence."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message} (see {self.prog} --help)")


def build_parser() -> argparse.ArgumentParser:
    """All commands with their help."""
    parser = _Parser(
        prog="vinecast",
        description="Peer-to-peer publish/subscribe: topics, content filters, durable streams; no broker.",
        epilog="example: vinecast sim run scenarios/cyclon-churn.toml",
    )
    parser.add_argument("--version", action="version", version=f"vinecast {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_sim(commands)
    _add_bench(commands)
    _add_reproduce(commands)
    return parser


def _command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], about: str, example: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=about,
        description=about[0].upper() + about[1:] + ".",
        epilog=f"example: {example}",
    )
    parser.set_defaults(run=run)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    return parser


def _add_markdown(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")


def _add_figures(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--figures", type=Path, metavar="DIR", help="also draw figures there, as PNG and SVG")


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help=f"folder with traces, graphs and latency matrices (default: ${DATA_VARIABLE})",
    )


def _add_threads(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--threads",
        type=_positive,
        default=_cores(),
        metavar="N",
        help="threads (default: all cores, %(default)s)",
    )


def _add_sim(commands: Any) -> None:
    sim = commands.add_parser(
        "sim", help="simulate", description="Simulate networks.", epilog="example: vinecast sim run FILE.toml"
    )
    actions = sim.add_subparsers(title="actions", metavar="ACTION", required=True)

    run = _command(
        actions,
        "run",
        _sim_run,
        "run a scenario and write its folder",
        "vinecast sim run scenarios/cyclon-churn.toml",
    )
    run.add_argument("file", type=Path, metavar="FILE", help="the scenario, a TOML file")
    run.add_argument("--out", type=Path, metavar="DIR", help="folder to write (default: out/NAME)")
    run.add_argument("--force", action="store_true", help="replace an earlier run's folder")
    run.add_argument("--seed", type=_seed, metavar="N", help="another seed than the scenario's")
    run.add_argument(
        "--set",
        action="append",
        default=[],
        type=_setting,
        metavar="KEY=VALUE",
        help="another value than the scenario's, such as --set workload.kind=synthetic; can be repeated",
    )
    _add_figures(run)
    _add_threads(run)
    _add_data(run)

    show = _command(actions, "show", _sim_show, "show a run again", "vinecast sim show out/cyclon-churn")
    show.add_argument("folder", type=Path, metavar="FOLDER", help="a run's folder")
    _add_figures(show)

    workload = _command(
        actions,
        "workload",
        _sim_workload,
        "describe a subscription workload",
        "vinecast sim workload follower --nodes 10000",
    )
    workload.add_argument(
        "kind",
        metavar="KIND",
        help="random, low or high (S2 §3.6.1), follower (synthetic follower graph), or a file of edges",
    )
    workload.add_argument("--nodes", type=_positive, default=10_000, metavar="N", help="default: %(default)s")
    workload.add_argument("--seed", type=_seed, default=1, metavar="N", help="default: %(default)s")
    workload.add_argument("--undirected", action="store_true", help="both ends of an edge follow each other")
    _add_data(workload)


def _add_bench(commands: Any) -> None:
    bench = commands.add_parser(
        "bench", help="measure speed and memory", description="Measure.", epilog="example: vinecast bench sim"
    )
    subjects = bench.add_subparsers(title="subjects", metavar="SUBJECT", required=True)
    sim = _command(
        subjects,
        "sim",
        _bench_sim,
        "measure the simulator's speed and memory, next to our targets",
        "vinecast bench sim --nodes 100000 --repeat 5",
    )
    _add_markdown(sim)
    sim.add_argument(
        "--system", choices=("cyclon", "poldercast"), default="cyclon", help="default: %(default)s"
    )
    sim.add_argument("--quick", action="store_true", help="small populations, to see that it works")
    sim.add_argument(
        "--nodes", type=_positive, metavar="N", help="default: 100000, or 10000 where nodes have topics"
    )
    sim.add_argument("--repeat", type=_positive, default=5, metavar="N", help="rounds (default: %(default)s)")
    sim.add_argument(
        "--largest",
        type=_positive,
        metavar="N",
        help="for the last memory test (default: 1000000; where nodes have topics, left out)",
    )
    sim.add_argument(
        "--whole-trace", action="store_true", help="churn: all of the trace instead of a stretch (poldercast)"
    )
    _add_data(sim)


def _add_reproduce(commands: Any) -> None:
    reproduce = _command(
        commands,
        "reproduce",
        _reproduce,
        "check claims of the papers: claim, paper's value, ours, whether it holds",
        "vinecast reproduce CY-1 CY-2 --scale small",
    )
    _add_markdown(reproduce)
    reproduce.add_argument(
        "claims", nargs="*", metavar="CLAIM", help="claim ids; none lists all; 'all' checks all"
    )
    reproduce.add_argument(
        "--scale",
        choices=("small", "paper"),
        default="paper",
        help="small: seconds; paper: the real size (default)",
    )
    reproduce.add_argument(
        "--workload",
        choices=("facebook", "slashdot", "twitter", "synthetic"),
        help="whose subscriptions (default: facebook at paper scale with a data folder, else synthetic)",
    )
    reproduce.add_argument("--seed", type=_seed, default=1, metavar="N", help="default: %(default)s")
    _add_figures(reproduce)
    _add_threads(reproduce)
    _add_data(reproduce)


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not 1 <= value < 2**31 - 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 1 to 2^31 - 2")
    return value


def _seed(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not 0 <= value < 2**63:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 0 to 2^63 - 1")
    return value


def _setting(text: str) -> tuple[str, Any]:
    """``KEY=VALUE``, the value as in TOML; what is none there is taken as a string, without its quotes."""
    import tomllib

    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"'{text}' is not KEY=VALUE")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        return key, value


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _console() -> "Console":
    from rich.console import Console

    class Piped(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return Piped(width=None if sys.stdout.isatty() else 140)


def _print_json(value: object) -> None:
    value = _without_nan(value)
    print(json.dumps(value, allow_nan=False, indent=2, sort_keys=True, ensure_ascii=False))  # noqa: T201


def _without_nan(value: object) -> object:
    """A number that is none becomes null: JSON knows no NaN."""
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], title: str, markdown: bool = False
) -> None:
    """A table for the terminal, or the same in Markdown for the documentation."""
    if markdown:
        lines = [f"`{title}`", "", _row(headings), _row("---" for _ in headings), *map(_row, rows)]
        print("\n".join(lines))  # noqa: T201
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(*headings, title=Text(title), show_lines=True)
    colours = {"yes": "green", "no": "red"}
    for row in rows:
        table.add_row(*(Text(cell, style=colours.get(cell, "")) for cell in row))
    _console().print(table)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _data_folder(arguments: argparse.Namespace) -> Path | None:
    given: Path | None = arguments.data
    if given is None and os.environ.get(DATA_VARIABLE):
        given = Path(os.environ[DATA_VARIABLE])
    if given is not None and not given.is_dir():
        raise InputError(f"{given}: no such data folder")
    return given


@contextmanager
def _need(what: str, extra: str) -> Iterator[None]:
    """Turn a missing package into a sentence that says which extra brings it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("vinecast"):
            raise
        raise MissingExtraError(what, extra, error.name or "a package") from None


@contextmanager
def _progress(label: str, total: int) -> Iterator[Callable[[int, str], None]]:
    """A progress bar on standard error; silent where that is not a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(label, total=total)

        def tell(done: int, text: str) -> None:
            bar.update(task, completed=done, description=text)

        yield tell


def _sim_run(arguments: argparse.Namespace) -> int:
    with _need("vinecast sim run", "sim"):
        from vinecast.sim.overlay import OverlayStats
        from vinecast.sim.run import run_to_folder
        from vinecast.sim.scenario import read_scenario
        from vinecast.sim.show import show

    _check_drawing(arguments)
    overrides = (
        dict(arguments.set) if arguments.seed is None else {**dict(arguments.set), "seed": arguments.seed}
    )
    resolved = read_scenario(arguments.file, overrides)
    scenario = resolved.scenario
    folder = arguments.out or Path("out") / scenario.name
    with _progress(scenario.name, scenario.cycles) as tell:

        def watch(cycle: int, stats: OverlayStats | None) -> None:
            online = f" · {stats.online:,} on line" if stats else ""
            tell(cycle + 1, f"{scenario.name}{online}")

        outcome = run_to_folder(
            resolved,
            folder,
            threads=arguments.threads,
            data=_data_folder(arguments),
            progress=watch,
            replace=arguments.force,
        )
    _draw_run(arguments, outcome.summary, outcome.rows)
    if arguments.json:
        _print_json(outcome.summary)
        return 0
    console = _console()
    show(console, outcome.summary, outcome.rows, outcome.classes)
    line = f"Written to {folder}; show it again with: vinecast sim show {folder}"
    console.print(line, highlight=False, markup=False, soft_wrap=True)
    return 0


def _sim_show(arguments: argparse.Namespace) -> int:
    from vinecast.sim.show import load, load_classes, show

    _check_drawing(arguments)
    summary, rows = load(arguments.folder)
    _draw_run(arguments, summary, rows)
    if arguments.json:
        _print_json(summary)
    else:
        show(_console(), summary, rows, load_classes(arguments.folder))
    return 0


def _check_drawing(arguments: argparse.Namespace) -> None:
    """Whether figures can be drawn, if they are asked for: before the work, not after it."""
    if arguments.figures is not None:
        from vinecast.sim.figures import check_drawing

        check_drawing()


def _draw_run(arguments: argparse.Namespace, summary: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    if arguments.figures is not None:
        from vinecast.sim.figures import draw
        from vinecast.sim.show import figure_of

        draw([figure_of(summary, rows)], arguments.figures)


def _sim_workload(arguments: argparse.Namespace) -> int:
    with _need("vinecast sim workload", "sim"):
        from vinecast.sim.scenario import find_file
        from vinecast.sim.workload import describe, follower_graph, pattern

    if arguments.kind in ("random", "low", "high"):
        subscriptions = pattern(arguments.kind, arguments.seed, arguments.nodes)
    elif arguments.kind == "follower":
        subscriptions = follower_graph(arguments.seed, arguments.nodes)
    else:
        from vinecast.sim.edges import read_edges, subscriptions_from

        data = _data_folder(arguments)
        try:
            path = find_file(arguments.kind, Path(), data)
        except InputError:
            kinds = "random, low, high or follower"
            raise InputError(f"{arguments.kind}: neither a workload ({kinds}) nor a file") from None
        edges = read_edges(path)
        subscriptions = subscriptions_from(edges, directed=not arguments.undirected)
    figures = describe(subscriptions)
    if arguments.json:
        _print_json(figures)
        return 0
    rows = [
        (name.replace("_", " "), f"{value:,.4g}" if value % 1 else f"{value:,.0f}")
        for name, value in figures.items()
    ]
    _print_table(("figure", "value"), rows, f"{arguments.kind}, seed {arguments.seed}")
    return 0


def _bench_sim(arguments: argparse.Namespace) -> int:
    with _need("vinecast bench sim", "sim"):
        from vinecast.sim.bench import bench_sim
        from vinecast.sim.bench_poldercast import QUICK, Sizes, bench_poldercast

    title = "vinecast bench sim"
    if arguments.system == "poldercast":
        title += " --system poldercast" + (" --data DIR" if arguments.data else "")
        sizes = QUICK if arguments.quick else Sizes()
        sizes = replace(sizes, nodes=arguments.nodes or sizes.nodes)
        data, largest = _data_folder(arguments), arguments.largest
        steps = bench_poldercast(data, arguments.repeat, sizes, largest, arguments.whole_trace)
    else:
        nodes, largest = (2_000, 3_000) if arguments.quick else (100_000, 1_000_000)
        steps = bench_sim(arguments.nodes or nodes, arguments.repeat, arguments.largest or largest)
    results = []
    with _progress("bench", 0) as tell:
        for result in steps:
            tell(0, result.what)
            results.append(result)
    if arguments.json:
        _print_json([result.as_dict() for result in results])
        return 0
    rows = [(result.what, result.measured, result.target, result.verdict) for result in results]
    _print_table(("what", "measured", "target", "meets it"), rows, title, arguments.markdown)
    return 0


def _reproduce(arguments: argparse.Namespace) -> int:
    with _need("vinecast reproduce", "sim"):
        from vinecast.claims import CLAIMS, Setup, check_claim, select_claims

    if not arguments.claims:
        return _list_claims(CLAIMS, arguments.json)
    chosen = select_claims(arguments.claims)
    _check_drawing(arguments)
    data = _data_folder(arguments)
    setup = Setup(arguments.scale, arguments.seed, arguments.threads, data, arguments.workload)
    verdicts = []
    with _progress("reproduce", len(chosen)) as tell:
        for done, claim in enumerate(chosen):
            tell(done, f"{claim.id}: {claim.title}")
            verdicts.append(check_claim(claim, setup))
    if arguments.figures is not None:
        from vinecast.sim.figures import draw

        draw([figure for verdict in verdicts for figure in verdict.figures], arguments.figures)
    if arguments.json:
        _print_json([verdict.as_dict() for verdict in verdicts])
    else:
        rows = [
            (f"{v.claim.id} {v.claim.title}", v.claim.paper, v.measured, "yes" if v.holds else "no")
            for v in verdicts
        ]
        ids = " ".join(arguments.claims)
        title = f"vinecast reproduce {ids} --scale {arguments.scale} --seed {arguments.seed}"
        if arguments.workload:
            title += f" --workload {arguments.workload}"
        _print_table(("claim", "paper", "measured", "holds"), rows, title, arguments.markdown)
    return 0 if all(verdict.holds for verdict in verdicts) else 1


def _list_claims(claims: Any, as_json: bool) -> int:
    listed = list(claims.values())
    if as_json:
        _print_json([{"claim": c.id, "title": c.title, "paper": c.paper, "source": c.source} for c in listed])
        return 0
    rows = [(claim.id, claim.title, claim.paper, claim.source) for claim in listed]
    _print_table(("claim", "what it says", "paper", "source"), rows, "claims")
    _console().print(
        "Check some with: vinecast reproduce CLAIM…, or all of them with: vinecast reproduce all"
    )
    return 0
