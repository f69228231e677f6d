"""``vinecast bench pipeline``."""

import argparse
from typing import Any

from vinecast.cli.output import need, print_results, progress
from vinecast.cli.pipeline import Command
from vinecast.cli.values import positive

PARTS = ("sample", "regularity", "measure", "sweep", "kept")


def add_bench_pipeline(subjects: Any, command: Command) -> None:
    parser = command(
        subjects,
        "pipeline",
        bench_pipeline,
        "measure the pipeline's speed and memory, next to our targets and to DuckDB",
        "vinecast bench pipeline --only sample regularity",
    )
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--quick", action="store_true", help="small inputs, to see that it works")
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=", ".join(PARTS)
    )
    parser.add_argument(
        "--repeat", type=positive, default=1, metavar="N", help="do it so often, the best counts (default: 1)"
    )
    parser.add_argument(
        "--memory", metavar="SIZE", help="heap of the JVM, such as 2g (default: fits the machine)"
    )


def bench_pipeline(arguments: argparse.Namespace) -> int:
    with need("vinecast bench pipeline", "spark"):
        from vinecast.lab.bench.spark.pipeline import PipelinePlan, bench_pipeline
        from vinecast.lab.bench.spark.pipeline_inputs import QUICK, PipelineSizes
        from vinecast.pipeline.session import SessionConfig

    SessionConfig(memory=arguments.memory)  # says what is wrong with it
    sizes = QUICK if arguments.quick else PipelineSizes()
    plan = PipelinePlan(sizes, tuple(arguments.only), arguments.repeat, arguments.memory)
    title = f"vinecast bench pipeline --repeat {arguments.repeat}"
    title += f" --only {' '.join(arguments.only)}" if arguments.only != PARTS else ""
    title += f" --memory {arguments.memory}" if arguments.memory else ""
    title += " --quick" if arguments.quick else ""
    with progress("bench", 0) as tell:
        results = list(bench_pipeline(plan, lambda text: tell(0, text)))
    print_results(results, title, arguments.json, arguments.markdown)
    return 0
