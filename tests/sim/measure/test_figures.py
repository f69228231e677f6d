"""Figures: the same bytes every time, one file a figure, and one sentence where they cannot be drawn."""

import builtins
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from vinecast.core.errors import InputError, MissingExtraError
from vinecast.sim.measure.figures import Figure, Panel, ReferenceLine, Series, draw, merged

LINE = Series("one", [1, 2, 3], [0.5, 0.0, 2.0])
CLOUD = Series("two", [1, 2, 2], [1, 2, 3], style="points")
STEPS = Series("three", [1, 2, 3], [1, 0.5, 0.1], style="steps")


def figure(*panels: Panel, name: str = "f", columns: int = 2) -> Figure:
    return Figure(name, "A title (synthetic, 600 nodes)", panels, columns)


def panel(*series: Series, title: str = "p", **more: Any) -> Panel:
    return Panel(title, "x", "y", series, **more)


ALL_SORTS = figure(
    panel(
        LINE,
        CLOUD,
        STEPS,
        marks=(ReferenceLine("at x", x=2), ReferenceLine("at y", y=1), ReferenceLine("point", x=2, y=1)),
    ),
    panel(LINE, STEPS, title="log", log_x=True, log_y=True),
    panel(title="nothing"),
    panel(Series("zeros", [1, 2], [0, 0]), title="nothing to see", log_y=True),
)


def test_a_figure_is_drawn_as_png_and_svg(tmp_path: Path) -> None:
    written = draw([ALL_SORTS], tmp_path / "new" / "folder")
    assert [path.name for path in written] == ["f.png", "f.svg"]
    with Image.open(written[0]) as image:
        assert image.width > 1000
        assert len(image.convert("L").getcolors(256) or []) > 20
    svg = written[1].read_text(encoding="utf-8")
    assert svg.startswith("<?xml")
    for colour in ("#0072b2", "#d55e00", "#009e73"):
        assert colour in svg


CHILD = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_figures import ALL_SORTS
from vinecast.sim.measure.figures import draw
draw([ALL_SORTS], Path(sys.argv[2]))
"""


def test_the_same_bytes_in_another_process(tmp_path: Path) -> None:
    draw([ALL_SORTS], tmp_path / "a")
    arguments = [sys.executable, "-c", CHILD, str(Path(__file__).parent), str(tmp_path / "b")]
    subprocess.run(arguments, check=True)
    for name in ("f.png", "f.svg"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_settings_of_the_user_change_nothing(tmp_path: Path) -> None:
    import matplotlib

    draw([ALL_SORTS], tmp_path / "a")
    with matplotlib.rc_context({"font.size": 30, "svg.fonttype": "none"}):
        draw([ALL_SORTS], tmp_path / "b")
    for name in ("f.png", "f.svg"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_figures_of_one_name_are_one() -> None:
    first = figure(panel(LINE, marks=(ReferenceLine("a", x=1),)), panel(LINE, title="q"))
    again = Series("one", [7], [7])
    second = figure(
        panel(again, STEPS, marks=(ReferenceLine("a", x=1), ReferenceLine("b", x=2))), panel(CLOUD, title="r")
    )
    other = figure(panel(LINE), name="other")
    both, alone = merged([first, other, second])
    assert alone == other
    assert [one.title for one in both.panels] == ["p", "q", "r"]
    assert both.panels[0].series == (LINE, STEPS)  # what is there already stays
    assert both.panels[0].marks == (ReferenceLine("a", x=1), ReferenceLine("b", x=2))


def test_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError, match=r"pip install 'vinecast\[figures\]'"):
        draw([ALL_SORTS], tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="figures cannot be written"):
        draw([ALL_SORTS], tmp_path / "file" / "x")
