"""The campaign: ranges of seeds, kept, gone on with, on Spark, and the same everywhere."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from support.command_line import child
from support.spark_tests import SPARK
from vinecast.core.errors import InputError
from vinecast.lab.campaign import campaign, known
from vinecast.lab.campaign.campaign import BATCH, SeedResult, batches, result_of, run_campaign
from vinecast.lab.campaign.draw import draw_plan
from vinecast.lab.campaign.plan import BeginStep, Plan
from vinecast.lab.campaign.run import run_plan
from vinecast.lab.campaign.shrink import shrink
from vinecast.lab.campaign.story import tell_story
from vinecast.lab.runs import run_cache

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL = (3003, 3005)
"""Two small runs; both have nodes without a disk, which receipts count."""
NO_DISK = "D1: counts holders without a disk"


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_cache, "_done", {})


def test_ranges_are_cut_at_the_same_places() -> None:
    cut = [(one.first, one.first + one.count - 1) for one in batches(5, 2 * BATCH, None, None)]
    assert cut == [(5, BATCH - 1), (BATCH, 2 * BATCH - 1), (2 * BATCH, 2 * BATCH)]
    assert batches(BATCH, 2 * BATCH - 1, None, None) == batches(5, 2 * BATCH, None, None)[1:2]


def test_a_seed_gives_the_same_in_another_process_with_other_hashes() -> None:
    first = json.loads(json.dumps(asdict(result_of(SMALL[0]))))
    given = ("campaign", "--seeds", f"{SMALL[0]}-{SMALL[0]}", "--json")
    told = [json.loads(child(*given, environment={"PYTHONHASHSEED": one}).stdout) for one in ("1", "2")]
    assert told[0]["figures"] == told[1]["figures"] == first["figures"]
    assert told[0]["faults"] == told[1]["faults"] == {name: [SMALL[0]] for name in first["counts"]}


def test_what_was_stopped_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run_campaign(*SMALL, keep=tmp_path).results
    monkeypatch.setattr(run_cache, "_done", {})
    done: list[int] = []

    def counted(seed: int, system: str | None = None) -> SeedResult:
        done.append(seed)
        if seed == BATCH:
            raise KeyboardInterrupt
        return replace(whole[0], seed=seed)

    monkeypatch.setattr(campaign, "result_of", counted)
    assert run_campaign(*SMALL, keep=tmp_path).results == whole
    assert not done
    with pytest.raises(KeyboardInterrupt):
        run_campaign(BATCH - 2, BATCH, keep=tmp_path)
    monkeypatch.setattr(run_cache, "_done", {})
    with pytest.raises(KeyboardInterrupt):
        run_campaign(BATCH - 2, BATCH, keep=tmp_path)
    assert done == [BATCH - 2, BATCH - 1, BATCH, BATCH]
    monkeypatch.setattr(run_cache, "_done", {})
    monkeypatch.setattr(campaign, "code_digest", lambda: "other code")
    run_campaign(*SMALL, keep=tmp_path)
    assert done[4:] == list(range(SMALL[0], SMALL[1] + 1))


def test_what_is_kept_is_judged_by_what_is_known_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = (SMALL[0], SMALL[0])
    assert not run_campaign(*one, keep=tmp_path).unexpected
    monkeypatch.setattr(known, "KNOWN", ())
    monkeypatch.setattr(campaign, "result_of", None)  # nothing is done again
    assert NO_DISK in run_campaign(*one, keep=tmp_path).unexpected_by_fault()


def test_what_cannot_be_done_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="runs cannot be kept there"):
        run_campaign(1, 2, keep=tmp_path / "file")
    with pytest.raises(InputError, match="1,000,000 seeds at the most"):
        run_campaign(1, 2**53)
    job = batches(3, 3, None, tmp_path / "kept")[0]
    (tmp_path / "kept").mkdir()
    place = run_cache.place_of(job)
    assert place is not None
    with place.open("wb") as file:
        np.savez(file, results=np.array(["{}"]))
    with pytest.raises(InputError, match=r"npz is no result of a campaign: delete it"):
        run_campaign(3, 3, keep=tmp_path / "kept")
    with pytest.raises(InputError, match="not lower"):
        run_campaign(2, 1)


def test_a_plan_is_made_smaller_and_told() -> None:
    plan = draw_plan(SMALL[0])
    steps: list[int] = []
    smaller = shrink(plan, NO_DISK, 40, lambda left, tries: steps.append(left))
    assert NO_DISK in run_plan(smaller).judgement.counts
    assert len(smaller.steps) < len(plan.steps) / 2
    assert steps[-1] == len(smaller.steps)
    story = tell_story(smaller)
    assert story.startswith(f"Seed {SMALL[0]}, pulsarcast, ")
    assert "has no disk" in story
    assert f"BROKEN  {NO_DISK}: " in story
    assert tell_story(smaller) == story
    calm = replace(smaller, steps=tuple(step for step in smaller.steps if isinstance(step, BeginStep)))
    assert tell_story(calm).endswith("Nothing was broken.")


def test_plans_have_all_that_can_happen() -> None:
    plans = [draw_plan(seed) for seed in range(400)]
    kinds = {type(step).__name__ for plan in plans for step in plan.steps}
    assert kinds == {
        *("BeginStep", "ReadStep", "PublishStep", "CrashStep", "GoodbyeStep", "PauseStep", "CutOffStep"),
        *("BreakLinkStep", "HalfOpenStep", "RefuseStep", "DiskFullStep", "FlipStep", "SetClockStep"),
        "ReadsFailStep",
    }
    assert {len(plan.nodes) for plan in plans} == set(range(3, 13))
    assert all(3 * _liars(plan) <= len(plan.nodes) for plan in plans)
    assert any(_liars(plan) for plan in plans)
    assert any(not _liars(plan) for plan in plans)
    assert all(list(plan.steps) == sorted(plan.steps, key=lambda step: step.at_s) for plan in plans)


def _liars(plan: Plan) -> int:
    return len(plan.nodes) - len(plan.honest)


class TestSpark:
    pytestmark = SPARK

    def test_a_sweep_finds_the_same(self, spark: "SparkSession", tmp_path: Path) -> None:
        with pytest.raises(InputError, match="--keep"):
            run_campaign(*SMALL, spark="local")
        swept = run_campaign(*SMALL, keep=tmp_path, spark="local")
        run_cache._done.clear()
        assert swept.results == run_campaign(*SMALL).results
        assert len(list(tmp_path.glob("*.npz"))) == len(batches(*SMALL, None, None))
