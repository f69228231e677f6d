"""Publications, Zipf topics, the Reddit trace, and what a system costs each node."""

import gzip
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.systems.conformance import filter_sets
from vinecast.core.arrays.topic_overlap import make_scratch
from vinecast.core.errors import InputError
from vinecast.lab.claims.pulsarcast import costs as pulsarcast_costs
from vinecast.lab.claims.pulsarcast import runs as pulsarcast_runs
from vinecast.lab.claims.pulsarcast.candidates import CANDIDATES, is_durable, measure
from vinecast.lab.claims.pulsarcast.runs import CostRun
from vinecast.lab.claims.registry import CLAIMS, Setup, check_claim
from vinecast.lab.runs import run_cache
from vinecast.sim.engine.wire import FRAME, NUMBER, TOPIC
from vinecast.sim.measure.footprint import footprints
from vinecast.sim.scenario.costs import METRICS, PAYLOAD, CostPlan, Costs
from vinecast.sim.scenario.peer_costs import PeerCandidate, PeerCostRun
from vinecast.sim.workload.publications import Publications, draw_publications
from vinecast.sim.workload.reddit import FILE, read_reddit
from vinecast.sim.workload.sample import load_workload, reddit_workload
from vinecast.sim.workload.subscriptions import Subscriptions, pattern
from vinecast.sim.workload.zipf import zipf_subscriptions, zipf_weights

BY_NAME = {candidate.label: candidate for candidate in CANDIDATES}
CALM, CHURN = CostPlan(4, 2), CostPlan(12, 3, churn=True)


# Publications.


@given(seed=st.integers(0, 2**32), count=st.integers(0, 50))
def test_events_come_from_subscribers(seed: int, count: int) -> None:
    found = pattern("random", 1, 10, topics=20, subscriptions=2)  # some topics have nobody
    drawn = draw_publications(seed, found, count)
    assert drawn.count == count
    pairs = zip(drawn.publisher.tolist(), drawn.topic.tolist(), strict=True)
    assert all(topic in found.of(node) for node, topic in pairs)
    again = draw_publications(seed, found, count + 5)
    assert again.first(count).topic.tolist() == drawn.topic.tolist()


def test_heavy_topics_have_more_events() -> None:
    found = filter_sets([[0, 1, 2]] * 5, 3)
    count = Counter(draw_publications(1, found, 4000, np.array([6.0, 3.0, 1.0])).topic.tolist())
    assert [count[topic] / 4000 for topic in range(3)] == pytest.approx([0.6, 0.3, 0.1], abs=0.03)
    even = Counter(draw_publications(1, found, 3000).topic.tolist())
    assert min(even.values()) > 900


def test_nobody_to_publish() -> None:
    nobody = Subscriptions(np.zeros(3, dtype=np.int64), np.zeros(0, dtype=np.int32), 4)
    assert draw_publications(1, nobody, 0).count == 0
    with pytest.raises(InputError, match="nobody subscribes"):
        draw_publications(1, nobody, 1)


# Zipf.


@given(seed=st.integers(0, 2**32), nodes=st.integers(1, 20), topics=st.integers(1, 20), data=st.data())
def test_everybody_has_equally_many_topics(seed: int, nodes: int, topics: int, data: st.DataObject) -> None:
    each = data.draw(st.integers(1, topics))
    found = zipf_subscriptions(seed, nodes, topics, each)
    for node in range(nodes):
        own = found.of(node).tolist()
        assert own == sorted(set(own))
        assert len(own) == each
        assert 0 <= own[0] <= own[-1] < topics


def test_popularity_falls_as_one_over_rank() -> None:
    found = zipf_subscriptions(1, 20_000, 50, 1)  # one each: nothing saturates
    share = np.bincount(found.topics, minlength=50) / 20_000
    weights = zipf_weights(50)
    assert share[:8] == pytest.approx((weights / weights.sum())[:8], rel=0.1)
    assert zipf_subscriptions(1, 2000, 50, 1).topics.tolist() == found.topics[:2000].tolist()  # any chunks


@pytest.mark.parametrize("wrong", [(0, 5, 1), (5, 0, 1), (5, 5, 0), (5, 5, 6)])
def test_zipf_that_cannot_be(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(InputError):
        zipf_subscriptions(1, *wrong)


# The Reddit trace.

TOPICS = [
    {"type": "topic", "name": "science", "totalNumberEvents": 2},
    {"type": "topic", "name": "de", "totalNumberEvents": 1, "author": "x"},
]
USERS = [
    {
        "type": "user", "name": "ann", "subscriptions": {"science": True, "de": False},
        "events": [{"internalId": 5, "topic": "science"}, {"internalId": 1, "topic": "de", "ups": 3}],
    },
    {
        "type": "user", "name": "bob", "subscriptions": {"de": True, "science": True},
        "events": [{"internalId": 3, "topic": "science"}],
    },
]  # fmt: skip


def write(folder: Path, *lines: Any) -> Path:
    path = folder / FILE
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_a_trace_becomes_subscriptions_and_events_in_order(tmp_path: Path) -> None:
    trace = read_reddit(write(tmp_path, *TOPICS, *USERS))
    assert trace.users == ("ann", "bob")
    assert trace.topics == ("science", "de")
    assert [trace.subscriptions.of(node).tolist() for node in range(2)] == [[0], [0, 1]]
    assert trace.publications.publisher.tolist() == [0, 1, 0]  # events 1, 3, 5
    assert trace.publications.topic.tolist() == [1, 0, 0]
    first = trace.take(1)
    assert first.subscriptions.nodes == 1
    assert first.publications.publisher.tolist() == [0, 0]


def changed(entry: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {**entry, **rest}


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["{"], ":1: not valid JSON"),
        (["[" * 100_000], ":1: not valid JSON"),
        (["[]"], ":1: neither a topic nor a user"),
        ([*TOPICS, TOPICS[0]], ":3: the topic 'science' stands here twice"),
        ([*TOPICS, *USERS, USERS[1]], ":5: the user 'bob' stands here twice"),
        ([*TOPICS, USERS[0], changed(USERS[1], events=USERS[0]["events"])], "the event 5 stands here twice"),
        ([*TOPICS, changed(USERS[0], events=[{"internalId": -1, "topic": "de"}])], "needs a number"),
        ([*TOPICS, changed(USERS[0], events=["de"])], "needs a number and a topic"),
        ([*TOPICS, changed(USERS[0], subscriptions={"de": 1})], "must be true or false"),
        ([*TOPICS, changed(USERS[0], subscriptions={"xx": True})], "'xx' has no line of its own"),
        ([TOPICS[0], *USERS], "'de' has no line of its own"),
        ([*TOPICS, USERS[0]], "the topic 'science' has 1 events, not 2"),
        (TOPICS, "the trace has no user"),
        ([], "the trace has no user"),
    ],
)
def test_a_trace_that_is_refused(tmp_path: Path, lines: list[Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_reddit(write(tmp_path, *lines))


def test_readers_get_numbers_that_tell_nothing(tmp_path: Path) -> None:
    write(tmp_path, *TOPICS, *USERS)
    orders = set()
    for seed in range(8):
        read, wrote = reddit_workload(2, seed, tmp_path)
        bob = next(node for node in range(2) if read.of(node).size == 2)
        assert wrote.publisher.tolist() == [1 - bob, bob, 1 - bob]
        assert load_workload("reddit", 2, seed, tmp_path).topics.tolist() == read.topics.tolist()
        orders.add(bob)
    assert orders == {0, 1}
    with pytest.raises(InputError, match="has only 2 users, not 3"):
        reddit_workload(3, 1, tmp_path)


def test_the_real_trace(data_folder: Path) -> None:
    trace = read_reddit(data_folder / FILE)
    assert (len(trace.users), len(trace.topics), trace.publications.count) == (100, 23, 12_229)
    assert trace.topics[0] == "reddit.com"
    assert int((trace.publications.topic == 0).sum()) == 7810


# What it costs.


def run(name: str, lists: list[list[int]], publisher: int, count: int, plan: CostPlan) -> Costs:
    wrote = Publications(np.full(count, publisher), np.zeros(count, dtype=np.int64))
    return measure(BY_NAME[name], filter_sets(lists, 1), wrote, plan, 1)


def test_direct_sending_costs_what_can_be_counted_on_fingers() -> None:
    found = run("direct", [[0]] * 5 + [[]], publisher=2, count=3, plan=CALM)
    assert found["messages"].tolist() == [3, 3, 12, 3, 3, 0]
    weight = FRAME + TOPIC + NUMBER + PAYLOAD
    assert (found["bytes"] == found["messages"] * weight).all()
    assert found["coverage"][:5].tolist() == [1.0] * 5
    assert np.isnan(found["coverage"][5])  # nothing was due
    assert found["disk"].tolist() == [0] * 6
    assert (found["cpu_us"][:5] > 0).all()
    assert (found["memory"] > 0).all()


@pytest.mark.parametrize("name", BY_NAME)
def test_the_same_seed_costs_the_same_except_in_time(name: str) -> None:
    lists = [[0]] * 10
    once, again = (run(name, lists, 3, 4, CHURN) for _ in range(2))
    for metric in METRICS:
        if metric != "cpu_us":
            assert np.array_equal(once[metric], again[metric], equal_nan=True), metric
    assert set(once) == set(METRICS)
    assert all(once[metric].shape == (10,) for metric in METRICS)
    assert is_durable(BY_NAME[name]) == bool(once["disk"].sum())


def test_what_peers_send_and_receive_is_what_travels() -> None:
    candidate = BY_NAME["PulsarCast, durable"]
    assert isinstance(candidate, PeerCandidate)
    lists, count = [[0]] * 8, 10
    wrote = Publications(np.full(count, 2), np.zeros(count, dtype=np.int64))
    run = PeerCostRun(candidate, filter_sets(lists, 1), wrote, 1)
    run.on = True
    run.start()
    run.publish(5 * 60.0, CALM)
    run.world.run(15 * 60.0)
    found, links = run.found(), run.world.links
    assert found["messages"].sum() == pytest.approx(2 * links.frames_sent, rel=0.01)
    assert found["bytes"].sum() == pytest.approx(2 * links.bytes_sent, rel=0.01)
    assert found["coverage"].tolist() == [1.0] * 8
    each = found["disk"] / count
    assert (each == each[0]).all()
    assert PAYLOAD < each[0] < 3 * PAYLOAD
    assert (found["memory"] > found["disk"]).all()


def test_who_is_away_is_missing_from_coverage_and_not_from_that_on_line() -> None:
    found = run("direct", [[0]] * 40, publisher=7, count=30, plan=CHURN)
    assert np.nanmin(found["coverage_online"]) == 1.0
    assert np.nanmin(found["coverage"]) < 1.0


def test_small_states_are_small_and_what_is_shared_is_nobodys() -> None:
    class Machine:
        def __init__(self, shared: Any, own: int) -> None:
            self.shared = shared
            self.own = np.zeros(own)
            self.view = self.own[:2]
            self.number = 12345
            self.act = self.run

        def run(self) -> None: ...

    shared = make_scratch(1000, 10, 10, 10)
    small, large = footprints([Machine(shared, 10), Machine(shared, 1010)])
    assert large - small == 8000
    assert small < 2000
    assert footprints([Machine(shared, 10)])[0] > small + 4000  # alone, all of it is its own
    assert footprints([Machine(shared, 10)], [shared])[0] == small


# The claim.


def made_up(short: str) -> Any:
    """Costs of four nodes, without a run. short: who does not cover everything"""

    def costs(run: CostRun) -> Costs:
        found = {metric: np.array([4.0, 1.0, 3.0, 2.0]) for metric in METRICS}
        found["coverage"] = np.array([1.0, np.nan, 1.0, 0.5 if run.system == short else 1.0])
        return found

    return costs


@pytest.mark.parametrize(
    ("short", "holds"), [("", True), ("PolderCast", True), ("PulsarCast, durable", False)]
)
def test_the_table_is_whole(monkeypatch: pytest.MonkeyPatch, short: str, holds: bool) -> None:
    monkeypatch.setattr(run_cache, "_done", {})
    monkeypatch.setattr(CostRun, "_costs", made_up(short))
    verdict = check_claim(CLAIMS["PU-5"], Setup("small"))
    rows = verdict.values["table"]["rows"]
    assert len(rows) == 2 * 2 * len(CANDIDATES) * len(METRICS)
    assert all(len(row) == len(verdict.values["table"]["headings"]) for row in rows)
    for row in verdict.values["costs"]:
        order = [row[name] for name in pulsarcast_costs.QUANTILES]
        assert order == sorted(order, reverse=row["metric"].startswith("coverage"))
    assert verdict.holds == holds
    assert ("PulsarCast, durable (zipf, nodes come and go)" in verdict.measured) == (not holds)
    assert json.dumps(verdict.as_dict(), allow_nan=False)
    assert len({figure.name for figure in verdict.figures}) == 2 * 2


def test_runs_under_faults_are_told_the_same_from_memory_and_from_a_folder(tmp_path: Path) -> None:
    once = pulsarcast_runs.FaultRuns("PU-6", "small", 7, 1)
    there = replace(once, keep=tmp_path)
    run_cache.do([there], processes=1)
    assert run_cache.is_kept(there)
    for runs in (once, there):
        (found,) = runs.run_with([])
        again = run_cache.fetch(runs)["outcomes"].tolist()
        assert found["outcomes"].tolist() == again
        assert [json.loads(text)["seed"] for text in again] == [7]


def test_without_the_trace_the_claim_says_so(tmp_path: Path) -> None:
    setup = Setup("small", data=tmp_path, workload="reddit", keep=tmp_path / "kept")
    with pytest.raises(InputError, match=f"needs {FILE}, which is not in"):
        check_claim(CLAIMS["PU-5"], setup)


def test_what_systems_are_like() -> None:
    found = pattern("random", 1, 20, topics=8, subscriptions=3)
    wrote = draw_publications(1, found, 20)

    def measured(name: str, plan: CostPlan) -> Costs:
        return measure(BY_NAME[name], found, wrote, plan, 1)

    direct, flooding, relayed = (measured(n, CALM) for n in ("direct", "flooding", "flooding with relays"))
    assert direct["messages"].mean() < flooding["messages"].mean() < relayed["messages"].mean()
    for costs in (direct, relayed, measured("PolderCast", CALM)):
        assert np.nanmin(costs["coverage"]) == 1.0
    assert np.nanmin(measured("PolderCast", CHURN)["coverage"]) < 1.0


def test_a_workload_that_is_not_its_own() -> None:
    with pytest.raises(InputError, match="reddit, uniform, zipf, and not facebook"):
        check_claim(CLAIMS["PU-5"], Setup("small", workload="facebook"))
