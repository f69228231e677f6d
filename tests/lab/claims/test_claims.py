"""The papers' claims: each holds at the small scale, and the command says so."""

import json
from pathlib import Path
from typing import Any

import pytest

from vinecast.cli import main
from vinecast.core.errors import InputError
from vinecast.lab.claims.claim import Figure, Measured, Panel, Series
from vinecast.lab.claims.grid import claims as grid
from vinecast.lab.claims.registry import CLAIMS, Claim, Setup, check_claim, select_claims
from vinecast.sim.measure.figures import merged

seen: list[Setup] = []


SIZE_MATTERS = {
    *("PC-3", "PC-7", "PC-8", "PC-9", "PC-10S", "VI-2", "VI-3", "VI-5", "VI-6", "VI-7", "VI-9"),
    *("VF-2", "VF-3", "VF-4", "VF-6"),
}
"""Claims about large networks that a small one cannot be held to; here they are only measured."""

ON_SPARK = {claim.id for claim in grid.CLAIMS}
"""Claims with a JVM of their own: see test_claims_grid.py."""


@pytest.mark.parametrize("name", [name for name in CLAIMS if name not in ON_SPARK])
def test_the_claim_holds(name: str) -> None:
    verdict = check_claim(CLAIMS[name], Setup("small", threads=2))
    assert verdict.holds or name in SIZE_MATTERS, verdict.measured
    assert verdict.measured
    assert json.loads(json.dumps(verdict.as_dict(), allow_nan=False))["claim"] == name


def test_real_latencies(data_folder: Path) -> None:
    verdict = check_claim(CLAIMS["CY-3"], Setup("small", data=data_folder))
    assert "PlanetLab" in verdict.measured
    assert verdict.holds, verdict.measured


def test_threads_do_not_change_what_is_measured() -> None:
    one, three = (check_claim(CLAIMS["CY-2"], Setup("small", threads=n)) for n in (1, 3))
    assert one == three


def test_every_claim_says_what_and_where() -> None:
    for name, claim in CLAIMS.items():
        assert name == claim.id == claim.id.upper()
        assert claim.title
        assert claim.paper
        assert claim.source


def test_selecting_claims() -> None:
    first, second, *_ = CLAIMS.values()
    assert select_claims(["all"]) == list(CLAIMS.values())
    assert select_claims([second.id, first.id.lower(), second.id]) == [second, first]
    with pytest.raises(InputError, match=r"^unknown claim XX-1 \(known: CY-1, "):
        select_claims([first.id, "XX-1"])


def test_selecting_all_in_capitals() -> None:
    assert select_claims(["ALL"]) == list(CLAIMS.values())


def made_up(name: str, holds: bool) -> Claim:
    def measure(setup: Setup) -> Measured:
        seen.append(setup)
        panel = Panel("p", "x", "y", (Series(name, [1, 2], [3, 4]),))
        return Measured(f"{name} measured", holds, {"number": 7}, (Figure("xx", "XX", (panel,)),))

    return Claim(name, f"{name} title", f"{name} paper", f"{name} source", measure)


@pytest.fixture
def _made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    seen.clear()
    monkeypatch.delenv("VINECAST_DATA", raising=False)
    monkeypatch.setitem(CLAIMS, "XX-1", made_up("XX-1", True))
    monkeypatch.setitem(CLAIMS, "XX-2", made_up("XX-2", False))


def test_without_arguments_claims_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for claim in CLAIMS.values():
        assert claim.id in out
        assert claim.title in out
    assert main(["reproduce", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [entry["claim"] for entry in listed] == list(CLAIMS)
    assert set(listed[0]) == {"claim", "title", "paper", "source"}


@pytest.mark.usefixtures("_made_up")
def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "xx-1", "--scale", "small", "--seed", "5", "--threads", "3"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = [
        [cell.strip() for cell in line.strip("┃│").replace("┃", "│").split("│")] for line in out.splitlines()
    ]
    assert ["claim", "paper", "measured", "holds"] in lines
    assert ["XX-1 XX-1 title", "XX-1 paper", "XX-1 measured", "yes"] in lines
    assert "--scale small" in out
    assert seen == [Setup("small", 5, 3, None)]
    assert seen[0].live is not None
    assert main(["reproduce", "xx-1", "--scale", "small", "--no-live"]) == 0
    assert seen[1].live is None
    assert "--no-live" in capsys.readouterr().out


FIGURES = {5: "PC-3", 6: "PC-4", 7: "PC-5", 8: "PC-7", 9: "PC-1", 10: "PC-9", 11: "PC-10"}


@pytest.mark.parametrize(("number", "name"), FIGURES.items())
def test_every_figure_of_the_paper_has_a_claim_that_draws_it(number: int, name: str) -> None:
    figures = check_claim(CLAIMS[name], Setup("small", threads=2)).figures
    found = [figure for figure in figures if figure.name == f"poldercast-fig{number}-synthetic"]
    assert found
    assert f"S0 Fig. {number}" in found[0].title
    assert "synthetic" in found[0].title
    for panel in found[0].panels:
        assert panel.series
        assert all(len(series.x) == len(series.y) > 0 for series in panel.series)


def test_both_exchanges_are_in_one_figure() -> None:
    setup = Setup("small", threads=2)
    found = [check_claim(CLAIMS[name], setup).figures for name in ("PC-1", "PC-1+", "PC-3")]
    both = merged(figure for figures in found for figure in figures)
    names = [series.name for series in both[0].panels[0].series]
    assert names == ["paper's exchange", "informed exchange (ours)", "paper's exchange, without Vicinity"]


def test_a_table_of_its_own_stands_below(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"table": {"headings": ["system", "mean"], "rows": [["direct", "58"], ["flooding", "1,177"]]}}
    claim = Claim("XX-3", "costs", "a table", "S3", lambda setup: Measured("short", True, values))
    monkeypatch.setitem(CLAIMS, "XX-3", claim)
    assert main(["reproduce", "XX-3", "--markdown", "--workload", "zipf"]) == 0
    lines = capsys.readouterr().out.splitlines()
    below = ["", "`XX-3: costs`", "", "| system | mean |", "| --- | --- |", "| direct | 58 |"]
    assert lines[-7:] == [*below, "| flooding | 1,177 |"]
    assert main(["reproduce", "XX-3"]) == 0
    out = capsys.readouterr().out
    assert out.index("short") < out.index("XX-3: costs") < out.index("flooding")
    assert main(["reproduce", "XX-3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["values"] == values


@pytest.mark.usefixtures("_made_up")
def test_figures_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "XX-1", "--json", "--figures", str(tmp_path / "f")]) == 0
    assert sorted(path.name for path in (tmp_path / "f").iterdir()) == ["xx.png", "xx.svg"]
    assert "figures" not in json.loads(capsys.readouterr().out)[0]


@pytest.mark.usefixtures("_made_up")
@pytest.mark.parametrize(
    ("ids", "code"), [(["XX-1"], 0), (["XX-2"], 1), (["XX-1", "XX-2"], 1), (["XX-2", "XX-1"], 1)]
)
def test_the_exit_code_says_whether_all_hold(
    capsys: pytest.CaptureFixture[str], ids: list[str], code: int
) -> None:
    assert main(["reproduce", *ids]) == code
    out, err = capsys.readouterr()
    assert err == ""
    assert out.count("no ") >= code
    assert main(["reproduce", *ids, "--json"]) == code
    verdicts: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    assert [verdict["claim"] for verdict in verdicts] == ids
    assert [verdict["holds"] for verdict in verdicts] == [name == "XX-1" for name in ids]
    assert verdicts[0] == {
        "claim": ids[0],
        "title": f"{ids[0]} title",
        "paper": f"{ids[0]} paper",
        "source": f"{ids[0]} source",
        "measured": f"{ids[0]} measured",
        "values": {"number": 7},
        "holds": ids[0] == "XX-1",
    }


@pytest.mark.usefixtures("_made_up")
def test_the_paper_scale_is_the_default() -> None:
    assert main(["reproduce", "XX-1"]) == 0
    assert seen[0].scale == "paper"


@pytest.mark.usefixtures("_made_up")
@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        (["CY-99"], "unknown claim CY-99 (known: CY-1, "),
        (["XX-1", "nonsense"], "unknown claim nonsense (known: CY-1, "),
        (["XX-1", "--data", "/nowhere"], "/nowhere: no such data folder"),
        (["CY-1", "--scale", "small", "--seed", "-1"], "argument --seed: '-1' is not a whole number"),
    ],
)
def test_bad_input(capsys: pytest.CaptureFixture[str], arguments: list[str], start: str) -> None:
    assert main(["reproduce", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith(f"vinecast: {start}")
    assert seen == []
