"""A run for people: a few lines of pictures and a few sentences, rather than a table of numbers."""

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.panel import Panel as Frame
from rich.table import Table
from rich.text import Text

from vinecast.core.errors import InputError, MissingExtraError
from vinecast.sim.measure.figures import Figure, Panel, Series
from vinecast.sim.scenario.run import CYCLE_COLUMNS
from vinecast.sim.scenario.watch import CLASS_COLUMNS

SUMMARY_KEYS = (
    *("name", "description", "system", "seed", "nodes", "cycles", "period_s", "came", "went"),
    *("connected_throughout", "final"),
)
BARS = "▁▂▃▄▅▆▇█"


def _dead_share(row: dict[str, Any]) -> float:
    links = row["online"] * row["out_degree_mean"] + row["dead_links"]
    return 100 * float(row["dead_links"]) / links if links else 0.0


def _column(name: str) -> Callable[[dict[str, Any]], float | None]:
    return lambda row: row.get(name)


def _percent(name: str) -> Callable[[dict[str, Any]], float | None]:
    return lambda row: None if row.get(name) is None else 100 * float(row[name])


def _missed(row: dict[str, Any]) -> float | None:
    return None if row.get("hit_ratio") is None else 100 * (1 - float(row["hit_ratio"]))


@dataclass(frozen=True, slots=True)
class Picture:
    """A series of a run: what to call it, how to print a value of it, and how to find it in a row."""

    label: str
    form: str
    value: Callable[[dict[str, Any]], float | None]
    """None where a row does not have it; a series that no row has is not shown."""
    full_label: str = ""
    """What to call it where it stands alone, if that is something else."""

    @property
    def title(self) -> str:
        """What to call it where it stands alone."""
        return self.full_label or self.label

    def of(self, rows: list[dict[str, Any]]) -> tuple[list[float], list[float]]:
        """The cycles that have a value, and the values."""
        found = [(row["cycle"], value) for row in rows if (value := self.value(row)) is not None]
        return [cycle for cycle, _ in found], [value for _, value in found]


PICTURES = (
    Picture("nodes on line", ",.0f", _column("online")),
    Picture("links that point to a node, mean", ".2f", _column("in_degree_mean")),
    Picture(
        "… and their standard deviation",
        ".2f",
        _column("in_degree_std"),
        "links that point to a node, standard deviation",
    ),
    Picture("dead links, % of all", ".2f", _dead_share),
    Picture("clustering coefficient", ".5f", _column("clustering")),
    Picture("average path, hops", ".3f", _column("path_length")),
    Picture("ring links that are missing, %", ".3f", _percent("missing_links")),
    Picture("incomplete rings, %", ".2f", _percent("incomplete_rings")),
    Picture("events missed, %", ".3f", _missed),
    Picture("hops of an event, mean", ".2f", _column("hops_mean")),
    Picture("… and the most", ".0f", _column("hops_max"), "hops of an event, the most"),
    Picture("latency of an event, mean, ms", ",.0f", _column("latency_ms_mean")),
    Picture("… 99 of 100 within", ",.0f", _column("latency_ms_p99"), "latency of 99 in 100 deliveries, ms"),
    Picture("copies received a subscriber", ".2f", _column("duplication")),
    Picture("event messages to those not interested, %", ".2f", _percent("traffic_overhead")),
    Picture("control messages a node and cycle", ".2f", _column("control_messages")),
    Picture("control bytes a node and cycle", ",.0f", _column("control_bytes")),
)

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
        from vinecast.sim.measure.records import read_rows
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


def load_classes(folder: Path) -> list[dict[str, Any]]:
    """A run's classes from its folder; none where the system has no topics."""
    from vinecast.sim.measure.records import read_rows

    path = folder / "classes.parquet"
    if not path.is_file():
        return []
    try:
        rows = read_rows(path)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path} cannot be read: {reason}") from None
    if rows and not set(CLASS_COLUMNS) <= set(rows[0]):
        raise InputError(f"{path} does not hold a run's classes")
    return rows


def show(
    console: Console,
    summary: dict[str, Any],
    rows: list[dict[str, Any]],
    classes: Sequence[dict[str, Any]] = (),
) -> None:
    """Print a run."""
    setting = summary.get("setting", "machines on the event engine")
    where = f"{summary['nodes']:,} nodes · {summary['cycles']:,} cycles of {summary['period_s']:g} s"
    title = f"{summary['system']} · {where} · {setting} · seed {summary['seed']}"
    text = Text(summary["description"] or summary["name"])
    console.print(Frame(text, title=Text(title), expand=False))
    console.print(_pictures(rows))
    if classes:
        console.print(_class_table(summary, classes))
    for sentence in _sentences(summary, rows):
        console.print(f"• {sentence}", highlight=False, markup=False)


def _pictures(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("", "first cycle → last", "lowest", "highest", "at the end"):
        table.add_column(heading, justify="left" if heading in ("", "first cycle → last") else "right")
    for picture in PICTURES:
        _, values = picture.of(rows)
        if values:
            numbers = [format(value, picture.form) for value in (min(values), max(values), values[-1])]
            table.add_row(picture.label, f"[cyan]{sparkline(values)}[/]", *numbers)
    return table


def figure_of(summary: dict[str, Any], rows: list[dict[str, Any]]) -> Figure:
    """The same series as one figure, a panel each."""
    panels = []
    for picture in PICTURES:
        cycles, values = picture.of(rows)
        if values:
            line = Series(summary["name"], cycles, values)
            panels.append(Panel(picture.title, "cycle", "", (line,)))
    where = f"{summary['system']}, {summary['nodes']:,} nodes"
    if "topics" in summary:
        where += f", {summary['topics']:,} topics ({summary['workload']})"
    return Figure(summary["name"], f"{summary['name']}: {where}", tuple(panels))


def _class_table(summary: dict[str, Any], classes: Sequence[dict[str, Any]]) -> Table:
    """Classes of topics and of nodes: over the whole run where nodes left, else as they were at the end."""
    when = "run" if summary["went"] else "last"
    words = "in the whole run" if summary["went"] else "at the end"
    by = {"popularity": "topics with", "subscriptions": "nodes with"}
    of = {"popularity": "subscribers", "subscriptions": "subscriptions"}
    table = Table(box=None, pad_edge=False, title=f"By class, {words}", title_justify="left")
    table.add_column("")
    for heading, _, _ in CLASS_FIGURES:
        table.add_column(heading, justify="right")
    for row in classes:
        if row["when"] == when:
            size = f"{row['from']:,}" if row["from"] == row["to"] else f"{row['from']:,}–{row['to']:,}"
            cells = [_cell(row[name], form, factor) for _, (name, factor), form in CLASS_FIGURES]
            table.add_row(f"{by[row['by']]} {size} {of[row['by']]}", *cells)
    return table


CLASS_FIGURES = (
    ("events due", ("due", 1), ",.0f"),
    ("arrived, %", ("hit_ratio", 100), ".4g"),
    ("hops", ("hops_mean", 1), ".2f"),
    ("copies", ("duplication", 1), ".2f"),
    ("ring links missing, %", ("missing_links", 100), ".3g"),
    ("control messages a cycle", ("control_messages", 1), ".1f"),
    ("degree", ("degree", 1), ".1f"),
)
"""Heading, column and what to multiply it with, format."""


def _cell(value: float | None, form: str, factor: int) -> str:
    return "" if value is None else format(factor * value, form)


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
