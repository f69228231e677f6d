"""The trace analysis of S4: on the real trace with the reference values, on a synthetic one without data."""

import gzip
import json
from pathlib import Path

import pytest

from support.spark_tests import SPARK
from vinecast.cli import main
from vinecast.core.errors import InputError
from vinecast.lab.claims.grid.scenes import synthetic_trace
from vinecast.lab.claims.registry import CLAIMS, Setup, check_claim
from vinecast.sim.measure.figures import draw

pytestmark = SPARK

NAMES = ["RE-1", "RE-2", "RE-4", "RE-5"]
"""Of the trace analysis; tests/lab/claims/test_claims_grid_rings.py has the others."""


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", NAMES)
def test_the_claim_holds_on_a_synthetic_trace(name: str) -> None:
    verdict = check_claim(CLAIMS[name], Setup("small"))
    assert verdict.holds, verdict.measured
    assert "a synthetic trace" in verdict.measured
    assert json.loads(json.dumps(verdict.as_dict(), allow_nan=False))["claim"] == name


@pytest.mark.usefixtures("spark")
def test_the_claims_hold_on_the_skype_trace(data_folder: Path, tmp_path: Path) -> None:
    verdicts = {name: check_claim(CLAIMS[name], Setup("paper", data=data_folder)) for name in NAMES}
    assert all(verdict.holds for verdict in verdicts.values())
    assert "2,081 nodes ever on line, 690.5 on average" in verdicts["RE-1"].measured
    assert (
        "day 554 498 448 397 342 295 228 160; week 555 541 528 347 323 314 299 286"
        in verdicts["RE-2"].measured
    )
    drawn = draw([figure for verdict in verdicts.values() for figure in verdict.figures], tmp_path)
    assert {path.stem for path in drawn} == {
        "grid-fig4.1", "grid-table4.2", "grid-fig4.6", "grid-fig4.7", "grid-fig4.3", "grid-retention",
    }  # fmt: skip


def test_the_synthetic_trace_is_always_the_same() -> None:
    assert synthetic_trace(1, 3, 2) == synthetic_trace(1, 3, 2) != synthetic_trace(2, 3, 2)


def test_the_real_size_needs_the_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VINECAST_DATA", raising=False)
    with pytest.raises(
        InputError, match=r"needs skype.avt.gz: give the folder that holds it with --data DIR"
    ):
        check_claim(CLAIMS["RE-1"], Setup("paper"))
    assert main(["reproduce", "RE-5", "--data", str(tmp_path)]) == 2
    assert f"needs skype.avt.gz, which is not in {tmp_path} (--data DIR)" in capsys.readouterr().err


def test_one_claim_of_many_that_cannot_be_measured_says_so() -> None:
    verdict = check_claim(CLAIMS["RE-1"], Setup("paper"), alone=False)
    assert verdict.measured.startswith("not measured: ")
    assert "skype.avt.gz" in verdict.measured
    assert not verdict.holds


@pytest.mark.usefixtures("spark")
def test_the_kad_trace_is_measured_where_it_is(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the KAD trace could not be had; a data folder that has it as"):
        check_claim(CLAIMS["RE-3"], Setup("paper", data=tmp_path))
    with gzip.open(tmp_path / "kad.avt.gz", "wt") as file:
        file.write(synthetic_trace(1, 30, 14))
    verdict = check_claim(CLAIMS["RE-3"], Setup("paper", data=tmp_path))
    assert "(KAD)" in verdict.measured
    assert verdict.values["falls"]
    assert not verdict.holds, "thirty nodes are not KAD"
