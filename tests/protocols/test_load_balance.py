"""Load balancing: when a node moves, where to, and that two machines agree on it."""

from hypothesis import given
from hypothesis import strategies as st

from vinecast.core.events import Count, Send
from vinecast.core.machine import NOBODY
from vinecast.protocols.load_balance import LoadBalance, Shift, ShiftAsk, ShiftGrant
from vinecast.protocols.load_balance.machine import LASTING, half_way, is_heavier

CIRCLE = 1 << 15


def machine(load: int = 0, beta: int = 4) -> LoadBalance:
    found = LoadBalance(beta, CIRCLE, lambda low, high: [(0, 7, low, high)])
    found.load = load
    return found


def test_the_threshold_is_the_papers() -> None:
    """Algorithm 12, lines 2 and 3."""
    assert is_heavier(0, 5, 4)
    assert not is_heavier(10, 40, 4)
    assert is_heavier(10, 41, 4)


@given(st.integers(0, CIRCLE - 1), st.integers(0, CIRCLE - 1))
def test_half_way_is_between(here: int, there: int) -> None:
    place, gap = half_way(here, there, CIRCLE), (there - here) % CIRCLE
    if gap < 2:
        assert place == -1
    else:
        assert 0 < (place - here) % CIRCLE < gap
        assert abs(2 * ((place - here) % CIRCLE) - gap) <= 1
        assert 0 <= place < CIRCLE


def test_two_machines_back_to_back() -> None:
    node, after = machine(2), machine(100)
    (ask,) = node.consider(100, 8, 300, 100)
    assert ask == Send(8, ShiftAsk(200, 2))
    (grant,) = after.hear_ask(5, ShiftAsk(200, 2), predecessor=5, below=100, here=300)
    assert grant == Send(5, ShiftGrant(200, 51, ((0, 7, 101, 200),)))
    assert node.hear_grant(8, ShiftGrant(200, 51, ((0, 7, 101, 200),))) == Shift(200, ((0, 7, 101, 200),))
    assert node.load == after.load == 51
    assert node.hear_grant(8, ShiftGrant(200, 51, ())) is None  # once is enough


def test_over_the_highest_place() -> None:
    node, after = machine(0), machine(100)
    (ask,) = node.consider(CIRCLE - 10, 8, 90, 100)
    assert ask == Send(8, ShiftAsk(40, 0))
    (grant,) = after.hear_ask(5, ShiftAsk(40, 0), predecessor=5, below=CIRCLE - 10, here=90)
    assert grant == Send(5, ShiftGrant(40, 50, ((0, 7, CIRCLE - 9, 40),)))


def test_nobody_else_may_move_and_nowhere_else() -> None:
    after = machine(100)
    refused = [Count("load_balance.refused")]
    assert after.hear_ask(6, ShiftAsk(200, 0), 5, 100, 300) == refused
    assert after.hear_ask(5, ShiftAsk(300, 0), 5, 100, 300) == refused
    assert after.hear_ask(5, ShiftAsk(100, 0), 5, 100, 300) == refused
    assert after.hear_ask(5, ShiftAsk(50, 0), 5, 100, 300) == refused
    assert after.hear_ask(5, ShiftAsk(200, -1), 5, 100, 300) == refused
    assert after.hear_ask(NOBODY, ShiftAsk(200, 1 << 60), NOBODY, 100, 300) == refused
    assert after.load == 100


def test_a_grant_that_was_not_asked_for() -> None:
    node = machine()
    assert node.hear_grant(8, ShiftGrant(200, 50, ())) is None
    node.consider(100, 8, 300, 100)
    assert node.hear_grant(7, ShiftGrant(200, 50, ())) is None
    assert node.hear_grant(8, ShiftGrant(201, 50, ())) is None
    node.turn()  # too late
    assert node.hear_grant(8, ShiftGrant(200, 50, ())) is None


def test_load_is_that_of_the_last_cycles() -> None:
    node = machine()
    for _ in range(40):
        for _ in range(10):
            node.note()
        node.turn()
    assert 10 * LASTING - LASTING <= node.load <= 10 * LASTING
    for _ in range(40):
        node.turn()
    assert node.load == 0
    assert node.consider(100, 8, 101, 100) == []  # there is nothing between
