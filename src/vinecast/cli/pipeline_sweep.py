"""``vinecast pipeline sweep``, ``measure``, ``report`` and ``run``."""

import argparse
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from vinecast.cli.commands import DATA_VARIABLE, data_folder
from vinecast.cli.output import make_console, need, print_json, print_table, progress
from vinecast.cli.pipeline import Command, add_stage, lake_of, session_of
from vinecast.core.errors import InputError


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help=f"folder with traces, graphs and latency matrices (default: ${DATA_VARIABLE})",
    )


def add_sweep(stages: Any, command: Command) -> None:
    parser = add_stage(
        stages,
        command,
        "sweep",
        sweep,
        "run a scenario over a grid of settings and seeds, a task a run",
        "vinecast pipeline sweep pipelines/fanout.toml --as fanout",
    )
    parser.add_argument("file", type=Path, metavar="SWEEP", help="the sweep, a TOML file")
    parser.add_argument(
        "--as", required=True, dest="name", metavar="NAME", help="the sweep's name in the lake"
    )
    parser.add_argument("--again", action="store_true", help="run also what is there already")
    _add_data(parser)


def sweep(arguments: argparse.Namespace) -> int:
    config, lake = session_of(arguments), lake_of(arguments)
    with need("vinecast pipeline sweep", "spark"):
        from vinecast.pipeline.session import open_session
        from vinecast.pipeline.sweep import run_sweep
        from vinecast.pipeline.sweep_file import expand, read_sweep

    specs = expand(read_sweep(arguments.file), lake, data_folder(arguments))
    with open_session(config) as spark, progress(arguments.name, len(specs)) as tell:
        told = _runs_told(tell, arguments.name)
        result = run_sweep(spark, lake, arguments.name, specs, told, arguments.again)
    if arguments.json:
        print_json(asdict(result))
        return 1 if result.failed else 0
    console = make_console()
    line = f"{result.done:,} of {result.runs:,} runs, {result.reused:,} of them there before: "
    line += f"{result.rows:,} rows, {result.bytes:,} bytes"
    if result.wall_s and result.done > result.reused:
        line += f"; {result.simulate_s:.1f} s of simulation in {result.wall_s:.1f} s"
    console.print(line, highlight=False, markup=False, soft_wrap=True)
    for run, why in result.failed.items():
        console.print(f"failed: {run}: {why}", highlight=False, markup=False, soft_wrap=True)
    return 1 if result.failed else 0


def _runs_told(tell: Callable[..., None], label: str) -> Callable[[int, int, int], None]:
    """For a bar of runs: done, failed, left."""

    def told(done: int, failed: int, left: int) -> None:
        text = f"{label} · {done:,} done, {failed:,} failed, {left:,} left"
        tell(done + failed, text, done + failed + left)

    return told


def add_measure(stages: Any, command: Command) -> None:
    parser = add_stage(
        stages,
        command,
        "measure",
        measure,
        "measure the runs of a sweep, or a live run by its traces",
        "vinecast pipeline measure fanout",
    )
    parser.add_argument("dataset", metavar="DATASET", help="a sweep, or traces")
    parser.add_argument(
        "--from",
        dest="source",
        choices=("counts", "deliveries", "records", "traces"),
        default="counts",
        help="what to start from, if the sweep kept it; all come to the same (default: %(default)s); "
        "traces: those of a live run",
    )
    parser.add_argument(
        "--patience",
        type=float,
        metavar="SECONDS",
        help="of a live run: judge an event so long after its publication (default: 3, or 5 cycles)",
    )


def measure(arguments: argparse.Namespace) -> int:
    config, lake = session_of(arguments), lake_of(arguments)
    with need("vinecast pipeline measure", "spark"):
        from vinecast.pipeline.measure import measure_runs
        from vinecast.pipeline.measure_traces import measure_traces
        from vinecast.pipeline.runs_tables import RUNS
        from vinecast.pipeline.session import open_session
        from vinecast.pipeline.tables import TRACES

    is_live, patience_s = arguments.source == "traces", arguments.patience
    if patience_s is not None and not (is_live and 0 < patience_s < 86_400):
        raise InputError(f"--patience is a number of seconds, for --from traces, not {patience_s}")
    lake.current(TRACES if is_live else RUNS, arguments.dataset)  # before Spark has started
    with open_session(config) as spark:
        if is_live:
            result = measure_traces(spark, lake, arguments.dataset, patience_s)
        else:
            result = measure_runs(spark, lake, arguments.dataset, arguments.source)
    if arguments.json:
        print_json(asdict(result))
        return 0
    line = f"{result.runs:,} runs, measured from {result.source}: {result.deliveries:,} deliveries were due"
    make_console().print(line, highlight=False, markup=False, soft_wrap=True)
    return 0


def add_report(stages: Any, command: Command) -> None:
    parser = add_stage(
        stages,
        command,
        "report",
        report,
        "write tables, figures and a page for a sweep that was measured",
        "vinecast pipeline report fanout --out out/fanout",
    )
    parser.add_argument("dataset", metavar="DATASET", help="a sweep that was measured")
    parser.add_argument(
        "--as", dest="name", metavar="NAME", help="the report's name in the lake (default: DATASET)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder to write (default: out/NAME)")
    parser.add_argument("--title", default="", metavar="TEXT", help="at the top (default: the sweep's name)")
    parser.add_argument(
        "--measures", nargs="+", default=[], metavar="NAME", help="what to report (default: the usual)"
    )
    parser.add_argument(
        "--when",
        choices=("run", "last"),
        default="run",
        help="all publications, or the last (default: %(default)s)",
    )
    parser.add_argument(
        "--x", metavar="AXIS", help="the axis from left to right (default: the first of numbers)"
    )


def report(arguments: argparse.Namespace) -> int:
    config, lake = session_of(arguments), lake_of(arguments)
    with need("vinecast pipeline report", "spark"):
        from vinecast.pipeline.lake import check_name
        from vinecast.pipeline.report import ReportConfig, check_folder, check_measured, write_report
        from vinecast.pipeline.session import open_session

    wanted = ReportConfig(arguments.title, tuple(arguments.measures), arguments.when, arguments.x)
    name = arguments.name or arguments.dataset
    folder = arguments.out or Path("out") / name
    check_name(name)
    check_measured(lake, arguments.dataset)
    check_folder(folder)
    with open_session(config) as spark:
        result = write_report(spark, lake, arguments.dataset, folder, wanted, name)
    if arguments.json:
        print_json({**asdict(result), "folder": str(result.folder)})
        return 0
    line = f"{result.points} points of the grid; open {result.folder / 'index.html'}"
    make_console().print(line, highlight=False, markup=False, soft_wrap=True)
    return 0


def add_run(stages: Any, command: Command) -> None:
    parser = add_stage(
        stages,
        command,
        "run",
        run,
        "run the stages of a pipeline that are stale",
        "vinecast pipeline run pipelines/synthetic.toml",
    )
    parser.add_argument("file", type=Path, metavar="PIPELINE", help="the pipeline, a TOML file")
    parser.add_argument("--dry-run", action="store_true", help="say what would run and why, and run nothing")
    _add_data(parser)


def run(arguments: argparse.Namespace) -> int:
    config, lake = session_of(arguments), lake_of(arguments)
    with need("vinecast pipeline run", "spark"):
        from vinecast.pipeline.plan import dry_run, read_pipeline, run_pipeline

    pipeline = read_pipeline(arguments.file, data_folder(arguments))
    if arguments.dry_run:
        steps = dry_run(pipeline, lake)
    else:
        with progress(pipeline.name, 0) as tell:
            told = _runs_told(tell, pipeline.name)
            steps = list(run_pipeline(pipeline, lake, config, told, lambda stage: tell(0, stage)))
    if arguments.json:
        print_json([asdict(step) for step in steps])
    else:
        if arguments.dry_run:
            headings: tuple[str, ...] = ("stage", "would run", "why")
            rows: list[tuple[str, ...]] = [
                (step.stage, "yes" if step.stale else "no", step.why) for step in steps
            ]
        else:
            headings = ("stage", "why it ran", "result", "seconds")
            rows = [
                (step.stage, step.why or "fresh", step.result, f"{step.seconds:.1f}" if step.stale else "")
                for step in steps
            ]
        print_table(headings, rows, f"vinecast pipeline run {arguments.file}")
    return 0 if all(step.ok for step in steps) else 1
