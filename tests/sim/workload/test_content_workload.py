"""What people did as a workload of content systems, and how wide filters are."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vinecast.core.errors import InputError
from vinecast.sim.workload.content import FiltersConfig, activity_workload, content_workload
from vinecast.sim.workload.higgs import FILE, KINDS, WITHIN_US, acts_of, made_acts, parse_acts, read_acts

LINES = "7 9 100 RT\n7 9 160 RE\n5 9 200 MT\n7 5 300 RT\n\n# a remark\n9 7 400 RT\n"


def trace(folder: Path, text: str = LINES) -> Path:
    path = folder / FILE
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_users_are_ranked_by_how_often_they_acted_or_were_meant(tmp_path: Path) -> None:
    acts = parse_acts(trace(tmp_path))
    assert acts.actor.tolist() == [1, 1, 2, 1, 3]  # 7 acted most often; 5 comes before 9
    assert acts.target.tolist() == [1, 1, 1, 2, 3]
    assert acts.users == 3
    assert acts.event(1) == (160_000_000, 1, 1, "RE")
    schema = acts.schema()
    values = dict(zip((a.name for a in schema.attributes), acts.event(1), strict=True))
    assert schema.event(values) == acts.event(1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1 2 3 RT\n1 2 3\n", ":2: not two users, a time and one of MT, RE, RT"),
        ("1 2 3 XX\n", ":1: not two users"),
        ("a 2 3 RT\n", ":1: not two users"),
        ("1 -2 3 RT\n", ":1: users and times are numbers from 0"),
        ("1 2 99999999999 RT\n", ":1: users and times are numbers from 0"),
        ("# nothing\n", "the trace has no act"),
    ],
)
def test_bad_traces_are_refused_with_the_line(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        parse_acts(trace(tmp_path, text))
    assert says in str(refused.value)


def test_a_missing_trace_is_named(tmp_path: Path) -> None:
    for data, says in ((None, "give the folder"), (tmp_path, "which is not in")):
        with pytest.raises(InputError, match=f'the content "higgs" needs {FILE}.*{says}'):
            FiltersConfig("higgs").workload(1, 2, data)


def test_a_scenario_reads_the_trace(tmp_path: Path) -> None:
    trace(tmp_path)
    workload = FiltersConfig("higgs", filters=2).workload(1, 3, tmp_path)
    assert len(workload.filters) == 3
    with pytest.raises(InputError, match="has only 3 users, not 4"):
        FiltersConfig("higgs").workload(1, 4, tmp_path)


@given(st.integers(0, 2**32), st.integers(1, 30), st.integers(1, 4))
def test_people_want_the_like_of_what_they_did_and_publish_it(seed: int, nodes: int, each: int) -> None:
    workload = activity_workload(made_acts(seed, 20 * nodes), seed, nodes, each)
    assert workload.events is not None
    assert len(workload.filters) == len(workload.events) == nodes
    actors = [{act[1] for act in own} for own in workload.events]
    assert all(len(found) == 1 for found in actors)
    assert len({actor for found in actors for actor in found}) == nodes
    for node, (wanted, own) in enumerate(zip(workload.filters, workload.events, strict=True)):
        assert 1 <= len(wanted) <= each
        assert all(any(one.matches(act) for act in own) for one in wanted)
        assert workload.event(seed, 5, node) in own
    again = activity_workload(made_acts(seed, 20 * nodes), seed, nodes, each)
    assert (again.filters, again.events) == (workload.filters, workload.events)


def test_filters_are_of_three_forms() -> None:
    acts = made_acts(1, 2000)
    found = {one for own in activity_workload(acts, 1, 200, 3).filters for one in own}
    forms = {tuple(r is not None for r in one.ranges) for one in found}
    assert forms == {(False, False, True, False), (True, False, False, True), (False, True, True, False)}
    for one in found:
        time, actor, target, kind = one.ranges
        if time is not None and kind is not None:
            assert 0 <= int(time.high) - int(time.low) <= 2 * WITHIN_US
            assert kind.low == kind.high
            assert kind.low in KINDS
        elif actor is not None and target is not None:
            assert 1 <= int(actor.low) <= int(actor.high)
            assert 1 <= int(target.low) <= int(target.high)
        else:
            assert target is not None
            assert target.low == target.high


def test_made_acts_are_skewed_as_the_trace_is() -> None:
    acts = made_acts(1, 5000)
    for ranks in (acts.actor, acts.target):
        counts = np.bincount(ranks)[1:]
        assert (np.diff(counts) <= 0).all()
        assert counts[0] > 20 * np.median(counts)
    assert set(np.unique(acts.kind)) == {0, 1, 2}


def test_the_real_trace(data_folder: Path) -> None:
    acts = read_acts(data_folder)
    assert acts.actor.size == 563_069
    assert np.bincount(acts.kind).tolist() == [171_237, 36_902, 354_930]
    workload = activity_workload(acts, 1, 300, 2)
    assert len(workload.filters) == 300
    assert len({one for own in workload.filters for one in own}) > 300


@pytest.mark.parametrize("kind", ["random", "skewed", "zipf"])
@pytest.mark.parametrize("attributes", [1, 3])
def test_filters_match_one_of_so_many_points(kind: str, attributes: int) -> None:
    for one_in in (2, 50):
        workload = content_workload(kind, 1, 20, attributes, one_in=one_in)
        for (one,) in workload.filters:
            shares = [
                (float(r.high) - float(r.low)) / (float(a.high) - float(a.low))
                for r, a in zip(one.ranges, workload.schema.attributes, strict=True)
                if r is not None
            ]
            assert np.prod(shares) == pytest.approx(1 / one_in)


def test_ranks_of_equals_are_by_number() -> None:
    users = np.array([4, 2, 4, 9, 2, 7])
    acts = acts_of(users, users[::-1], np.arange(6), np.zeros(6, dtype=np.int64))
    assert acts.actor.tolist() == [2, 1, 2, 4, 1, 3]
