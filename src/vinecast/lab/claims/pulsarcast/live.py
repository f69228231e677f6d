"""The live halves of S3's claims about durability: the same promises, kept by processes that are killed.

They are judged by the same checker (core/log/checker.py). How large they are and what is done to the
processes stands where they are run (lab/localnet/durable_kinds.py).
"""

from collections.abc import Sequence
from dataclasses import replace

from vinecast.lab.claims.claim import Measured, Setup
from vinecast.lab.claims.live import LiveOutcome

_NOTED = {
    "cut_off": "nodes cut off {:,} times",
    "groups_met_s": "two groups that met were equal after {:.2f} s",
    "stopped_in_turns_s": "two halves that were stopped in turns after {:.2f} s",
    "missed": "{:,} events missed",
    "tried": "{:,} lies told",
    "names_replaced": "{:,} name records replaced",
}
_WRONG = ("names_replaced",)
"""What must not have happened."""
_FIELDS = ("processes", "killed", "published", "acknowledged", "delivered", "converged_s")


def with_live(
    claim: str, setup: Setup, simulated: Measured, finds: str, refused: Sequence[str] = ()
) -> Measured:
    """What was measured by simulation, with the live half beside it where there is a way to run one.
    finds: what it must show, in words; refused: reasons for which something must have been refused"""
    if setup.live is None:
        return simulated
    live = setup.live(claim, setup.scale, setup.seed)
    counted = {reason: live.refused.get(reason, 0) for reason in refused}
    kept = not live.faults and not any(live.noted.get(name) for name in _WRONG)
    values = {
        **{name: getattr(live, name) for name in _FIELDS},
        **live.noted,
        "faults": list(live.faults[:10]),
        "trouble": list(live.trouble[:10]),
        "refused": counted or dict(live.refused),
    }
    return replace(
        simulated,
        text=f"{simulated.text}; live: {_text(live, finds, counted, kept)}",
        holds=simulated.holds and kept and live.acknowledged > 0 and all(counted.values()),
        values={**simulated.values, "live": values},
    )


def _text(live: LiveOutcome, finds: str, counted: dict[str, int], kept: bool) -> str:
    """One line for the table."""
    found = finds if kept else f"broken ({live.faults[0] if live.faults else 'see the values'})"
    parts = [f"{live.processes:,} processes, {live.killed:,} times kill −9"]
    parts += [_NOTED[name].format(value) for name, value in live.noted.items()]
    parts.append(f"{live.published:,} events, {live.acknowledged:,} of them acknowledged")
    if counted:
        parts.append("refused: " + ", ".join(f"{name_of(why)} {n:,}" for why, n in counted.items()))
    return f"{found}, {live.converged_s:.2f} s after the last fault at most ({'; '.join(parts)})"


def name_of(reason: str) -> str:
    """A counted reason without the name of what counted it."""
    return reason.split(".", 1)[1].removeprefix("refused ")
