"""The live half of a claim, beside the simulated one."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from vinecast.lab.claims.claim import Measured, Setup
from vinecast.lab.claims.pulsarcast.claims import LIVE_REFUSED
from vinecast.lab.claims.pulsarcast.live import with_live
from vinecast.lab.localnet.durable_kinds import KINDS

SIMULATED = Measured("found in all runs", True, {"runs": 3})


@dataclass
class Outcome:
    """A live run that never was."""

    faults: list[str] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)
    converged_s: float = 1.5
    processes: int = 6
    killed: int = 9
    published: int = 1200
    acknowledged: int = 1100
    delivered: int = 7200
    refused: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LIVE_REFUSED, 2))
    noted: dict[str, Any] = field(default_factory=dict)


def judged(outcome: Outcome, simulated: Measured = SIMULATED) -> Measured:
    asked: list[tuple[str, str, int]] = []

    def live(claim: str, scale: str, seed: int) -> Outcome:
        asked.append((claim, scale, seed))
        return outcome

    setup = Setup("small", 4, live=live)
    found = with_live("PU-6", setup, simulated, "nothing forged delivered", LIVE_REFUSED)
    assert asked == [("PU-6", "small", 4)]
    return found


def test_both_halves_are_told() -> None:
    found = judged(Outcome(noted={"tried": 1300, "names_replaced": 0}))
    assert found.holds
    assert found.text == (
        "found in all runs; live: nothing forged delivered, 1.50 s after the last fault at most "
        "(6 processes, 9 times kill −9; 1,300 lies told; 0 name records replaced; "
        "1,200 events, 1,100 of them acknowledged; "
        "refused: forged event 2, wrong height 2, event that was not asked for 2, impossible heads 2, "
        "refused_values 2, refused_older 2)"
    )
    assert found.values["runs"] == 3
    assert found.values["live"]["killed"] == 9
    assert found.values["live"]["tried"] == 1300


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(faults=["1 lacks something"]),
        Outcome(noted={"names_replaced": 1}),
        Outcome(acknowledged=0),
        Outcome(refused={}),
    ],
)
def test_a_live_half_that_fails_breaks_the_claim(outcome: Outcome) -> None:
    assert not judged(outcome).holds


def test_a_simulated_half_that_fails_is_not_mended() -> None:
    assert not judged(Outcome(), Measured("broken", False)).holds


def test_what_was_broken_is_told() -> None:
    assert "live: broken (1 lacks something)" in judged(Outcome(faults=["1 lacks something"])).text


def test_without_a_way_to_run_it_only_simulation_counts() -> None:
    assert with_live("PU-1", Setup("small"), SIMULATED, "equal streams") is SIMULATED


def test_what_live_runs_note_has_words() -> None:
    noted = {
        "cut_off": 2, "groups_met_s": 0.5, "stopped_in_turns_s": 0.25, "missed": 7, "tried": 1,
        "names_replaced": 0,
    }  # fmt: skip
    text = judged(Outcome(noted=noted)).text
    for words in ("cut off 2 times", "equal after 0.50 s", "in turns after 0.25 s", "7 events missed"):
        assert words in text


def test_every_claim_that_can_be_killed_has_a_live_half() -> None:
    assert list(KINDS) == ["PU-1", "PU-2", "PU-3", "PU-4", "PU-6"]
