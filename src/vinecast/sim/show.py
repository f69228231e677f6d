"""A run for people: a few lines of pictures and a few sentences, rather than a table of numbers."""

import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from vinecast.core.errors import InputError, MissingExtraError
from vinecast.sim.run import CYCLE_COLUMNS

SUMMARY_KEYS = (
    *("name", "description", "system", "seed", "nodes", "cycles", "period_s", "came", "went"),
    *("connected_throughout", "final"),
)
BARS = "▁▂▃▄▅▆▇█"

OPTIONAL: tuple[tuple[str, str, str, Callable[[float], float]], ...] = (
    ("clustering coefficient", "clustering", ".5f", float),
    ("average path, hops", "path_length", ".3f", float),
    ("ring links that are missing, %", "missing_links", ".3f", lambda share: 100 * share),
    ("incomplete rings, %", "incomplete_rings", ".2f", lambda share: 100 * share),
    ("events missed, %", "hit_ratio", ".3f", lambda share: 100 * (1 - share)),
    ("hops of an event, mean", "hops_mean", ".2f", float),
    ("… and the most", "hops_max", ".0f", float),
    ("copies received a subscriber", "duplication", ".2f", float),
)
"""Series that not every run has: label, column, format, and what to show of a value."""

WIDTH = 60


def sparkline(values: Sequence[float], width: int = WIDTH) -> str:
    """A series as one line of bars; longer series are averaged down to ``width``."""
    if not values:
        return ""
    if len(values) > width:
        edges = [len(values) * i // width for i in range(width + 1)]
        values = [sum(values[a:b]) / (b - a) for a, b in itertools.pairwise(edges)]
    low, high = min(values), max(values)
    if high == low:
        return BARS[len(BARS) // 2 if high else 0] * len(values)
    return "".join(BARS[min(int((v - low) / (high - low) * len(BARS)), len(BARS) - 1)] for v in values)


def load(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A run's summary and measurements from its folder."""
    try:
        from vinecast.sim.records import read_rows
    except ImportError as error:
        raise MissingExtraError("reading a run", "sim", error.name or "a package") from None
    for name in ("summary.json", "cycles.parquet"):
        if not (folder / name).is_file():
            raise InputError(f"{folder} is not a run's folder ({name} is not there)")
    try:
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        rows = read_rows(folder / "cycles.parquet")
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{folder} cannot be read as a run's folder: {reason}") from None
    final = summary.get("final") if isinstance(summary, dict) else None
    if not isinstance(final, dict) or not set(SUMMARY_KEYS) <= set(summary):
        raise InputError(f"{folder / 'summary.json'} is not the summary of a run")
    if not rows or not set(CYCLE_COLUMNS) <= set(rows[0]) or not set(CYCLE_COLUMNS) <= set(final):
        raise InputError(f"{folder / 'cycles.parquet'} does not hold a run's measurements")
    return summary, rows


def show(console: Console, summary: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Print a run."""
    setting = summary.get("setting", "machines on the event engine")
    where = f"{summary['nodes']:,} nodes · {summary['cycles']:,} cycles of {summary['period_s']:g} s"
    title = f"{summary['system']} · {where} · {setting} · seed {summary['seed']}"
    text = Text(summary["description"] or summary["name"])
    console.print(Panel(text, title=Text(title), expand=False))
    console.print(_pictures(rows))
    for sentence in _sentences(summary, rows):
        console.print(f"• {sentence}", highlight=False, markup=False)


def _pictures(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("", "first cycle → last", "lowest", "highest", "at the end"):
        table.add_column(heading, justify="left" if heading in ("", "first cycle → last") else "right")
    series: list[tuple[str, list[float], str]] = [
        ("nodes on line", [row["online"] for row in rows], ",.0f"),
        ("links that point to a node, mean", [row["in_degree_mean"] for row in rows], ".2f"),
        ("… and their standard deviation", [row["in_degree_std"] for row in rows], ".2f"),
        ("dead links, % of all", [_dead_share(row) for row in rows], ".2f"),
    ]
    for label, key, form, value_of in OPTIONAL:
        values = [value_of(row[key]) for row in rows if row.get(key) is not None]
        if values:
            series.append((label, values, form))
    for label, values, form in series:
        numbers = [format(value, form) for value in (min(values), max(values), values[-1])]
        table.add_row(label, f"[cyan]{sparkline(values)}[/]", *numbers)
    return table


def _dead_share(row: dict[str, Any]) -> float:
    links = row["online"] * row["out_degree_mean"] + row["dead_links"]
    return 100 * float(row["dead_links"]) / links if links else 0.0


def _sentences(summary: dict[str, Any], rows: list[dict[str, Any]]) -> list[str]:
    final = summary["final"]
    sentences = [
        f"{summary['came']:,} times a node came up and {summary['went']:,} times one vanished; "
        f"{final['online']:,} are on line at the end."
    ]
    if summary["connected_throughout"]:
        sentences.append("The network was in one piece at every measurement.")
    else:
        broken = next(row for row in rows if row["components"] > 1)
        sentences.append(
            f"The network was in {broken['components']} pieces after cycle {broken['cycle']}, "
            f"and in {final['components']} at the end."
        )
    sentences.append(
        f"A node is known to {final['in_degree_mean']:.1f} others on average, to between "
        f"{final['in_degree_min']} and {final['in_degree_max']} (standard deviation "
        f"{final['in_degree_std']:.2f}; a random graph: about {final['out_degree_mean'] ** 0.5:.1f})."
    )
    if "topics" in summary:
        sentences += _topic_sentences(summary, rows)
    counters = summary.get("counters", {})
    if "sent.cyclon.request" in counters:
        silent = counters.get("cyclon.silent", 0)
        sentences.append(
            f"{counters['sent.cyclon.request']:,} exchanges were begun; {silent:,} partners stayed silent "
            "and were forgotten for it."
        )
    if "state_bytes_per_node" in summary:
        sentences.append(f"State: {summary['state_bytes_per_node']:.0f} bytes a node.")
    return sentences


def _topic_sentences(summary: dict[str, Any], rows: list[dict[str, Any]]) -> list[str]:
    final = summary["final"]
    sentences = [
        f"{summary['topics']:,} topics ({summary['workload']}); a node subscribes to "
        f"{summary['subscriptions_mean']:.1f} on average."
    ]
    if final.get("incomplete_rings") is not None:
        broken = [row["cycle"] for row in rows if row["incomplete_rings"]]
        if not broken:
            sentences.append("All rings were complete at every measurement.")
        elif broken[-1] < final["cycle"]:
            sentences.append(f"All rings are complete; cycle {broken[-1]} was the last in which one was not.")
        else:
            sentences.append(
                f"At the end {100 * final['missing_links']:.3g} % of the ring links are missing, and "
                f"{100 * final['incomplete_rings']:.3g} % of the rings are incomplete."
            )
    if final.get("hit_ratio") is not None:
        sentences.append(
            f"At the end an event reaches {100 * final['hit_ratio']:.4g} % of its on-line subscribers, in "
            f"{final['hops_mean']:.1f} hops on average and {final['hops_max']:.0f} at the most; each of them "
            f"gets {final['duplication']:.2f} copies."
        )
    return sentences
