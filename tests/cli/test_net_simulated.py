"""What ``vinecast net --compare`` says of a live network and its simulations."""

from typing import Any

from vinecast.cli.net_simulated import COMPARED, about_comparison, idle_close_s, told
from vinecast.node.transport.interface import TransportConfig
from vinecast.sim.scenario.live_comparison import Recipients, SimulatedOutcome, WhoGotWhat, who_got_what

BOTH, ONE = Recipients(frozenset({0, 1}), frozenset({0, 1})), Recipients(frozenset({0, 1}), frozenset({0}))
EARLY = Recipients(frozenset({0, 1, 2}), frozenset({0, 1, 2}))


def outcome(value: float | None, reached: tuple[Recipients | None, ...]) -> SimulatedOutcome:
    due = sum(len(one.due) for one in reached if one)
    measures = {key: value for _, key in COMPARED}
    return SimulatedOutcome(due, due, 0, 0, measures, {"a": (1, 2)}, reached)


def said(live: list[Recipients], *simulated: SimulatedOutcome) -> list[str]:
    compared: list[WhoGotWhat] = [who_got_what(live, one.reached) for one in simulated]
    measures: dict[str, Any] = {key: 3.0 for _, key in COMPARED}
    deliveries = {"got": 4, "expected": 4}
    return about_comparison(
        {"simulated": told(simulated, compared), "measures": measures, "deliveries": deliveries}
    )


def test_all_is_equal_and_the_mean_and_the_range_are_told() -> None:
    lines = said([BOTH, BOTH], outcome(2.0, (BOTH, BOTH)), outcome(4.0, (BOTH, BOTH)))
    assert lines[1].split() == ["live", "simulated", "in", "2", "simulations", "live", "against", "simulated"]
    assert lines[2].split() == ["deliveries", "4/4", "4/4"]
    assert lines[3].split() == ["hops", "3.000", "3.000", "2.000", "…", "4.000", "+0.0%"]
    assert lines[-1] == "who got what: 2 of 2 events equal in each of 2 simulations"


def test_what_is_left_out_and_what_differs_is_told() -> None:
    lines = said([BOTH, BOTH], outcome(3.0, (EARLY, ONE)), outcome(3.0, (BOTH, BOTH)))
    assert lines[2].split() == ["deliveries", "4/4", "4/4", "…", "5/5"]
    assert lines[-3] == "who got what: 1 to 2 of 2 events equal in each of 2 simulations"
    assert lines[-2].startswith(
        "  left out: 0 to 1 deliveries in each of 2 simulations that were due on one side"
    )
    assert lines[-1].startswith("  --json tells which")


def test_a_network_in_which_nothing_was_measured() -> None:
    assert said([], outcome(None, ()))[-1] == "who got what: 0 of 0 events equal"
    assert about_comparison({}) == []


def test_what_is_told_in_json() -> None:
    simulated = outcome(3.0, (BOTH, ONE))
    found = told([simulated], [who_got_what([BOTH, BOTH], simulated.reached)])
    assert "reached" not in found
    assert found["control"] == {"a": (1, 2)}
    (compared,) = found["who_got_what"]
    assert (compared["events"], compared["equal"], compared["left_out"]) == (2, 1, 0)
    (different,) = compared["different"]
    assert (different["number"], different["live"], different["simulated"]) == (1, (1,), ())
    assert (different["got_live"], different["got_simulated"]) == ((0, 1), (0,))


def test_idle_connections_are_closed_a_little_late() -> None:
    assert idle_close_s(TransportConfig(idle_s=12.0, heartbeat_s=6.0)) == 13.0
    assert idle_close_s(TransportConfig(idle_s=3.0, heartbeat_s=6.0)) == 3.5
