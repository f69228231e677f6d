"""``vinecast campaign``: random networks of whole peers under faults and lies, and what was promised,
checked.
"""

import argparse
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vinecast.cli.output import complain, print_below, print_json, print_table, progress
from vinecast.cli.stopping import INTERRUPTED, Stopped, stopped_by_sigterm
from vinecast.cli.values import positive
from vinecast.core.errors import InputError

if TYPE_CHECKING:
    from vinecast.lab.campaign.campaign import CampaignReport
    from vinecast.lab.campaign.plan import Plan

STORIES_MAX = 3
"""Stories that are told without being asked for (ours)."""
SEEDS_SHOWN = 8
LONG_S = 60.0
"""A campaign that takes longer says so where nobody sees its progress bar (ours)."""
SEED_MAX = 2**53


def seed_range(text: str) -> tuple[int, int]:
    """``N``: the seeds 1 to N; ``A-B``: those from A to B."""
    first, dash, last = text.partition("-")
    numbers = (first, last) if dash else ("1", first)
    if not all(number.isascii() and number.isdecimal() and len(number) <= 16 for number in numbers):
        raise argparse.ArgumentTypeError(f"a number of seeds, or a range such as 1-500, not {text[:40]!r}")
    low, high = map(int, numbers)
    if low > high or high > SEED_MAX:
        raise argparse.ArgumentTypeError(f"a range goes up, as 1-500 does, not {text[:40]!r}")
    return low, high


def add_campaign(commands: Any, command: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = command(
        commands,
        "campaign",
        campaign,
        "run random networks of whole peers under faults and lies, and check every promise",
        "vinecast campaign --seeds 200 --keep RUNS",
    )
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    parser.add_argument(
        "--seeds", type=seed_range, default=(1, 100), metavar="N|A-B", help="which (default: 1 to 100)"
    )
    parser.add_argument(
        "--system", metavar="NAME", help="all runs on one system (default: each seed draws one)"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep results there: what was stopped goes on where it was"
    )
    parser.add_argument(
        "--threads",
        type=positive,
        default=len(os.sched_getaffinity(0)),
        metavar="N",
        help="processes (default: all cores, %(default)s)",
    )
    parser.add_argument(
        "--spark", nargs="?", const="local", metavar="MASTER",
        help="as one Spark sweep, here or on a cluster such as spark://host:7077; it needs --keep, a "
        "folder that all machines share",
    )  # fmt: skip
    parser.add_argument(
        "--story", action="store_true", help="tell what happens in the first of the seeds, whole"
    )
    parser.add_argument(
        "--shrink", metavar="FAULT", nargs="?", const="",
        help="make the plan of the first seed smaller as long as it shows a fault (default: its first), and "
        "tell its story",
    )  # fmt: skip
    parser.add_argument(
        "--known", action="store_true", help="list what is known to be broken, and what does not exist yet"
    )
    parser.add_argument("--no-stories", action="store_true", help="do not shrink and tell what is unexpected")


def campaign(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from vinecast.systems.registry import LIVE_SYSTEMS

    if arguments.known:
        return _list_known(arguments)
    first, last = arguments.seeds
    if arguments.system is not None and arguments.system not in LIVE_SYSTEMS:
        raise InputError(f"no live system is called {arguments.system!r}: {', '.join(LIVE_SYSTEMS)}")
    try:
        with stopped_by_sigterm():
            return _campaign(arguments, first, last)
    except Stopped:
        complain("stopped")
        return INTERRUPTED


def _campaign(arguments: argparse.Namespace, first: int, last: int) -> int:
    if arguments.story:
        return _story(arguments, first)
    if arguments.shrink is not None:
        return _shrink(arguments, first)
    began = time.monotonic()
    report = _run(arguments, first, last)
    took_s = time.monotonic() - began
    if arguments.json:
        print_json(_as_dict(report, took_s))
    else:
        _print_report(report, took_s, arguments)
        if not arguments.no_stories:
            _tell_unexpected(report, arguments.system)
    return 1 if report.unexpected else 0


def _run(arguments: argparse.Namespace, first: int, last: int) -> "CampaignReport":
    from vinecast.lab.campaign.campaign import run_campaign

    with progress("campaign", last - first + 1) as show:

        def tell(done: int, of: int, name: str, left_s: float) -> None:
            text = f"{done} of {of} batches done, about {math.ceil(left_s / 60)} min left ({name})"
            show(done, text, of)
            if left_s >= LONG_S and not sys.stderr.isatty():
                complain(text)

        return run_campaign(
            first,
            last,
            system=arguments.system,
            keep=arguments.keep,
            processes=arguments.threads,
            spark=arguments.spark,
            tell=tell,
        )


def _print_report(report: "CampaignReport", took_s: float, arguments: argparse.Namespace) -> None:
    from vinecast.lab.campaign.known import ABSENT

    title = f"vinecast campaign --seeds {report.first}-{report.last}"
    if arguments.system:
        title += f" --system {arguments.system}"
    unexpected = report.unexpected_by_fault()
    rows = []
    for name, seeds in report.seeds_by_fault().items():
        odd = unexpected.get(name, [])
        known = len(seeds) - len(odd)
        rows.append((name, str(known), str(len(odd)), _shown(odd or seeds)))
    headings = ("promise, and how it was broken", "known", "unexpected", "seeds")
    print_table(headings, rows, title, arguments.markdown, lines=False)
    figures = report.figures()
    told = ", ".join(f"{count:,} {name}" for name, count in figures.items())
    systems = ", ".join(f"{name} {count}" for name, count in report.systems().items())
    sentences = (
        f"{len(report.results):,} runs ({systems}): {told}.",
        f"{len(report.unexpected)} runs broke a promise in a way that is not known. Code {report.code}.",
        f"Not checked, since it does not exist: {'; '.join(f'{p}, {what}' for p, what in ABSENT.items())}.",
        f"It took {took_s:,.0f} s.",
    )
    print()  # noqa: T201
    for sentence in sentences:
        print(sentence)  # noqa: T201


def _shown(seeds: list[int]) -> str:
    more = f" and {len(seeds) - SEEDS_SHOWN} more" if len(seeds) > SEEDS_SHOWN else ""
    return ", ".join(map(str, seeds[:SEEDS_SHOWN])) + more


def _as_dict(report: "CampaignReport", took_s: float) -> dict[str, Any]:
    return {
        "first": report.first,
        "last": report.last,
        "code": report.code,
        "runs": len(report.results),
        "systems": report.systems(),
        "figures": report.figures(),
        "faults": report.seeds_by_fault(),
        "unexpected": report.unexpected_by_fault(),
        "seconds": round(took_s, 1),
    }


def _tell_unexpected(report: "CampaignReport", system: str | None) -> None:
    """Shrink and tell the first runs that show something new, one for each kind."""
    from vinecast.lab.campaign.draw import draw_plan
    from vinecast.lab.campaign.shrink import shrink
    from vinecast.lab.campaign.story import tell_story

    for name, seeds in list(report.unexpected_by_fault().items())[:STORIES_MAX]:
        complain(f"making the plan of seed {seeds[0]} smaller, which shows {name!r} …")
        print(f"\n{name}\n")  # noqa: T201
        print(tell_story(shrink(draw_plan(seeds[0], system), name)))  # noqa: T201


def _list_known(arguments: argparse.Namespace) -> int:
    from vinecast.lab.campaign.known import ABSENT, KNOWN

    if arguments.json:
        known = [{"name": one.name, "why": one.why, "seeds": list(one.seeds)} for one in KNOWN]
        print_json({"known": known, "absent": ABSENT})
        return 0
    rows = [(one.name, one.why, ", ".join(map(str, one.seeds))) for one in KNOWN]
    headings = ("promise, and how it is broken", "why", "seeds that show it")
    print_table(headings, rows, "vinecast campaign --known", arguments.markdown)
    print_below(("promise", "does not exist"), list(ABSENT.items()), "absent", arguments.markdown)
    return 0


def _story(arguments: argparse.Namespace, number: int) -> int:
    from vinecast.lab.campaign.draw import draw_plan

    return _tell(arguments, draw_plan(number, arguments.system))


def _tell(arguments: argparse.Namespace, plan: "Plan") -> int:
    """Tell what happens in a plan."""
    from vinecast.lab.campaign.story import tell_story

    story = tell_story(plan)
    if arguments.json:
        print_json({"seed": plan.seed, "system": plan.system, "story": story.splitlines()})
    else:
        print(story)  # noqa: T201
    return 0


def _shrink(arguments: argparse.Namespace, number: int) -> int:
    from vinecast.lab.campaign.draw import draw_plan
    from vinecast.lab.campaign.run import run_plan
    from vinecast.lab.campaign.shrink import shrink

    plan, fault = draw_plan(number, arguments.system), arguments.shrink
    found = run_plan(plan).judgement.counts
    if not found:
        raise InputError(f"seed {number} breaks no promise: there is nothing to make smaller")
    name = fault or next(iter(found))
    if name not in found:
        raise InputError(f"seed {number} does not show {name!r}; it shows: {'; '.join(found)}")
    with progress("shrink", len(plan.steps)) as show:
        smaller = shrink(
            plan,
            name,
            tell=lambda steps, tries: show(len(plan.steps) - steps, f"{steps} steps left, {tries} runs made"),
        )
    return _tell(arguments, smaller)
