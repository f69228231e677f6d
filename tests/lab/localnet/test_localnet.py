"""The books of a local network, told by hand; and the log's lines."""

import logging
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vinecast.core.errors import InputError
from vinecast.lab.localnet.config import NetConfig
from vinecast.lab.localnet.messages import PublishedMuch, WorkerReport
from vinecast.lab.localnet.overload import OverloadStep
from vinecast.lab.localnet.tally import NetTally
from vinecast.node.runtime.config import NodeConfig
from vinecast.node.runtime.logs import KeyValueFormatter


def report(
    deliveries: list[tuple[int, int, int]] | None = None,
    neighbours: list[tuple[int, str, int, int]] | None = None,
    published: int = 0,
    first: int = 0,
    again: int = 0,
) -> WorkerReport:
    return WorkerReport(deliveries or [], neighbours or [], published, first, again, 0, 0, {}, 0, 0.0)


def network(points: list[int]) -> NetTally:
    """All on one topic, all ready."""
    tally = NetTally([("t",)] * len(points), patience_s=5)
    for number, point in enumerate(points):
        tally.on_up(number, point, f"h:{number}")
        tally.on_ready(number)
    return tally


def closed(tally: NetTally) -> list[tuple[int, str, int, int]]:
    """What nodes that have their rings right report."""
    up = sorted(tally.up, key=lambda member: member.point)
    links: dict[int, list[int]] = {}
    for before, after in pairwise([up[-1], *up, up[0]]):
        links.setdefault(before.number, [0, 0])[1] = after.point
        links.setdefault(after.number, [0, 0])[0] = before.point
    return [(number, "t", lower, higher) for number, (lower, higher) in links.items()]


POINTS = st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=8, unique=True)


@given(points=POINTS)
def test_a_ring_is_complete_when_every_link_is_right(points: list[int]) -> None:
    tally = network(points)
    count = len(points)
    assert tally.rings() == (0, 1, 0, 2 * count)
    right = closed(tally)
    tally.on_report(0, report(neighbours=right))
    assert tally.rings() == (1, 1, 2 * count, 2 * count)
    node, topic, lower, _ = right[0]
    tally.on_report(0, report(neighbours=[(node, topic, lower, -1)]))
    assert tally.rings() == (0, 1, 2 * count - 1, 2 * count)


@given(points=POINTS, data=st.data())
def test_a_stranger_in_between_is_welcome_and_one_further_away_is_not(
    points: list[int], data: st.DataObject
) -> None:
    tally = network(points)
    right = closed(tally)
    tally.on_report(0, report(neighbours=right))
    node, topic, lower, higher = data.draw(st.sampled_from(right))
    me = tally.members[node].point
    stranger = data.draw(st.integers(0, 2**64 - 1).filter(lambda point: point not in points))
    tally.on_report(0, report(neighbours=[(node, topic, lower, stranger)]))
    between = (stranger - me) % 2**64 < (higher - me) % 2**64
    assert (tally.rings()[0] == 1) == between


def test_who_left_is_no_neighbour() -> None:
    tally = network([10, 20, 30])
    tally.on_report(0, report(neighbours=closed(tally)))
    tally.on_leaving(1)
    assert tally.rings() == (0, 1, 2, 4)  # the two links round the far side are still right
    tally.on_leaving(2)
    assert tally.rings() == (0, 0, 0, 0)
    assert (tally.left, tally.came_back) == (2, 0)
    tally.on_up(1, 20, "h:1")
    assert (tally.left, tally.came_back, len(tally.up)) == (2, 1, 2)


def test_what_is_due_and_what_was_got() -> None:
    tally = NetTally([("a",), ("a", "b"), ("a",), ("b",), ("a",)], patience_s=5)
    for number in range(5):
        tally.on_up(number, number, "")
    for number in (0, 1, 2, 3):  # 4 is up but not ready: nothing is due from it
        tally.on_ready(number)
    tally.on_published(7, "a", 0, 100.0)
    tally.on_report(0, report([(7, 0, 0), (7, 1, 2), (7, 1, 3), (7, 3, 1), (7, 4, 3)], published=1))
    tally.judge(104.9)
    assert (tally.totals.events, tally.all_arrived) == (0, False)
    tally.judge(105.0)
    totals = tally.totals
    assert (totals.events, totals.due, totals.got, totals.repeated, totals.strays) == (1, 3, 2, 1, 1)
    assert (tally.hops_mean(), totals.hops_max, tally.on_their_way) == (2.5, 3, 0)
    assert (tally.latest[0].got, tally.latest[0].due) == (2, 3)


def test_nothing_is_due_from_who_leaves() -> None:
    tally = network([1, 2, 3])
    tally.on_published(0, "t", 0, 0.0)
    tally.on_report(0, report([(0, 0, 0), (0, 1, 1)]))
    arrived = [tally.all_arrived]
    tally.on_leaving(2)
    assert [*arrived, tally.all_arrived] == [False, True]
    tally.judge(0.0, everything=True)
    assert (tally.totals.due, tally.totals.got) == (2, 2)


def test_duplication_is_copies_for_each_that_has_it() -> None:
    tally = network([1, 2])
    assert tally.duplication() == 0
    tally.on_report(0, report(published=1, first=2, again=1))
    tally.on_report(1, report(published=0, first=1, again=2))
    assert tally.duplication() == (3 + 3) / (1 + 3)


def test_deliveries_of_a_time_and_the_most_that_was_held() -> None:
    tally = network([1, 2])
    for number, at_s in enumerate((1.0, 2.0, 3.0)):
        tally.on_published(number, "t", 0, at_s)
    tally.on_report(0, report([(0, 0, 0), (0, 1, 1), (1, 0, 0)]))
    tally.judge(0.0, everything=True)
    assert tally.between(1.0, 3.0) == {"expected": 4, "got": 3}
    assert tally.between(3.5, 9.0) == {"expected": 0, "got": 0}
    for held in (5, 9, 7):
        tally.on_report(1, msgspec.structs.replace(report(), resident_bytes=held))
    assert tally.highest_bytes[1] == 9


@given(*(st.integers(0, 10**6) for _ in range(4)))
def test_the_sums_of_an_overload_show_what_is_missing(read: int, slow: int, unheard: int, lost: int) -> None:
    told = PublishedMuch(0, 2.0, read + slow + unheard + lost, unheard, 0)
    summary = OverloadStep("a step", told, read, slow).summary()
    assert (summary["delivered"], summary["unaccounted"]) == (read, lost)
    assert summary["dropped"] == {"subscriber too slow": slow, "no neighbour took it": unheard}


def test_without_rings_none_is_missing() -> None:
    tally = NetTally([("t",)] * 3, patience_s=5, has_rings=False)
    for number in range(3):
        tally.on_up(number, number, "")
    assert tally.rings() == (0, 0, 0, 0)


def test_a_network_that_cannot_be() -> None:
    with pytest.raises(InputError, match='--hostile and --overload are for "poldercast", not "vitis"'):
        NetConfig(hostile=True, given=NodeConfig(system="vitis"))
    with pytest.raises(InputError, match="cannot subscribe to 5 of 4 topics"):
        NetConfig(topics=4, subscriptions=5)
    with pytest.raises(InputError, match="churn must be at least 0"):
        NetConfig(churn=-1)


def test_a_line_of_the_log_stays_a_line() -> None:
    record = logging.LogRecord("vinecast.node", logging.INFO, "", 0, "met %s", ("a\n\x1b[2J",), None)
    record.created = 0.0
    record.facts = {"address": "a:7000", "reason": 'said "no"', "empty": ""}
    assert KeyValueFormatter().format(record) == (
        'time=1970-01-01T00:00:00.000Z level=info from=vinecast.node message="met a\\n\\u001b[2J" '
        'address=a:7000 reason="said \\"no\\"" empty=""'
    )
