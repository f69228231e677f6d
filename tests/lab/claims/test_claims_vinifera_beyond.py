"""VF-7 and VF-8: what they run, what they say, and when they do not hold."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vinecast.core.errors import InputError
from vinecast.lab.claims.claim import Measured, Setup
from vinecast.lab.claims.registry import CLAIMS
from vinecast.lab.claims.vinifera import beyond
from vinecast.lab.claims.vinifera.claims import by_attributes as s2_by_attributes
from vinecast.lab.claims.vinifera.runs import WAYS, ContentNetwork, ContentRestRun, stats_of
from vinecast.lab.runs.run_cache import Arrays, fetch
from vinecast.sim.scenario.content_run import ContentRun

SMALL = Setup("small")


def told(monkeypatch: pytest.MonkeyPatch, name: str, changed: dict[str, Any], of: str) -> Measured:
    """The claim, if some runs had found other arrays. of: a part of these runs' names"""

    def other(job: ContentRestRun) -> Arrays:
        return {**fetch(job), **(changed if of in job.name else {})}

    monkeypatch.setattr(beyond, "fetch", other)
    return CLAIMS[name].measure(SMALL)


def test_more_of_everything() -> None:
    found = CLAIMS["VF-7"].measure(SMALL)
    assert found.holds
    (figure,) = found.figures
    assert len(figure.panels) == 6
    assert all(len(panel.series) == 2 for panel in figure.panels)
    assert set(found.values) == {"nodes", "attributes"}


def test_it_does_not_hold_if_something_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.array([30, 100, 99, 300, 0])
    assert not told(monkeypatch, "VF-7", {"configured.counts": counts}, "96 nodes").holds


def test_it_does_not_hold_if_a_node_has_all_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = np.full(48, 30)
    assert not told(monkeypatch, "VF-7", {"configured.passed": passed}, "Vinifera, 8 friends, 48").holds


def test_an_event_is_for_as_many_in_any_network() -> None:
    rests = beyond.by_size(Setup("paper"))
    networks = [rest.network for rest in rests.values()]
    assert {network.nodes / network.one_in for network in networks} == {1000 / 32}
    assert max(network.nodes for network in networks) == 10_000
    counts = {number for _, number in beyond.by_attributes(Setup("paper"))}
    assert max(counts) == 10


def test_runs_of_other_claims_are_shared() -> None:
    setup = Setup("paper")
    needed = {*beyond.by_size(setup).values(), *beyond.by_attributes(setup).values()}
    assert needed == set(CLAIMS["VF-7"].needs(setup))
    shared = needed.intersection(CLAIMS["VF-1"].needs(setup))
    assert {rest.network.attributes for rest in shared} == {1, 3}
    assert {rest.network for rest in shared} <= set(s2_by_attributes(setup))


def test_real_skew_without_the_trace() -> None:
    found = CLAIMS["VF-8"].measure(SMALL)
    assert found.holds
    assert "made-up acts" in found.text
    assert set(found.values) == {*beyond.SPREADS.values(), "moves"}
    (figure,) = found.figures
    assert all(len(panel.series) == 3 for panel in figure.panels)


def test_it_does_not_hold_if_moves_spread_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    alike = {"configured.owned": np.arange(60)}
    assert not told(monkeypatch, "VF-8", alike, "Vinifera").holds


def test_the_trace_decides_the_runs(tmp_path: Path, data_folder: Path) -> None:
    with pytest.raises(InputError, match=r"higgs-activity_time\.txt\.gz: no such file"):
        CLAIMS["VF-8"].needs(Setup("paper", data=tmp_path))
    with_it = CLAIMS["VF-8"].needs(Setup("paper", data=data_folder))
    without = CLAIMS["VF-8"].needs(Setup("paper"))
    assert len(with_it) == len(without) == len(beyond.SPREADS)
    jobs = [*with_it, *without]
    assert len({str(job.decided_by()) for job in jobs}) == len(jobs)
    assert str(data_folder) not in str(with_it[0].decided_by())


NETWORK = ContentNetwork("vinifera", "skewed", 24, 2, 8, 1)


def test_a_run_can_have_fewer_ways_and_more_rounds() -> None:
    rest = ContentRestRun(NETWORK, 10, ways=WAYS[:1], rounds=2)
    (found,) = rest.run_with([])
    assert {name.partition(".")[0] for name in found} == {"moves", WAYS[0]}
    other = dataclasses.replace(rest, rounds=1)
    assert other.decided_by() != rest.decided_by()


def test_whoever_does_not_move_never_does() -> None:
    (found,) = ContentRestRun(dataclasses.replace(NETWORK, balanced=False), 30).run_with([])
    assert int(found["moves"]) == 0
    assert stats_of(found).hit_ratio == 1.0


@pytest.mark.parametrize("system", ["vinifera", "ferry"])
def test_owners_are_where_events_go_up_to(system: str) -> None:
    """Each copy that goes up ends at the owner of its value, unless it began there."""
    run: ContentRun = dataclasses.replace(NETWORK, system=system).make()
    run.start()
    run.advance(10)
    run.publish(20)
    stats = run.meter.take()
    assert 0 < stats.owned.sum() <= 20 * NETWORK.attributes
    assert stats.owned.sum() <= stats.received[0].sum()
    if system == "ferry":
        assert np.count_nonzero(stats.owned) <= NETWORK.attributes


@pytest.mark.parametrize("system", ["vinifera", "ferry"])
@pytest.mark.parametrize("cycles", [1, 4, 14])
def test_who_asked_before_makes_no_difference(system: str, cycles: int) -> None:
    """A network that has settled in silence is the one in which everybody asked all the time."""
    network = dataclasses.replace(NETWORK, system=system)
    asked, silent = network.make(), network.make()
    for run, settle in ((asked, asked.advance), (silent, silent.settle)):
        run.start()
        settle(cycles)
        for _ in range(2):
            run.publish(10)
    one, other = asked.meter.take(), silent.meter.take()
    assert (one.due, one.hits, one.hops, one.wrong) == (other.due, other.hits, other.hops, other.wrong)
    for name in ("received", "passed", "owned"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    counts = [run.world.engine.counters["sent.content_table.request"] for run in (asked, silent)]
    assert sum(counts[1]) < sum(counts[0]) if cycles == 14 else counts[0] == counts[1]


def test_what_is_skipped_counts_as_published() -> None:
    """Where nobody moves, rounds without events lead to the same ones."""
    network = dataclasses.replace(NETWORK, system="ferry")
    loud, quiet = network.make(), network.make()
    for run, before in ((loud, loud.publish), (quiet, quiet.skip)):
        run.start()
        run.settle(8)
        before(7)
        run.meter.take()
        run.publish(10)
    one, other = loud.meter.take(), quiet.meter.take()
    assert (one.due, one.hits, one.hops) == (other.due, other.hits, other.hops)
    assert np.array_equal(one.received, other.received)
