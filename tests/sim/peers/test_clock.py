"""Simulated clocks are handed to peers as real ones are: ahead, behind, set, and never backwards."""

from vinecast.sim.peers.clock import SimulatedClock
from vinecast.sim.peers.keys import KeyRing

SECOND = 1_000_000


def test_clock_that_is_set_back_goes_on_as_it_was() -> None:
    clock = SimulatedClock(ahead_us=5 * SECOND)
    assert clock.now_us(0) == 5 * SECOND
    clock.set(-3 * SECOND)
    assert clock.wall_us(SECOND) == 3 * SECOND
    assert clock.now_us(SECOND) == 6 * SECOND, "a peer's time does not stand still and does not go back"
    assert clock.now_us(2 * SECOND) == 7 * SECOND


def test_clock_that_is_set_ahead_jumps() -> None:
    clock = SimulatedClock()
    clock.set(60 * SECOND)
    assert clock.now_us(SECOND) == clock.wall_us(SECOND) == 61 * SECOND


def test_process_that_begins_believes_the_machine() -> None:
    clock = SimulatedClock()
    clock.now_us(0)
    clock.set(-60 * SECOND)
    clock.restart()
    assert clock.now_us(90 * SECOND) == 30 * SECOND


def test_fast_clock_counts_more_and_its_timers_run_out_sooner() -> None:
    clock = SimulatedClock(drift=0.01)
    assert clock.now_us(100 * SECOND) == 101 * SECOND
    assert clock.true_delay(101 * SECOND) == 100 * SECOND
    assert SimulatedClock().true_delay(77) == 77


def test_only_whoever_has_a_key_signs_with_it() -> None:
    ring, other = KeyRing(1), KeyRing(2)
    one, two = ring.identity(0), ring.identity(1)
    signature = one.sign(b"text")
    assert ring.verify(one.public, b"text", signature)
    assert not ring.verify(two.public, b"text", signature)
    assert not ring.verify(one.public, b"texu", signature)
    assert not ring.verify(one.public, b"text", two.sign(b"text"))
    assert not other.verify(one.public, b"text", signature)
    assert not ring.verify(b"nobody", b"text", signature)
    assert KeyRing(1).identity(0).public == one.public
    assert (len(one.public), len(signature), len(one.id)) == (32, 64, 32)
