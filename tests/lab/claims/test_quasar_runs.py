"""MySpace-like groups, the runs behind Quasar's claims, and its benchmark."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.paths import SCENARIOS
from vinecast.cli import main
from vinecast.core.errors import InputError
from vinecast.lab.bench.quasar import bench_quasar
from vinecast.lab.claims.quasar.runs import QuasarPopulation, QuasarRun, degree_for, farthest
from vinecast.protocols.directed_walk.sweep import DRAWN, EXPIRED, RANDOM, SENT
from vinecast.sim.workload.myspace import KNEE, LEAST, MEAN, MOST, group_sizes, groups_of
from vinecast.sim.workload.sample import load_workload
from vinecast.systems.quasar.sweep import links_of, random_contacts


def test_sizes_are_of_two_regimes() -> None:
    sizes = group_sizes(1, 200_000)
    assert (sizes.min(), sizes.max()) == (LEAST, MOST)
    assert abs(sizes.mean() - MEAN) < 0.5
    slopes = []
    for low, high in ((LEAST, KNEE), (KNEE, 500)):
        edges = np.unique(np.geomspace(low, high, 9).astype(int))
        counts = np.histogram(sizes, edges)[0] / np.diff(edges)
        slopes.append(np.polyfit(np.log((edges[1:] + edges[:-1]) / 2), np.log(counts), 1)[0])
    assert abs(slopes[0] + 1) < 0.1
    assert slopes[1] < -2.5


def test_groups_have_as_many_members_as_they_should() -> None:
    sizes = np.array([2, 30, 90, 100, 500])
    found = groups_of(7, 100, sizes)
    assert np.bincount(found.topics).tolist() == [2, 30, 90, 100, 100]
    again = groups_of(7, 100, sizes)
    assert np.array_equal(found.topics, again.topics)
    assert np.array_equal(found.start, again.start)
    with pytest.raises(InputError):
        groups_of(7, 100, np.array([0]))


def test_groups_are_a_workload_of_scenarios() -> None:
    found = load_workload("myspace", 20_000, 1, None)
    assert found.count / found.nodes == pytest.approx(1, rel=0.15)
    assert load_workload("myspace", 500, 1, None, topics=7).topic_count == 7
    more = load_workload("myspace", 20_000, 1, None, subscriptions=3)
    assert more.count / more.nodes == pytest.approx(3, rel=0.15)
    with pytest.raises(InputError, match="not both"):
        load_workload("myspace", 500, 1, None, topics=7, subscriptions=2)


def test_a_scenario_with_such_groups_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario = SCENARIOS / "quasar-myspace.toml"
    small = ["--set", "nodes=60", "--set", "cycles=3", "--set", "workload.topics=4"]
    assert main(["sim", "run", str(scenario), *small, "--out", str(tmp_path / "run"), "--json"]) == 0
    assert 0.5 < _find(json.loads(capsys.readouterr().out), "hit_ratio") <= 1


def _find(found: Any, name: str) -> float:
    """A figure, wherever it stands."""
    if isinstance(found, dict):
        if name in found:
            return float(found[name])
        found = list(found.values())
    inner = [_find(one, name) for one in found] if isinstance(found, list) else []
    return max((one for one in inner if not np.isnan(one)), default=float("nan"))


def test_the_diameter_stays_the_same() -> None:
    assert [degree_for(n) for n in (1024, 4096, 32_768, 1_000_000)] == [6, 8, 14, 32]
    far = {farthest(links_of(random_contacts(1, n, degree_for(n))), 4) for n in (1024, 4096, 8192)}
    assert far <= {5, 6}
    assert farthest(np.array([[1, -1], [0, 2], [1, -1]], dtype=np.int32), 1) == 2


def test_plays_of_one_population_are_the_same_together_and_alone() -> None:
    at = QuasarPopulation(256, "MySpace", 6, 3, 4)
    plays = [QuasarRun(at), QuasarRun(at, 2, True)]
    together = plays[0].run_with(plays[1:])
    alone = [play.run_with([])[0] for play in plays]
    for one, other in zip(together, alone, strict=True):
        assert one.keys() == other.keys()
        assert all(np.array_equal(one[name], other[name]) for name in one)
    tally = together[1]["tally"].sum(axis=0)
    assert tally[SENT] > tally[DRAWN] + tally[RANDOM] >= tally[EXPIRED]
    without = together[1]["polled"][:, 0].sum(axis=0)
    assert (np.diff(without) <= 0).all()


def test_the_benchmark_tells_all_it_should() -> None:
    results = list(bench_quasar(300, 1, 200))
    assert len(results) >= 12
    assert all(result.measured for result in results)
    with pytest.raises(InputError):
        list(bench_quasar(10, 1))
