"""``vinecast pipeline sample`` and ``vinecast pipeline regularity``."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from vinecast.cli.output import need, print_json, print_table
from vinecast.cli.pipeline import Command, add_stage, lake_of, session_of
from vinecast.cli.values import positive, positives, seed


def add_sample(stages: Any, command: Command) -> None:
    parser = add_stage(
        stages,
        command,
        "sample",
        sample,
        "sample users of a social graph, with all edges among them",
        "vinecast pipeline sample slashdot --users 10000 --as slashdot-10k",
    )
    parser.add_argument("dataset", metavar="DATASET", help="a graph that was ingested")
    parser.add_argument("--users", type=positive, required=True, metavar="N", help="how many users")
    parser.add_argument("--as", required=True, dest="name", metavar="NAME", help="the sample's name")
    parser.add_argument(
        "--method",
        choices=("breadth-first", "followees"),
        default="breadth-first",
        help="breadth-first along edges (S0 §6.1), or random users with all whom they follow (S2 §3.6.5); "
        "default: %(default)s",
    )
    parser.add_argument("--seed", type=seed, default=1, metavar="N", help="default: %(default)s")
    parser.add_argument(
        "--start",
        type=seed,
        nargs="+",
        default=[],
        metavar="USER",
        help="users to start from (default: random)",
    )
    parser.add_argument(
        "--figures", type=Path, metavar="DIR", help="also draw the distributions of degrees there"
    )
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")


def sample(arguments: argparse.Namespace) -> int:
    config, lake = session_of(arguments), lake_of(arguments)
    with need("vinecast pipeline sample", "spark"):
        from vinecast.pipeline.sample import SamplePlan, find_graph, take_sample
        from vinecast.pipeline.session import open_session
        from vinecast.pipeline.tables import CCDF
        from vinecast.sim.measure.figures import check_drawing, draw

    if arguments.figures is not None:
        check_drawing()
    plan = SamplePlan(arguments.users, arguments.seed, arguments.method, tuple(arguments.start))
    find_graph(lake, arguments.dataset)  # say what is wrong before Spark has started
    with open_session(config) as spark:
        result = take_sample(spark, lake, arguments.dataset, arguments.name, plan)
        if arguments.figures is not None:
            from vinecast.pipeline.degrees import figure

            draw([figure(lake.read(spark, CCDF, arguments.name), arguments.name)], arguments.figures)
    if arguments.json:
        print_json({"users": result.users, "edges": result.edges, "degrees": result.statistics})
        return 0
    rows = [
        (
            f"{row['kind']}, {row['graph']}",
            f"{row['users']:,}",
            f"{row['mean']:.4f}",
            f"{row['variance']:.4f}",
            f"{row['std']:.4f}",
            f"{row['max']:,}",
            f"{row['distance']:.4f}",
        )
        for row in result.statistics
    ]
    headings = ("degree", "users", "mean", "variance", "std", "max", "distance from original")
    title = f"vinecast pipeline sample {arguments.dataset} --users {arguments.users} --seed {arguments.seed}"
    title += f" --method {arguments.method}"
    if arguments.start:
        title += f" --start {' '.join(map(str, arguments.start))}"
    print_table(headings, rows, f"{title} --as {arguments.name}", arguments.markdown)
    return 0


def add_regularity(stages: Any, command: Command) -> None:
    parser = add_stage(
        stages,
        command,
        "regularity",
        regularity,
        "find the nodes of a trace that are on line at the same hours, and how long they stay so",
        "vinecast pipeline regularity skype --cycle week --slot 60",
    )
    parser.add_argument("dataset", metavar="DATASET", help="a trace that was ingested")
    parser.add_argument("--cycle", choices=("day", "week"), help="what recurs (default: both)")
    parser.add_argument(
        "--slot",
        type=positives,
        default=(60,),
        metavar="MINUTES",
        help="lengths of a slot, as 15,60 (default: 60)",
    )
    parser.add_argument(
        "--thresholds",
        type=positives,
        metavar="PERCENT",
        help="shares that a regular node exceeds (default: 60,65,…,95)",
    )
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")


def regularity(arguments: argparse.Namespace) -> int:
    config, lake = session_of(arguments), lake_of(arguments)
    with need("vinecast pipeline regularity", "spark"):
        from vinecast.pipeline.regularity import RegularityPlan, analyse
        from vinecast.pipeline.session import open_session
        from vinecast.pipeline.tables import SESSIONS

    plan = RegularityPlan(slots_s=tuple(60 * minutes for minutes in arguments.slot))
    if arguments.cycle is not None:
        plan = replace(plan, cycles=(arguments.cycle,))
    if arguments.thresholds is not None:
        plan = replace(plan, thresholds=tuple(sorted(set(arguments.thresholds))))
    lake.current(SESSIONS, arguments.dataset)  # say what is wrong before Spark has started
    with open_session(config) as spark:
        result = analyse(spark, lake, arguments.dataset, plan)
    trace = result.overview
    if arguments.json:
        figures = {"nodes": trace.nodes, "ever_online": trace.ever_online, "sessions": trace.sessions}
        print_json({**figures, "online_mean": trace.online_mean, "means": result.means})
        return 0
    rows = [
        (
            row["cycle"],
            f"{row['slot_s'] / 60:g} min",
            f"{row['threshold']} %",
            f"{row['regular_mean']:.2f}",
            f"{row['regular_min']:,}–{row['regular_max']:,}",
            *(_percent(row[f"retention_{what}"]) for what in ("mean", "min", "max")),
        )
        for row in result.means
    ]
    headings = ("cycle", "slot", "γ", "regular, mean", "regular", "retention, mean", "min", "max")
    online = f"{trace.ever_online:,} nodes ever on line, {trace.online_mean:.1f} on average"
    title = f"vinecast pipeline regularity {arguments.dataset}: {online}, {trace.sessions:,} sessions"
    print_table(headings, rows, title, arguments.markdown)
    return 0


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.2%}"
