"""``vinecast pipeline``: what can be typed, and the commands. Each stage adds itself in one function.

A stage's function gets the subparsers and a way to make a command; what all stages share (the lake, where
Spark runs) is added by ``add_stage``, and ``session_of`` and ``lake_of`` read it back.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vinecast.cli.output import need, print_json, print_table

if TYPE_CHECKING:
    from vinecast.pipeline.lake import Lake
    from vinecast.pipeline.session import SessionConfig

Command = Callable[..., argparse.ArgumentParser]
"""Makes the parser of a command: subparsers, name, function, help, example."""


def add_pipeline(commands: Any, command: Command) -> None:
    """``vinecast pipeline`` and its stages."""
    pipeline = commands.add_parser(
        "pipeline",
        help="the data pipeline on Spark",
        description="From raw files to tables, sweeps, metrics and reports, on Spark.",
        epilog="example: vinecast pipeline doctor",
    )
    from vinecast.cli.pipeline_ingest import add_ingest
    from vinecast.cli.pipeline_sample import add_regularity, add_sample
    from vinecast.cli.pipeline_sweep import add_measure, add_report, add_run, add_sweep

    stages = pipeline.add_subparsers(title="stages", metavar="STAGE", required=True)
    for add in (
        _add_doctor,
        add_ingest,
        add_sample,
        add_regularity,
        add_sweep,
        add_measure,
        add_report,
        add_run,
    ):
        add(stages, command)


def add_stage(
    stages: Any,
    command: Command,
    name: str,
    run: Callable[[argparse.Namespace], int],
    about: str,
    example: str,
) -> argparse.ArgumentParser:
    """A stage's parser with what all stages share."""
    parser = command(stages, name, run, about, example)
    parser.add_argument(
        "--lake",
        type=Path,
        default=Path("lake"),
        metavar="DIR",
        help="folder of tables (default: %(default)s)",
    )
    where = parser.add_argument_group("where Spark runs")
    where.add_argument(
        "--master", metavar="URL", help="a cluster, such as spark://host:7077 (default: local)"
    )
    where.add_argument("--remote", metavar="URL", help="a Spark Connect server, such as sc://host:15002")
    where.add_argument(
        "--memory", metavar="SIZE", help="heap of the JVM, such as 2g (default: fits the machine)"
    )
    where.add_argument("--python", metavar="PATH", help="the workers' Python on a cluster")
    where.add_argument(
        "--ship",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="send this package to the cluster (default: yes)",
    )
    where.add_argument(
        "--conf",
        action="append",
        default=[],
        type=_setting,
        metavar="KEY=VALUE",
        help="any Spark setting; can be repeated",
    )
    return parser


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key.startswith("spark.") or not equals:
        raise argparse.ArgumentTypeError(f"'{text}' is not spark.KEY=VALUE")
    return key, value


def session_of(arguments: argparse.Namespace) -> "SessionConfig":
    """Where Spark runs, as the options say."""
    with need("vinecast pipeline", "spark"):
        import pyspark  # noqa: F401

        from vinecast.pipeline.session import SessionConfig
    return SessionConfig(
        master=arguments.master,
        remote=arguments.remote,
        memory=arguments.memory,
        python=arguments.python,
        ship=arguments.ship,
        settings=dict(arguments.conf),
    )


def lake_of(arguments: argparse.Namespace) -> "Lake":
    """The lake that the options name."""
    with need("vinecast pipeline", "spark"):
        from vinecast.pipeline.lake import Lake
    return Lake(arguments.lake)


# --- doctor ----------------------------------------------------------------------------------------------


def _add_doctor(stages: Any, command: Command) -> None:
    add_stage(
        stages,
        command,
        "doctor",
        doctor,
        "say what Spark would run with here, and what is missing",
        "vinecast pipeline doctor --lake lake",
    )


def doctor(arguments: argparse.Namespace) -> int:
    with need("vinecast pipeline doctor", "sim"):
        from vinecast.pipeline.doctor import examine
        from vinecast.pipeline.session import SessionConfig
    config = SessionConfig(master=arguments.master, remote=arguments.remote, memory=arguments.memory)
    findings = examine(config, arguments.lake)
    if arguments.json:
        print_json([{"what": f.what, "found": f.found, "ok": f.ok} for f in findings])
    else:
        rows = [(f.what, f.found, "yes" if f.ok else "no") for f in findings]
        print_table(("what", "found", "good"), rows, "vinecast pipeline doctor")
    return 0 if all(finding.ok for finding in findings) else 1
