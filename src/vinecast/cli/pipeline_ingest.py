"""``vinecast pipeline ingest``: raw files into the lake."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vinecast.cli.output import make_console, need, print_json, print_table
from vinecast.cli.pipeline import Command, add_stage, lake_of, session_of

if TYPE_CHECKING:
    from vinecast.pipeline.ingest.job import Ingested

KINDS = ("edges", "avt", "fta", "matrix", "pings", "activity", "reddit", "traces")


def add_ingest(stages: Any, command: Command) -> None:
    """The parser of ingest."""
    parser = add_stage(
        stages,
        command,
        "ingest",
        ingest,
        "read a raw file into tables; bad lines go to a quarantine table",
        "vinecast pipeline ingest edges soc-Slashdot0902.txt.gz --as slashdot",
    )
    parser.add_argument(
        "kind",
        choices=KINDS,
        metavar="KIND",
        help="edges (SNAP text, TSV, CSV), avt or fta (availability traces), matrix or pings (latencies), "
        "activity (higgs), reddit (PulsarCast's workload), traces (of live nodes); plain or gzipped",
    )
    parser.add_argument(
        "files", type=Path, nargs="+", metavar="FILE", help="the raw file; of traces any number, or folders"
    )
    parser.add_argument("--as", dest="dataset", required=True, metavar="NAME", help="name of the dataset")
    direction = parser.add_mutually_exclusive_group()
    direction.add_argument(
        "--directed", dest="directed", action="store_true", default=True, help="a follows b (default)"
    )
    direction.add_argument(
        "--undirected", dest="directed", action="store_false", help="both ends of an edge follow each other"
    )
    parser.add_argument(
        "--max-bad",
        type=_share,
        default=0.01,
        metavar="SHARE",
        help="refuse a file with a larger share of bad lines (default: %(default)s)",
    )


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a share between 0 and 1")
    return value


def ingest(arguments: argparse.Namespace) -> int:
    with need("vinecast pipeline ingest", "spark"):
        from vinecast.pipeline.ingest.job import already_ingested, plan_ingest, run_ingest
        from vinecast.pipeline.session import open_session

    config, lake = session_of(arguments), lake_of(arguments)
    plan = plan_ingest(
        arguments.kind, arguments.files, arguments.dataset, arguments.directed, arguments.max_bad
    )
    result = already_ingested(lake, plan)  # before Spark has started
    if result is None:
        with open_session(config) as spark:
            result = run_ingest(spark, lake, plan)
    if arguments.json:
        print_json(asdict(result))
    else:
        _show(result, arguments.lake)
    return 0


def _show(result: "Ingested", lake: Path) -> None:
    rows = [
        ("lines", f"{result.lines:,}"),
        ("good", f"{result.good:,}"),
        ("in quarantine", f"{result.bad:,}" + (f" (first: {result.first_bad})" if result.first_bad else "")),
        ("blank, comment, heading", f"{result.skipped:,}"),
    ]
    if result.kind == "edges":
        rows += [("loops dropped", f"{result.loops:,}"), ("duplicates dropped", f"{result.duplicates:,}")]
    rows += [(f"rows of {name}", f"{count:,}") for name, count in (result.rows or {}).items()]
    print_table(("what", "count"), rows, f"{result.file} as {result.dataset}")
    if result.fresh:
        line = f"Nothing to do: {lake} has it already, made from the same file."
        make_console().print(line, highlight=False, markup=False, soft_wrap=True)
