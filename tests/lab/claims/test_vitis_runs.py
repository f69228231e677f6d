"""The runs behind Vitis's claims: alone, together and on Spark they find the same; OPT's bound."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from support.spark_tests import SPARK
from vinecast.core.errors import InputError
from vinecast.core.machine import NOBODY
from vinecast.lab.claims.registry import CLAIMS, Setup, check_claim
from vinecast.lab.claims.vitis.runs import (
    EVERY,
    Churned,
    SubscriptionPattern,
    VitisNetwork,
    VitisRestRun,
    config_of,
)
from vinecast.lab.runs import run_cache
from vinecast.lab.runs.run_cache import Arrays, do, fetch, is_kept
from vinecast.systems.tman_sweep.events import TManPublication
from vinecast.systems.tman_sweep.sweep import TManSweep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CROWD = SubscriptionPattern("random", 80, 3, 100, 5)


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_cache, "_done", {})


def same(one: Arrays, other: Arrays) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def test_all_rates_share_a_run_of_rvr_and_none_of_vitis() -> None:
    for system, together in (("rvr", True), ("vitis", False)):
        runs = [VitisRestRun(system, CROWD, 12, 8, alpha=alpha) for alpha in (None, 0.5, 2.0)]
        assert (len({run.alike for run in runs}) == 1) == together
        if together:
            found = runs[0].run_with(runs[1:])
            assert all(same(arrays, run.run_with([])[0]) for arrays, run in zip(found, runs, strict=True))
            assert found[0]["looks"][-1, 3] != found[2]["looks"][-1, 3]  # hops, by how often


@pytest.mark.parametrize("system", ["vitis", "rvr", "opt", "poldercast"])
def test_a_network_is_looked_at_on_its_way_to_rest(system: str) -> None:
    arrays = fetch(VitisRestRun(system, CROWD, EVERY + 3, 8))
    looks = arrays["looks"]
    assert looks[:, 0].tolist() == [EVERY, EVERY + 3]
    assert (looks[:, 1] > 0.5).all()
    assert ((looks[:, 2] > 0) == (system in ("vitis", "rvr"))).all()
    assert arrays["degrees"].shape == arrays["shares"].shape == (80,)
    assert (arrays["shares"].max() > 0) == (system in ("vitis", "rvr"))


def test_lookups_that_nobody_needs_change_nothing() -> None:
    """All of them, by hand, next to a run that leaves most of them out."""
    network = VitisNetwork(config_of("vitis", 8), CROWD)
    network.engine.run(EVERY + 3)
    dissemination, received = network.publish(EVERY + 3)
    looks = fetch(VitisRestRun("vitis", CROWD, EVERY + 3, 8))["looks"]
    assert looks[-1, 2] == received[0].sum() / received.sum()
    assert looks[-1, 3] == dissemination.hops[dissemination.hops > 0].mean()


def test_a_bounded_node_passes_events_on_to_so_many_at_the_most() -> None:
    crowd = SubscriptionPattern("synthetic", 120, 1)
    hits = []
    for table in (4, None):
        network = VitisNetwork(config_of("opt", table), crowd)
        network.engine.run(15)
        assert isinstance(network.sweep, TManSweep)
        publication = TManPublication(network.sweep, 1)
        links = publication._links
        if table is not None:
            told = np.diff(links.fans[1].start)
            assert told.max() == table < network.degrees().max()
            assert links.peers.size == 0
            for node in range(120):  # its own choice first
                own = network.sweep.tables.peers[node]
                begin = links.fans[1].start[node]
                mine = own[own != NOBODY]
                assert links.fans[1].node[begin : begin + mine.size].tolist() == mine.tolist()
        hits.append((publication.run(network.engine.divide).hops >= 0).mean())
    assert hits[0] < hits[1]


def test_the_same_trace_the_same_run(tmp_path: Path) -> None:
    run = Churned("vitis", CROWD, 15, keep=tmp_path)
    found = fetch(run)
    assert is_kept(run)
    assert found["online"].shape == (15,)
    assert len(set(found["online"].tolist())) > 1
    assert same(found, run.run_with([])[0])
    assert not is_kept(dataclasses.replace(run, cycles=16))


def test_claims_share_runs() -> None:
    setup = Setup("paper")
    needs = {name: list(CLAIMS[name].needs(setup)) for name in ("VI-1", "VI-2", "VI-3", "VI-4", "VI-9")}
    assert set(needs["VI-2"]) | set(needs["VI-3"]) | set(needs["VI-4"]) == set(needs["VI-1"])
    assert len(set(needs["VI-9"]) & set(needs["VI-1"])) == 2


class TestSpark:
    pytestmark = SPARK

    def test_as_one_spark_sweep(self, spark: "SparkSession", tmp_path: Path) -> None:
        runs = [VitisRestRun("rvr", CROWD, 8, 8, alpha=alpha, keep=tmp_path) for alpha in (None, 1.0)]
        runs.append(VitisRestRun("vitis", CROWD, 8, 8, alpha=1.0, keep=tmp_path))
        do(runs, 2, spark="local")
        assert all(map(is_kept, runs))
        for run in runs:
            assert same(fetch(run), dataclasses.replace(run, keep=None).run_with([])[0])


def test_without_the_graph_the_claim_says_so(tmp_path: Path) -> None:
    setup = Setup("small", data=tmp_path, workload="slashdot", keep=tmp_path / "kept")
    with pytest.raises(InputError, match="which is not in"):
        check_claim(CLAIMS["VI-6"], setup)
