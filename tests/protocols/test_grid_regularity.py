"""A node's own regularity: its log, its pattern, what crashes and clocks do to them; the trace analysis
agrees."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from vinecast.core.arrays.regularity import (
    Grid,
    OnlineTimes,
    Patterns,
    count_nodes,
    is_regular,
    observed_time,
)
from vinecast.core.errors import InputError
from vinecast.protocols.regularity import OnlineMark, OwnRegularity, RegularityConfig, sessions_of
from vinecast.protocols.regularity.sweep import RegularitySweep
from vinecast.sim.workload.churn import read_avt

SECOND = 1_000_000
CONFIG = RegularityConfig(cycle_s=240, slot_s=60, threshold=70, clock_skew_s=0.0)
GAP = 30 * SECOND


def service(config: RegularityConfig = CONFIG, gap_us: int = GAP) -> OwnRegularity:
    return OwnRegularity(config, 0, Patterns(1, config.slots), gap_us)


# The log.


def test_a_session_lasts_from_on_to_off() -> None:
    log = [
        (OnlineMark.ON, 10),
        (OnlineMark.STILL_ON, 20),
        (OnlineMark.OFF, 25),
        (OnlineMark.ON, 40),
        (OnlineMark.OFF, 41),
    ]
    assert sessions_of(log) == [(10, 25), (40, 41)]


def test_after_a_crash_the_time_since_the_last_mark_was_off_line() -> None:
    log = [(OnlineMark.ON, 10), (OnlineMark.STILL_ON, 20), (OnlineMark.ON, 100), (OnlineMark.STILL_ON, 110)]
    assert sessions_of(log) == [(10, 20), (100, 110)]


def test_a_crash_before_the_first_mark_leaves_nothing() -> None:
    assert sessions_of([(OnlineMark.ON, 10), (OnlineMark.ON, 30), (OnlineMark.OFF, 31)]) == [(30, 31)]


def test_a_clock_set_back_counts_for_nothing_until_it_has_caught_up() -> None:
    log = [
        (OnlineMark.ON, 100),
        (OnlineMark.STILL_ON, 120),
        (OnlineMark.STILL_ON, 50),
        (OnlineMark.STILL_ON, 130),
        (OnlineMark.OFF, 140),
    ]
    assert sessions_of(log) == [(100, 140)]
    again = [
        (OnlineMark.ON, 100),
        (OnlineMark.OFF, 120),
        (OnlineMark.ON, 50),
        (OnlineMark.STILL_ON, 60),
        (OnlineMark.OFF, 125),
    ]
    assert sessions_of(again) == [(100, 125)]


def test_marks_of_nobody_s_session_are_passed_over() -> None:
    assert sessions_of(
        [
            (OnlineMark.STILL_ON, 5),
            (OnlineMark.OFF, 6),
            (OnlineMark.ON, 7),
            (OnlineMark.OFF, 9),
            (OnlineMark.OFF, 12),
        ]
    ) == [(7, 9)]


@given(st.lists(st.tuples(st.sampled_from(list(OnlineMark)), st.integers(-50, 50)), max_size=30))
def test_whatever_the_log_says_sessions_are_in_order_and_apart(log: list[tuple[OnlineMark, int]]) -> None:
    sessions = sessions_of(log)
    flat = [time for session in sessions for time in session]
    assert flat == sorted(flat)
    assert all(on < off for on, off in sessions)
    told = {time for _, time in log}
    assert all(on in told and off in told for on, off in sessions)


# The service.


def live(own: OwnRegularity, on_s: int, off_s: int, step_s: int = 10) -> None:
    own.mark_on(on_s * SECOND)
    for now in range(on_s, off_s, step_s):
        own.begin_period(now * SECOND)
    own.mark_off(off_s * SECOND)


def test_regular_is_who_was_on_line_for_more_than_the_threshold() -> None:
    own = service()
    for window in range(3):
        live(own, 240 * window, 240 * window + 100)
    own.mark_on(720 * SECOND)
    own.refresh()
    assert own.pattern.tolist() == [True, False, False, False]
    assert own.shares().tolist() == pytest.approx([1.0, 40 / 60, 0.0, 0.0])


def test_exactly_the_threshold_is_not_enough() -> None:
    for length, regular in ((42, False), (43, True)):
        own = service()
        own.recall([(0, length * SECOND)])
        own.mark_on(240 * SECOND)
        own.refresh()
        assert own.pattern[0] == regular


def test_the_pattern_is_looked_at_when_a_slot_begins() -> None:
    own = service()
    own.mark_on(0)
    for now in range(0, 60, 20):
        own.begin_period(now * SECOND)
        assert not own.pattern.any()
    own.begin_period(60 * SECOND)
    assert own.pattern.tolist() == [True, False, False, False]
    assert own.slot == 1


def test_a_window_counts_when_it_is_over_however_late_the_node_notices() -> None:
    own = service()
    own.mark_on(0)
    for now in (0, 25, 50):
        own.begin_period(now * SECOND)
    own.begin_period(75 * SECOND)
    assert own.pattern.tolist() == [True, False, False, False]
    own.begin_period(100 * SECOND)
    own.begin_period(125 * SECOND)
    assert own.pattern.tolist() == [True, True, False, False]


def test_a_crash_in_the_window_that_is_running_does_not_make_it_count() -> None:
    for refresh, regular in (("slot", False), ("cycle", True)):
        own = service(RegularityConfig(cycle_s=240, slot_s=60, refresh=refresh, clock_skew_s=0.0))
        own.recall([(60 * SECOND, 100 * SECOND)])
        own.mark_on(101 * SECOND)
        own.begin_period(101 * SECOND)
        assert own.pattern.tolist() == [False, regular, False, False]


def test_it_can_be_looked_at_in_every_period() -> None:
    own = service(RegularityConfig(cycle_s=240, slot_s=60, threshold=70, refresh="cycle", clock_skew_s=0.0))
    own.mark_on(0)
    own.begin_period(0)
    own.begin_period(20 * SECOND)
    assert own.is_regular


def test_a_machine_that_slept_was_not_on_line() -> None:
    own = service()
    own.mark_on(0)
    own.mark_still_on(10 * SECOND)
    own.mark_still_on(100 * SECOND)
    assert own.shares()[:2].tolist() == [10 / 60, 0.0]


def test_time_is_counted_once_whatever_the_clock_does() -> None:
    own = service()
    for now in (0, 20, 40, 10, 30, 50, 20, 60):
        if now:
            own.mark_still_on(now * SECOND)
        else:
            own.mark_on(0)
    assert own.shares()[0] == 1.0


def test_sessions_that_overlap_or_run_backwards_count_once() -> None:
    own = service()
    own.recall(
        [(0, 30 * SECOND), (20 * SECOND, 40 * SECOND), (10 * SECOND, 5 * SECOND), (35 * SECOND, 36 * SECOND)]
    )
    own.mark_on(60 * SECOND)
    assert own.shares()[0] == 40 / 60


def test_a_pattern_that_was_given_stays() -> None:
    patterns = Patterns(1, 4)
    patterns.give(np.array([[True, False, True, False]]))
    own = OwnRegularity(CONFIG, 0, patterns, GAP)
    live(own, 0, 240)
    own.refresh()
    assert own.pattern.tolist() == [True, False, True, False]
    with pytest.raises(InputError, match="must have the shape"):
        patterns.give(np.zeros((1, 5), dtype=np.bool_))


sessions = st.lists(st.integers(1, 90), min_size=2, max_size=16).map(np.cumsum)


@given(times=sessions, threshold=st.integers(0, 99), refresh=st.sampled_from(["slot", "cycle"]))
def test_the_service_equals_a_count_by_seconds(
    times: NDArray[np.int64], threshold: int, refresh: str
) -> None:
    """Of all time, or of that before the window that is running."""
    config = RegularityConfig(cycle_s=60, slot_s=12, threshold=threshold, refresh=refresh, clock_skew_s=0.0)
    grid, own = Grid(60, 12), service(config)
    ends = times.tolist()[: times.size // 2 * 2]
    until = ends[-1] if refresh == "cycle" else ends[-1] // 12 * 12
    online, observed = [0] * 5, [0] * 5
    for on, off in zip(ends[::2], ends[1::2], strict=True):
        live(own, on, off, 7)
        for second in range(on, min(off, until)):
            online[grid.slot_at(second)] += 1
    for second in range(ends[0], until):
        observed[grid.slot_at(second)] += 1
    own.refresh()
    told = [is_regular(a, b, threshold) for a, b in zip(online, observed, strict=True)]
    assert own.pattern.tolist() == told


@given(times=sessions)
def test_a_node_that_crashed_knows_what_its_log_knows(times: NDArray[np.int64]) -> None:
    ends = [int(time) * SECOND for time in times[: times.size // 2 * 2]]
    alive, log = service(gap_us=1 << 50), []
    for on, last in zip(ends[::2], ends[1::2], strict=True):
        alive.mark_on(on)
        alive.mark_still_on(last)
        log += [(OnlineMark.ON, on), (OnlineMark.STILL_ON, last)]
    alive.refresh()
    recovered = service()
    recovered.recall(sessions_of(log))
    recovered.refresh()
    assert recovered.pattern.tolist() == alive.pattern.tolist()
    assert np.array_equal(recovered.shares(), alive.shares(), equal_nan=True)


def test_a_population_of_services_equals_services_one_by_one() -> None:
    nodes, step = 5, 7 * SECOND
    patterns, online = Patterns(nodes, 4), np.zeros(nodes, dtype=np.bool_)
    sweep = RegularitySweep(CONFIG, patterns, GAP)
    alone = [OwnRegularity(CONFIG, 0, Patterns(1, 4), GAP) for _ in range(nodes)]
    for cycle in range(120):
        now = cycle * step
        for node in range(nodes):
            wanted = (cycle // (3 + node)) % 3 != 2
            if wanted and not online[node]:
                sweep.start(np.array([node]), now)
                alone[node].mark_on(now)
            online[node] = wanted
        sweep.begin_period(now)
        sweep.mark_still_on(online, now, 0, nodes)
        sweep.refresh(online, 0, nodes)
        for node in np.flatnonzero(online).tolist():
            alone[node].begin_period(now)
        assert [own.pattern.tolist() for own in alone] == patterns.regular.tolist()
    assert patterns.regular.any()
    assert not patterns.regular.all()


# What cannot be.


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"cycle_s": 100, "slot_s": 30}, "must divide"),
        ({"cycle_s": 10, "slot_s": 3600}, "must divide"),
        ({"cycle_s": 604_800, "slot_s": 60}, "2,016 slots"),
        ({"slot_s": 60, "clock_skew_s": 30.0}, "half of a slot"),
        ({"threshold": 100}, "at most 99"),
    ],
)
def test_time_that_cannot_be_cut_so_is_refused(wrong: dict[str, int], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        RegularityConfig(**wrong)  # type: ignore[arg-type]


# The trace analysis.


@pytest.mark.parametrize(
    ("cycle_s", "means"), [(86_400, {60: 554, 70: 448, 95: 160}), (604_800, {60: 555, 70: 528, 95: 286})]
)
def test_nodes_find_in_their_logs_what_the_analysis_finds_in_the_skype_trace(
    data_folder: Path, cycle_s: int, means: dict[int, int]
) -> None:
    """Slot by slot what the Spark stage counts (``count_nodes``), and on average the trace's reference
    values."""
    trace = read_avt(data_folder / "skype.avt.gz")
    on, off = (np.rint(times * SECOND).astype(np.int64) for times in (trace.on_s, trace.off_s))
    horizon, grid, thresholds = (
        round(trace.horizon_s * SECOND),
        Grid(cycle_s * SECOND, 3600 * SECOND),
        list(means),
    )
    regular, retained = (np.zeros((len(means), grid.slots), dtype=np.int64) for _ in range(2))
    count_nodes(
        OnlineTimes(trace.start, on, off), grid.cycle, grid.slot, observed_time(grid, horizon),
        np.array(thresholds), np.zeros(grid.slots, dtype=np.int64), regular, retained,
    )  # fmt: skip
    found = np.zeros_like(regular)
    sessions = list(zip(on.tolist(), off.tolist(), strict=True))
    for row, threshold in enumerate(thresholds):
        config = RegularityConfig(cycle_s=cycle_s, threshold=threshold, refresh="cycle")
        for begin, end in pairwise(trace.start.tolist()):
            own = service(config)
            own.mark_on(0)
            own.recall(sessions[begin:end])
            own.mark_on(horizon)
            own.refresh()
            found[row] += own.pattern
    assert np.array_equal(found, regular)
    assert np.floor(found.mean(axis=1) + 0.5).astype(int).tolist() == list(means.values())
