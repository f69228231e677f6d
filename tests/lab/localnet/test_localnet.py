"""The books of a local network, told by hand; and the log's lines."""

import logging
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vinecast.core.errors import InputError
from vinecast.core.machine import SECOND_US
from vinecast.lab.localnet.config import NetConfig
from vinecast.lab.localnet.messages import PublishedMuch, WorkerReport
from vinecast.lab.localnet.overload import OverloadStep
from vinecast.lab.localnet.tally import NetTally, bits_of, numbers_of
from vinecast.node.runtime.config import NodeConfig
from vinecast.node.runtime.logs import KeyValueFormatter
from vinecast.sim.measure.reduction import RunFacts

PATIENCE_US = 5 * SECOND_US


def report(neighbours: list[tuple[int, str, int, int]] | None = None, **facts: Any) -> WorkerReport:
    return WorkerReport(neighbours or [], RunFacts(**facts), {}, 0, 0.0)


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


def test_events_are_judged_when_all_processes_have_told_of_their_time() -> None:
    tally = network([1, 2, 3])
    joined = [("t", number, 0, True) for number in range(3)]
    tally.on_report(0, report(changes=joined, published=[(77, "t", 0, 10)], delivered=[(77, 0, 0, 10)]))
    tally.on_report(1, report(delivered=[(77, 1, 2, 20)], upto_us=30))
    tally.on_report(0, report(upto_us=10 + PATIENCE_US))
    assert (tally.on_their_way, tally.all_arrived, tally.latest) == (1, False, [])
    tally.on_report(1, report(upto_us=9 + PATIENCE_US))
    assert tally.on_their_way == 1
    tally.on_report(1, report(upto_us=10 + PATIENCE_US))
    (found,) = tally.latest
    assert (found.number, found.publisher, found.due, found.got, found.hops_mean) == (0, 0, 3, 2, 2.0)
    assert (tally.on_their_way, tally.strays) == (0, 0)


def test_nothing_is_due_from_who_is_gone_and_nothing_awaited_of_its_process() -> None:
    tally = network([1, 2, 3])
    joined = [("t", number, 0, True) for number in range(3)]
    tally.on_report(0, report(changes=joined, published=[(77, "t", 0, 10)], upto_us=20))
    tally.on_report(1, report(upto_us=20))
    tally.on_killed(2, 30)
    tally.on_ended(1)
    tally.on_report(0, report(delivered=[(77, 0, 0, 10), (77, 1, 1, 15)], upto_us=10 + PATIENCE_US))
    (judged,) = tally.judged
    assert (judged.due, judged.got) == (2, 2)
    assert numbers_of(judged.due_at) == numbers_of(judged.got_by) == {0, 1}
    assert not tally.members[2].up


def test_who_gets_what_it_did_not_subscribe_to_is_astray() -> None:
    tally = NetTally([("a",), ("b",)], patience_s=5)
    tally.on_report(0, report(published=[(7, "a", 0, 1)], delivered=[(7, 0, 0, 1), (7, 1, 1, 2)]))
    tally.finish()
    assert tally.strays == 1


def test_deliveries_of_a_time_and_the_most_that_was_held() -> None:
    tally = network([1, 2])
    published = [(number, "t", 0, number * SECOND_US) for number in (1, 2, 3)]
    delivered = [(1, 0, 0, SECOND_US), (1, 1, 1, SECOND_US), (2, 0, 0, 2 * SECOND_US)]
    joined = [("t", number, 0, True) for number in range(2)]
    tally.on_report(0, report(changes=joined, published=published, delivered=delivered))
    tally.finish()
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


def test_many_nodes_are_remembered_as_a_set_of_bits() -> None:
    for nodes in (set(), {0}, {3, 64, 999}):
        assert numbers_of(bits_of(nodes)) == nodes
