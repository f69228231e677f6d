"""Publication rates: the power law, draws of events, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vinecast.core.errors import InputError
from vinecast.sim.workload.rates import checked, draw_events, power_law


@given(st.integers(0, 99), st.integers(1, 300), st.floats(0, 5))
def test_rates_follow_the_power_law_and_are_one_on_average(seed: int, topics: int, alpha: float) -> None:
    rates = power_law(seed, topics, alpha)
    assert rates.mean() == pytest.approx(1)
    falling = np.sort(rates)[::-1]
    assert falling == pytest.approx(falling[0] * (1.0 + np.arange(topics)) ** -alpha)


def test_which_topic_is_hot_is_drawn() -> None:
    assert len({int(np.argmax(power_law(seed, 1000, 1.0))) for seed in range(10)}) > 5


def test_events_come_at_their_rates() -> None:
    rates = np.array([0.0, 0.25, 1.0, 7.5])
    drawn = np.array([draw_events(1, cycle, rates) for cycle in range(2000)])
    assert drawn.mean(axis=0) == pytest.approx(rates, abs=0.05)
    assert set(drawn[:, 3].tolist()) == {7, 8}
    assert np.array_equal(drawn[5], draw_events(1, 5, rates))


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ([1.0, -0.5], "must not be negative, as that of topic 1 is"),
        ([0.0, 0.0], "must not all be zero"),
        ([1.0, float("nan")], "must be finite"),
    ],
)
def test_impossible_rates_are_refused_by_name(rates: list[float], said: str) -> None:
    with pytest.raises(InputError, match=said):
        checked(np.array(rates))


def test_alpha_is_limited() -> None:
    with pytest.raises(InputError, match="alpha must be from 0 to 100, not -1"):
        power_law(1, 10, -1.0)
