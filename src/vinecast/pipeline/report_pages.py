"""What a report looks like: tables as Markdown, CSV and HTML, figures, and the page that holds them all.

Plain data in, files out; no Spark.
"""

import base64
import csv
import html
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from vinecast.core.errors import InputError
from vinecast.sim.measure.figures import Figure, Panel, Series, draw

LABELS = {
    "hit_ratio": "hit ratio",
    "miss_ratio": "miss ratio",
    "hops_mean": "hops, mean",
    "hops_p99": "hops, 99 of 100 within",
    "duplication": "copies a delivery",
    "latency_ms_mean": "latency, mean (ms)",
    "latency_ms_p50": "latency, half within (ms)",
    "latency_ms_p99": "latency, 99 of 100 within (ms)",
    "traffic_overhead": "traffic overhead",
    "missing_links": "missing ring links",
    "control_messages": "control messages a node and cycle",
    "control_bytes": "control bytes a node and cycle",
}
"""Measures in words; the others are called by their names."""

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 70rem; margin: 2rem auto }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums }
th, td { border: 1px solid #ccc; padding: .3rem .6rem; text-align: right }
th { background: #f3f3f3; font-weight: 600 } td.setting, th.setting { text-align: left }
img { max-width: 100%; height: auto } .scroll { overflow-x: auto } small { color: #666 }
"""


@dataclass(frozen=True, slots=True)
class Page:
    """All that a report shows."""

    title: str
    points: list[dict[str, Any]]
    """Rows of the table of points."""
    order: list[str]
    """Points of the grid, as JSON."""
    measures: tuple[str, ...]
    x: str | None
    hops: list[dict[str, Any]]
    """point, value, count"""
    curves: list[dict[str, Any]]
    """point, cycle, miss_ratio"""
    failed: list[tuple[str, str]]
    """Runs without a result, and why."""
    runs: int


@dataclass(frozen=True, slots=True)
class _Grid:
    """The points with their values read, in order: numbers by size, words as they are."""

    axes: tuple[str, ...]
    points: dict[str, tuple[Any, ...]]

    @classmethod
    def of(cls, order: Sequence[str]) -> "_Grid":
        told = {
            point: {axis: json.loads(value) for axis, value in json.loads(point).items()} for point in order
        }
        axes = tuple(dict.fromkeys(axis for values in told.values() for axis in values))
        values = {point: tuple(found.get(axis) for axis in axes) for point, found in told.items()}
        return cls(axes, dict(sorted(values.items(), key=lambda item: [_sorting(v) for v in item[1]])))

    def numeric(self, wanted: str | None) -> int | None:
        """The axis from left to right."""
        for i, axis in enumerate(self.axes):
            values = [value[i] for value in self.points.values()]
            numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
            if numbers and (axis == wanted or (wanted is None and len(set(values)) > 1)):
                return i
        return None

    def name(self, point: str, without: int | None = None) -> str:
        """A point in words, for a legend."""
        values = self.points[point]
        said = [
            f"{axis.rpartition('.')[2]} {_text(value)}"
            for i, (axis, value) in enumerate(zip(self.axes, values, strict=True))
            if i != without
        ]
        return ", ".join(said) or "all runs"


def _sorting(value: object) -> tuple[int, float, str]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return 0, float(value), ""
    return 1, 0.0, _text(value)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)


def label(measure: str) -> str:
    """A measure in words."""
    return LABELS.get(measure, measure.replace("_", " "))


def check_axis(order: Sequence[str], x: str | None) -> None:
    """InputError unless the axis from left to right, where one is named, is an axis of numbers."""
    grid = _Grid.of(order)
    if x is not None and grid.numeric(x) is None:
        raise InputError(f"x must be an axis of numbers, not {x!r} (axes: {', '.join(grid.axes) or 'none'})")


def write_pages(page: Page, folder: Path) -> None:
    """All files of a report."""
    grid = _Grid.of(page.order)
    figures = _figures(page, grid)
    drawn = draw(figures, folder) if figures else []
    head, rows = _table(page, grid)
    (folder / "report.md").write_text(_markdown(page, head, rows, figures), encoding="utf-8")
    (folder / "points.csv").write_text(_csv(page, grid), encoding="utf-8")
    pictures = [path for path in drawn if path.suffix == ".svg"]
    (folder / "index.html").write_text(_html(page, grid, head, rows, pictures), encoding="utf-8")


def _table(page: Page, grid: _Grid) -> tuple[list[str], list[list[str]]]:
    """A row a point, a column a measure: mean ± standard deviation."""
    found = {(row["point"], row["measure"]): row for row in page.points}
    rows = []
    for point, values in grid.points.items():
        cells = [found.get((point, measure)) for measure in page.measures]
        rows.append([*map(_text, values), *("" if row is None else _spread(row) for row in cells)])
    return [*grid.axes, *map(label, page.measures)], rows


def _spread(row: dict[str, Any]) -> str:
    mean = f"{row['mean']:.4g}"
    return mean if row["runs"] < 2 else f"{mean} ± {row['std']:.2g}"


def _about(page: Page) -> str:
    lost = f", of which {len(page.failed):,} failed" if page.failed else ""
    return (
        f"{page.runs:,} runs{lost}; {len(page.order):,} points of the grid. "
        "Mean ± standard deviation over the seeds; bands in figures go from the least to the most."
    )


def _markdown(page: Page, head: list[str], rows: list[list[str]], figures: list[Figure]) -> str:
    lines = [f"# {page.title}", "", _about(page), "", _row(head), _row(["---"] * len(head)), *map(_row, rows)]
    for figure in figures:
        lines += ["", f"![{figure.title}]({figure.name}.png)"]
    if page.failed:
        lines += ["", "Failed:", "", *(f"- `{run}`: {why}" for run, why in page.failed)]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _csv(page: Page, grid: _Grid) -> str:
    """One line a point and measure, in full precision."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    numbers = ("runs", "mean", "std", "low", "high")
    writer.writerow([*grid.axes, "measure", *numbers])
    found = {(row["point"], row["measure"]): row for row in page.points}
    for point, values in grid.points.items():
        for measure in page.measures:
            if row := found.get((point, measure)):
                writer.writerow([*map(_text, values), measure, *(repr(row[name]) for name in numbers)])
    return out.getvalue()


def _figures(page: Page, grid: _Grid) -> list[Figure]:
    figures = []
    across = grid.numeric(page.x)
    if across is not None:
        figures.append(_over_the_grid(page, grid, across))
    if page.hops:
        panel = Panel("hops", "hops", "share of deliveries within", tuple(_reach(page, grid)))
        figures.append(Figure("hops", f"{page.title}: hops of deliveries", (panel,), columns=1))
    if any(row["miss_ratio"] > 0 for row in page.curves):
        lines = tuple(_curves(page, grid))
        panel = Panel("misses", "cycle", "miss ratio", lines)
        figures.append(Figure("misses", f"{page.title}: events missed over time", (panel,), columns=1))
    return figures


def _over_the_grid(page: Page, grid: _Grid, across: int) -> Figure:
    """A panel a measure, a curve for every setting of the other axes."""
    found = {(row["point"], row["measure"]): row for row in page.points}
    panels = []
    for measure in page.measures:
        curves: dict[str, list[tuple[float, dict[str, Any]]]] = {}
        for point, values in grid.points.items():
            if row := found.get((point, measure)):
                curves.setdefault(grid.name(point, across), []).append((float(values[across]), row))
        series = []
        for name, told in curves.items():
            told.sort(key=lambda item: item[0])
            x, rows = [item[0] for item in told], [item[1] for item in told]
            y, low, high = ([row[key] for row in rows] for key in ("mean", "low", "high"))
            band = any(row["runs"] > 1 for row in rows)
            series.append(Series(name, x, y, low=low if band else (), high=high if band else ()))
        panels.append(Panel(label(measure), grid.axes[across], label(measure), tuple(series)))
    return Figure("measures", page.title, tuple(panels))


def _reach(page: Page, grid: _Grid) -> list[Series]:
    series = []
    for point in grid.points:
        told = [(row["value"], row["count"]) for row in page.hops if row["point"] == point]
        if told:
            total = sum(count for _, count in told)
            upto = [reached / total for reached in accumulate(count for _, count in told)]
            series.append(Series(grid.name(point), [float(value) for value, _ in told], upto, "steps"))
    return series


def _curves(page: Page, grid: _Grid) -> list[Series]:
    series = []
    for point in grid.points:
        told = [(float(row["cycle"]), row["miss_ratio"]) for row in page.curves if row["point"] == point]
        if told:
            series.append(Series(grid.name(point), [x for x, _ in told], [y for _, y in told]))
    return series


def _html(page: Page, grid: _Grid, head: list[str], rows: list[list[str]], pictures: list[Path]) -> str:
    settings = len(grid.axes)

    def cells(tag: str, row: list[str]) -> str:
        return "".join(
            f"<{tag}{' class=setting' if i < settings else ''}>{html.escape(cell)}</{tag}>"
            for i, cell in enumerate(row)
        )

    title = html.escape(page.title)
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style></head>',
        f"<body><h1>{title}</h1><p>{html.escape(_about(page))}</p>",
        f"<div class=scroll><table><thead><tr>{cells('th', head)}</tr></thead><tbody>",
        *(f"<tr>{cells('td', row)}</tr>" for row in rows),
        "</tbody></table></div>",
    ]
    for path in pictures:
        picture = base64.b64encode(path.read_bytes()).decode("ascii")
        parts.append(f'<p><img alt="{html.escape(path.stem)}" src="data:image/svg+xml;base64,{picture}"></p>')
    if page.failed:
        failed = "".join(
            f"<li><code>{html.escape(run)}</code>: {html.escape(why)}</li>" for run, why in page.failed
        )
        parts.append(f"<h2>Failed runs</h2><ul>{failed}</ul>")
    return "\n".join([*parts, "</body></html>", ""])
