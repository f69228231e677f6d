"""Figures: what to draw, as plain data, and how to draw it.

Whoever measures describes a figure (series, labels, the paper's value as a mark) and knows nothing of
plotting; ``draw`` makes PNG and SVG of it with Matplotlib, which is imported only then. Same description,
same bytes: nothing of the day or the machine gets into the files.

Figures of one name are one figure: ``merged`` puts the panels and series of several descriptions together, so
that each claim can add its own curve to the same picture.
"""

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vinecast.core.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette, which colour-blind people can tell apart."""
DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
INK, FAINT = "#333333", "#888888"
FORMATS = ("png", "svg")
LETTERS_AN_INCH = 9.5  # of a title
LINE_LETTERS = 6  # for which there is room in a legend's sample of a line
FEW = 30  # ours: up to so many points a line also shows where they are
PANEL_INCHES, WIDE_INCHES = (5.2, 3.5), (9.0, 3.2)


@dataclass(frozen=True, slots=True)
class Series:
    """One curve. ``name`` stands in the legend; one name has one colour in all panels of a figure."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    style: str = "line"
    """``line``, ``steps`` (distributions) or ``points`` (clouds)."""
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    """With a line: how far values go down and up, as a band; none where empty."""


@dataclass(frozen=True, slots=True)
class ReferenceLine:
    """A value of the paper's, or a limit: a dashed line across the panel at x or at y, with a few words.

    With both it is a point.
    """

    text: str
    x: float | None = None
    y: float | None = None


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes. ``title`` identifies it within its figure."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    marks: tuple[ReferenceLine, ...] = ()
    log_x: bool = False
    log_y: bool = False
    """On a logarithmic axis zero lies below the edge: a curve that gets there plunges."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One picture. ``name`` is the file's, without an ending."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    columns: int = 2
    """Panels beside each other; 1 makes them wide, for long series."""


def merged(figures: Iterable[Figure]) -> list[Figure]:
    """Figures of one name as one: panels by title, series by name and style, the first of each kept."""
    found: dict[str, Figure] = {}
    for figure in figures:
        known = found.get(figure.name)
        found[figure.name] = figure if known is None else _joined(known, figure)
    return list(found.values())


def _joined(known: Figure, more: Figure) -> Figure:
    panels = {panel.title: panel for panel in known.panels}
    for panel in more.panels:
        first = panels.get(panel.title)
        if first is None:
            panels[panel.title] = panel
            continue
        series = {(line.name, line.style): line for line in (*panel.series, *first.series)}
        order = dict.fromkeys((line.name, line.style) for line in (*first.series, *panel.series))
        marks = tuple(dict.fromkeys((*first.marks, *panel.marks)))
        panels[panel.title] = replace(first, series=tuple(series[key] for key in order), marks=marks)
    return replace(known, panels=tuple(panels.values()))


def check_drawing() -> None:
    """Say at once, before hours of measuring, that figures cannot be drawn here."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("drawing figures", "figures", error.name or "matplotlib") from None


def draw(figures: Iterable[Figure], folder: Path) -> list[Path]:
    """Write every figure into a folder, as PNG and as SVG; the files written."""
    check_drawing()
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for figure in merged(figures):
            written += _draw_one(figure, folder)
    except OSError as error:
        raise InputError(f"{folder}: figures cannot be written ({error.strerror or error})") from None
    return written


def _draw_one(figure: Figure, folder: Path) -> list[Path]:
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    columns = min(figure.columns, len(figure.panels))
    rows = math.ceil(len(figure.panels) / columns)
    width, height = PANEL_INCHES if figure.columns > 1 else WIDE_INCHES
    names = _names(figure)
    shared = len(figure.panels) > 1 and all(_panel_names(panel) == names for panel in figure.panels)
    settings: Any = dict(matplotlib.rcParamsDefault)  # whatever this user's own say
    settings |= {"svg.hashsalt": "vinecast", "font.size": 9.5, "axes.edgecolor": FAINT}
    with matplotlib.rc_context(settings):
        canvas = Canvas(figsize=(width * columns, height * rows + 0.7), dpi=150, layout="constrained")
        FigureCanvasAgg(canvas)
        title = textwrap.fill(figure.title, int(LETTERS_AN_INCH * width * columns))
        canvas.suptitle(title, fontsize=11.5, fontweight="bold", color=INK)
        for number, panel in enumerate(figure.panels):
            axes = canvas.add_subplot(rows, columns, number + 1)
            _draw_panel(axes, panel, names, with_title=len(figure.panels) > 1)
            if len(figure.panels) == 1 or (not shared and len(_panel_names(panel)) > 1):
                axes.legend(loc="best", fontsize=8.5, framealpha=0.85, edgecolor="none")
        if shared:
            handles, labels = canvas.axes[0].get_legend_handles_labels()
            fit = int(LETTERS_AN_INCH * width * columns / (max(map(len, labels)) + LINE_LETTERS))
            canvas.legend(
                handles, labels, loc="outside lower center", ncols=max(1, min(fit, len(names))),
                frameon=False, fontsize=9.5,
            )  # fmt: skip
        paths = []
        for ending in FORMATS:
            path = folder / f"{figure.name}.{ending}"
            metadata = {"Date": None, "Creator": None} if ending == "svg" else {"Software": None}
            canvas.savefig(path, metadata=metadata, facecolor="white")
            paths.append(path)
    return paths


def _names(figure: Figure) -> list[str]:
    return list(dict.fromkeys(name for panel in figure.panels for name in _panel_names(panel)))


def _panel_names(panel: Panel) -> list[str]:
    return list(dict.fromkeys(series.name for series in panel.series))


def _draw_panel(axes: "Axes", panel: Panel, names: list[str], with_title: bool) -> None:
    above = [value for series in panel.series for value in series.y if value > 0]
    log_x = panel.log_x and any(value > 0 for series in panel.series for value in series.x)
    log_y = panel.log_y and bool(above)
    if log_x:
        _make_log(axes.xaxis, axes.set_xscale, "mask")
    if log_y:
        _make_log(axes.yaxis, axes.set_yscale, "clip")
    labelled: set[str] = set()
    few = max((len(series.x) for series in panel.series if series.style == "line"), default=0) <= FEW
    for series in panel.series:
        _draw_series(axes, series, names.index(series.name), series.name not in labelled, few)
        labelled.add(series.name)
    for mark in panel.marks:
        _draw_mark(axes, mark)
    if with_title:
        axes.set_title(panel.title, fontsize=10.5, color=INK)
    axes.set_xlabel(panel.x_label, color=INK)
    axes.set_ylabel(panel.y_label, color=INK)
    axes.grid(visible=True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK, which="both")
    if log_x:
        _thin_out(axes.xaxis)
    if log_y:
        axes.set_ylim(bottom=min(above) / 1.3)
        _thin_out(axes.yaxis)
    elif all(value >= 0 for series in panel.series for value in series.y):
        axes.set_ylim(bottom=0)


def _thin_out(axis: "Axis") -> None:
    """Between the powers of ten there are numbers only where there is at most one power."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    low, high = axis.get_view_interval()
    plain = FuncFormatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(plain if high < 8 * low else NullFormatter())


def _make_log(axis: "Axis", set_scale: Callable[..., None], zeros: str) -> None:
    """A logarithmic axis with plain numbers on it; what is zero lies below its edge, or is left out."""
    from matplotlib.ticker import FuncFormatter

    set_scale("log", nonpositive=zeros)
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _draw_series(axes: "Axes", series: Series, number: int, with_label: bool, with_markers: bool) -> None:
    look: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "label": series.name}
    if not with_label:
        look["label"] = "_"
    marker = MARKERS[number % len(MARKERS)]
    if series.style == "points":
        # Many points would make an SVG of megabytes, so clouds are pictures within it.
        axes.scatter(
            series.x, series.y, s=9, marker=marker, alpha=0.35, linewidths=0, rasterized=True, **look
        )
        return
    look |= {"linewidth": 1.8, "linestyle": DASHES[number % len(DASHES)]}
    if series.style == "steps":
        axes.step(series.x, series.y, where="post", **look)
        return
    if with_markers:
        look |= {"marker": marker, "markersize": 5}
    axes.plot(series.x, series.y, **look)
    if series.low:
        axes.fill_between(series.x, series.low, series.high, color=look["color"], alpha=0.15, linewidth=0)


def _draw_mark(axes: "Axes", mark: ReferenceLine) -> None:
    line: dict[str, Any] = {"color": FAINT, "linewidth": 1.1, "linestyle": (0, (2, 2)), "zorder": 1}
    words: dict[str, Any] = {"fontsize": 8, "color": INK, "alpha": 0.85}
    if mark.x is not None and mark.y is not None:
        axes.plot([mark.x], [mark.y], marker="*", markersize=11, color=INK, linestyle="none", label="_")
        axes.annotate(
            mark.text, (mark.x, mark.y), xytext=(0, 6), textcoords="offset points", ha="center", **words
        )
    elif mark.y is not None:
        axes.axhline(mark.y, **line)
        axes.annotate(
            mark.text, (1, mark.y), xycoords=("axes fraction", "data"), xytext=(-2, 2),
            textcoords="offset points", ha="right", va="bottom", **words,
        )  # fmt: skip
    elif mark.x is not None:
        axes.axvline(mark.x, **line)
        axes.annotate(
            mark.text, (mark.x, 1), xycoords=("data", "axes fraction"), xytext=(-3, -2),
            textcoords="offset points", ha="right", va="top", **words,
        )  # fmt: skip
