"""Regular rings under churn (S4 ch. 6): measures against plain Python, runs against scenarios, and the claims
on a synthetic trace."""

import dataclasses
import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.paths import PIPELINES
from vinecast.cli import main
from vinecast.core.arrays.regularity import CYCLES_S
from vinecast.core.errors import InputError
from vinecast.core.machine import NOBODY
from vinecast.lab.bench.regular import trace_patterns
from vinecast.lab.claims.grid import further, notes, runs, scenes
from vinecast.lab.claims.grid import rings as grid_rings
from vinecast.lab.claims.grid.notes import Run
from vinecast.lab.claims.grid.runs import RingsRun, alone, doubled, resolved_scene
from vinecast.lab.claims.grid.scenes import Scene, Second, scenes_of
from vinecast.lab.claims.registry import CLAIMS, Setup, check_claim
from vinecast.lab.runs import run_cache
from vinecast.protocols.regularity import RegularityConfig
from vinecast.sim.measure.figures import draw
from vinecast.sim.scenario.run import simulate
from vinecast.sim.scenario.scenario import read_scenario, resolve
from vinecast.sim.workload.churn import read_avt

SMALL = Setup("small")


@pytest.fixture(scope="module")
def scene() -> Scene:
    """A day and a half of the small scale, at its highest speed."""
    return dataclasses.replace(scenes_of(SMALL)[-1], cycles=45)


# Measures.


def test_in_degrees_count_whoever_has_a_node_in_any_view() -> None:
    everyone = np.arange(4)
    first = np.array([[1, 2], [0, 0], [1, NOBODY], [0, 2]], dtype=np.int32)
    second = np.array([[1], [3], [3]], dtype=np.int32)
    online = np.array([True, True, True, False])
    layers = [(everyone, first), (np.array([0, 0, 2]), second)]
    assert notes._in_degrees(layers, online).tolist() == [1, 2, 1, 2]


def test_patterns_of_the_whole_trace_are_those_of_the_analysis(data_folder: Path) -> None:
    trace = read_avt(data_folder / "skype.avt.gz")
    found = [
        trace_patterns(trace, RegularityConfig(cycle_s=CYCLES_S[cycle], threshold=70)).sum(axis=0).mean()
        for cycle in ("day", "week")
    ]
    assert [round(mean) for mean in found] == [448, 528], "as in ../shared/data/README.md"


# Runs.


def _rows(scene: Scene, second: Second | None, fanout: int) -> list[dict[str, Any]]:
    resolved = resolved_scene(scene, 1, second, "paper")
    config = dataclasses.replace(resolved.config, fanout=fanout)
    return simulate(dataclasses.replace(resolved, config=config)).rows[runs.WARM_UP :]


@pytest.mark.parametrize(
    ("second", "fanout"), [(None, 2), (None, 4), (Second("day", 70), 2), (Second("week", 75, "slot"), 2)]
)
def test_a_run_is_its_scenarios(scene: Scene, second: Second | None, fanout: int) -> None:
    run = alone(scene, 1, fanout) if second is None else doubled(scene, 1, second)
    rows = _rows(scene, second, fanout)
    assert run.hit.tolist() == [row["hit_ratio"] for row in rows]
    assert run.hit_by_topic.tolist() == [row["hit_by_topic"] for row in rows]
    assert run.duplication.tolist() == [row["duplication"] for row in rows]
    assert run.hops.tolist() == [row["hops_mean"] for row in rows]
    assert run.online.tolist() == [row["online"] for row in rows]


def test_processes_folders_and_company_change_nothing(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = (None, Second("day", 70, patterns="others"), Second("week", 60), Second("day", 70, "slot"))
    plays = [RingsRun(scene, 2, second) for second in seconds]
    plays += [RingsRun(scene, 2, Second("day", 70), "informed"), RingsRun(scene, 3, Second("day", 70))]
    one_by_one = [play.run_with(())[0] for play in plays]
    monkeypatch.setattr(run_cache, "_done", {})
    there = [dataclasses.replace(play, scene=dataclasses.replace(scene, keep=tmp_path)) for play in plays]
    run_cache.do(there, 2)
    assert len(list(tmp_path.iterdir())) == len(plays)
    monkeypatch.setattr(run_cache, "_done", {})
    for one, play in zip(one_by_one, there, strict=True):
        other = run_cache.fetch(play)
        assert one.keys() == other.keys()
        for name, array in one.items():
            assert np.array_equal(array, other[name], equal_nan=True), name


def test_a_kept_run_is_named_by_what_decides_it(scene: Scene, tmp_path: Path) -> None:
    here = dataclasses.replace(scene, keep=tmp_path)
    moved = dataclasses.replace(here, trace=tmp_path / "moved.avt")
    moved.trace.write_bytes(scene.trace.read_bytes())
    other = dataclasses.replace(here, trace=tmp_path / "other.avt")
    other.trace.write_bytes(scene.trace.read_bytes().replace(b"n0 ", b"m0 "))
    second = Second("day", 70)
    same = RingsRun(here, 1, second)
    assert run_cache.place_of(same) == run_cache.place_of(RingsRun(moved, 1, second))
    others = [
        RingsRun(other, 1, second),
        RingsRun(here, 2, second),
        RingsRun(here, 1),
        RingsRun(here, 1, Second("day", 71)),
        RingsRun(here, 1, Second("day", 70, patterns="trace")),
        RingsRun(here, 1, Second("day", 70, "slot")),
        RingsRun(here, 1, second, "informed"),
        RingsRun(dataclasses.replace(here, cycles=44), 1, second),
    ]
    assert len({run_cache.place_of(play) for play in (same, *others)}) == 9


def test_results_are_what_kept_runs_say(scene: Scene) -> None:
    """If this fails, what a run gives has changed: raise ``kept.RESULTS``, and put the new sums here."""
    run = doubled(scene, 1, Second("day", 70))
    total = run.tally[0].sum(axis=0).tolist()
    assert (run_cache.RESULTS, total) == (1, [6337, 6287, 12866, 32312, 10108, 15117])


def test_the_running_window_makes_regular_nodes_in_the_first_week(scene: Scene) -> None:
    assert doubled(scene, 1, Second("week", 70)).regular.max() > 0
    assert doubled(scene, 1, Second("week", 70, "slot")).regular.max() == 0


def test_somebody_elses_patterns_are_as_many(scene: Scene) -> None:
    true = doubled(scene, 1, Second("day", 70, patterns="trace"))
    false = doubled(scene, 1, Second("day", 70, patterns="others"))
    assert not np.array_equal(true.regular, false.regular)
    assert true.regular.mean() > false.regular.mean(), "who is said to be regular is there less often"


# The Spark sweep of the same.


def _sweep() -> dict[str, Any]:
    stages = tomllib.loads((PIPELINES / "regularity.toml").read_text())["stage"]
    found: dict[str, Any] = stages[0]
    return found


def _settled(sweep: dict[str, Any], speed: str, rings: str) -> dict[str, Any]:
    chosen: dict[str, Any] = sweep["variants"]["speed"][speed] | sweep["variants"]["rings"][rings]
    return chosen


def test_the_sweep_is_all_of_table_6_2() -> None:
    sweep = _sweep()
    scenario = PIPELINES / sweep["scenario"]
    periods = set()
    for speed in sweep["variants"]["speed"]:
        for rings in sweep["variants"]["rings"]:
            found = read_scenario(scenario, _settled(sweep, speed, rings))
            config = found.config
            layers = (config.cyclon, config.vicinity, config.rings, config.regular, config.grid.victor)
            (period,) = {layer.period_us for layer in layers}
            assert period * found.scenario.cycles == 2_478_000 * 10**6
            assert speed == f"{period // 10**6} s"
            periods.add(period / 1e6)
    assert periods == set(scenes.PERIODS_S["paper"])
    named = {Second(*key).name for key in grid_rings.GAINS}
    assert set(sweep["variants"]["rings"]) == {"F = 2", "F = 4"} | named
    assert sweep["seeds"] == scenes.SEEDS["paper"]


@pytest.mark.parametrize("fanout", [2, 4])
def test_nobody_is_regular_in_a_cycle_that_does_not_come_round(fanout: int) -> None:
    sweep, period = _sweep(), 20_000.0
    chosen = _settled(sweep, "1000 s", f"F = {fanout}")
    few = {
        "nodes": 60, "cycles": 100, "workload.kind": "synthetic",
        "churn": {"kind": "onoff", "mean_on_s": 400_000.0, "mean_off_s": 100_000.0},
    }  # fmt: skip
    slow = {key: period for key in chosen if key.endswith("period_s")}
    scenario = PIPELINES / sweep["scenario"]
    regular = simulate(read_scenario(scenario, chosen | few | slow)).rows
    layer = {"period_s": period}
    config = {
        "fanout": fanout, "stand_by": False, "cyclon": layer, "vicinity": layer,
        "rings": {**layer, "exchange": "paper"},
    }  # fmt: skip
    tables = tomllib.loads(scenario.read_text())
    del tables["poldercast_regular"]
    tables |= {"system": "poldercast", "poldercast": config, "nodes": 60, "cycles": 100}
    tables |= {"workload": {"kind": "synthetic"}, "churn": few["churn"]}
    plain = simulate(resolve(tables, Path())).rows
    for name in ("hit_ratio", "hops_mean", "duplication", "missing_links"):
        assert [row[name] for row in regular] == [row[name] for row in plain]


# The claims.


@pytest.mark.parametrize("name", ["RE-6", "RE-7"])
def test_the_claim_holds_on_a_synthetic_trace(name: str) -> None:
    verdict = check_claim(CLAIMS[name], SMALL)
    assert verdict.holds, verdict.measured
    assert "a synthetic trace" in verdict.measured
    assert json.loads(json.dumps(verdict.as_dict()))["claim"] == name
    assert verdict.figures


def test_what_events_cost() -> None:
    """RE-8 as a whole needs S4's size: in a few days nearly all of few nodes are regular, and know each
    other."""
    values = check_claim(CLAIMS["RE-8"], SMALL).values
    assert values["met"]["hops"]
    for period in ("600", "3000"):
        copies, degrees = values[period]["duplication"], values[period]["in_degree"]
        assert copies["F = 2"] < min(copies["F = 4"], copies["day 70 %"])
        assert degrees["others"] < degrees["poldercast"] < degrees["regular"]


def test_gains_are_told_both_ways() -> None:
    verdict = check_claim(CLAIMS["RE-7"], SMALL)
    assert "points by topic" in verdict.measured
    assert "over subscriptions" in verdict.measured
    cells = verdict.values["day 70 % over F = 2"]["3000"]
    assert cells["min"] <= cells["avg"] <= cells["max"]


@pytest.mark.parametrize("name", ["RE-10", "RE-11", "RE-12", "RE-13"])
def test_looking_further(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(further.GAMMAS, "small", (50, 70, 90))
    verdict = check_claim(CLAIMS[name], SMALL)
    assert json.loads(json.dumps(verdict.as_dict(), allow_nan=False))["holds"] in (True, False)
    assert len(draw(verdict.figures, tmp_path)) == 2 * len(verdict.figures)


def test_a_higher_threshold_has_fewer_regular_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(further.GAMMAS, "small", (50, 70, 90))
    values = check_claim(CLAIMS["RE-10"], SMALL).values
    regular = [values["day"][gamma]["regular"] for gamma in ("50", "70", "90")]
    assert regular[0] > regular[1] > regular[2] > 0
    by_week = {values["week"][gamma]["regular"] for gamma in ("50", "70", "90")}
    assert len(by_week) == 1, "in its first week a slot has one window, and whoever is there was always there"


@pytest.mark.parametrize("name", ["RE-6", "RE-7", "RE-8", "RE-10", "RE-11", "RE-12", "RE-13"])
def test_claims_know_the_runs_that_they_need(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(further.GAMMAS, "small", (50, 70, 90))
    claim = CLAIMS[name]
    asked: set[RingsRun] = set()

    def fetch(play: RingsRun) -> run_cache.Arrays:
        asked.add(play)
        return run_cache.fetch(play)

    monkeypatch.setattr(runs, "fetch", fetch)
    check_claim(claim, SMALL)
    assert asked == set(claim.needs(SMALL))


def test_a_part_says_that_it_is_one() -> None:
    setup = Setup("small", periods_s=(3000,))
    verdict = check_claim(CLAIMS["RE-6"], setup)
    assert "(cycles of 3000 s (600 s left out), synthetic, 120 nodes" in verdict.measured
    assert verdict.values["hit_by_topic"].keys() == {"3000"}
    with pytest.raises(InputError, match="last 600, 3000 s, not 100"):
        check_claim(CLAIMS["RE-6"], Setup("small", periods_s=(100,)))
    assert scenes.told_seeds(Setup("paper", seeds=1)) == "1 of 4 seeds"
    assert scenes.told_seeds(Setup("paper")) == "4 seeds"
    assert list(scenes.seeds_of(Setup("paper", seed=2, seeds=2))) == [2, 3]


def test_the_command_does_a_part_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--scale", "small", "--threads", "1", "--markdown", "--keep", str(tmp_path / "runs")]
    part = ["--seeds", "1", "--periods", "3000"]
    monkeypatch.setattr(run_cache, "_done", {})
    assert main(["reproduce", "RE-6", *options, *part]) == 0
    first, told = capsys.readouterr()
    assert told == "vinecast: 1 of 1 runs to do\n"
    assert first.startswith("`vinecast reproduce RE-6 --scale small --seed 1 --seeds 1 --periods 3000`")
    assert len(list((tmp_path / "runs").iterdir())) == 1
    monkeypatch.setattr(run_cache, "_done", {})
    done: list[str] = []
    play_together = runs.play_together

    def noted(plays: list[RingsRun]) -> list[dict[int, Run]]:
        done.extend(play.name for play in plays)
        return play_together(plays)

    monkeypatch.setattr(runs, "play_together", noted)
    assert main(["reproduce", "RE-6", *options, *part]) == 0
    assert (capsys.readouterr(), done) == ((first, ""), [])
    assert main(["reproduce", "RE-6", *options]) == 0
    assert capsys.readouterr().err == "vinecast: 1 of 2 runs to do\n"
    assert [name.split(", ")[1] for name in done] == ["600 s"]


def test_a_folder_that_cannot_be_is_found_out_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("precious")
    monkeypatch.setattr(run_cache, "_done", {})
    monkeypatch.setattr(runs, "play_together", lambda plays: pytest.fail("done for nothing"))
    for folder, why in (("file", "File exists"), ("file/runs", "Not a directory")):
        assert main(["reproduce", "RE-6", "--scale", "small", "--keep", str(tmp_path / folder)]) == 2
        told = f"vinecast: {tmp_path / folder}: runs cannot be kept there ({why})\n"
        assert capsys.readouterr() == ("", told)
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.parametrize("wrong", [["--periods", "5"], ["--periods", "x"], ["--seeds", "0"]])
def test_a_part_that_there_is_not(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "RE-6", "--scale", "small", *wrong]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("vinecast: ")
    assert err.count("\n") == 1


def test_the_claims_need_the_trace(tmp_path: Path) -> None:
    for name in ("RE-6", "RE-7", "RE-8", "RE-10", "RE-13"):
        with pytest.raises(InputError, match=r"need skype.avt.gz: give the folder"):
            check_claim(CLAIMS[name], Setup("paper"))
        with pytest.raises(InputError, match=r"need skype.avt.gz, which is not in"):
            check_claim(CLAIMS[name], Setup("paper", data=tmp_path))


def test_four_seeds_at_the_papers_scale() -> None:
    assert list(scenes.seeds_of(Setup("paper", seed=3))) == [3, 4, 5, 6]
    assert list(scenes.seeds_of(Setup("small", seed=3))) == [3]
