"""The claims of S3 about durability (SYSTEMS.md §5): seeded runs with faults on whole peers, and live ones.

Every simulated run is a network of its own: who subscribes, publishes, crashes and when is drawn from the
seed (lab/campaign/fault_plans.py). PolderCast and PulsarCast's own tree carry events in turn, and replicas
are found by Kademlia. A claim holds when no promise was broken in any run, nor in its live half
(core/log/checker.py); what is known to be broken, and is not what the claim says, is told beside. Paper scale
has more runs, and more nodes in each; S3 gives neither.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from vinecast.lab.campaign.fault_runs import FaultOutcome, convergence
from vinecast.lab.claims.claim import Claim, Measured, Setup
from vinecast.lab.claims.pulsarcast.live import name_of, with_live
from vinecast.lab.claims.pulsarcast.runs import (
    CARRIERS,
    FAULT_SIZES,
    NAMES,
    fault_runs,
    names_outcomes,
    outcomes_of,
)

NAMES_REFUSED = ("kademlia.refused_values", "kademlia.refused_older")
LIVE_REFUSED = (
    "durable.refused forged event",
    "streams.refused wrong height",
    "streams.refused event that was not asked for",
    "streams.refused impossible heads",
    *NAMES_REFUSED,
)
"""What liars must have been refused for, in some run; wrong bytes are an event that was not asked for."""
REFUSED = (*LIVE_REFUSED, "streams.refused event of another topic", "streams.given up")
"""The same in simulation."""


def _measured(setup: Setup, outcomes: list[FaultOutcome], finds: str) -> Measured:
    """What runs have in common to tell. finds: what all readers had in the end, in words"""
    broken = [outcome for outcome in outcomes if outcome.faults]
    published = sum(outcome.published for outcome in outcomes)
    acknowledged = sum(outcome.acknowledged for outcome in outcomes)
    times = convergence(outcomes)
    size = FAULT_SIZES[setup.scale]
    found = f"{finds} in all {len(outcomes):,} runs" if not broken else f"broken in {len(broken):,} runs"
    besides = Counter(name for outcome in outcomes for name in outcome.besides)
    text = (
        f"{found}, {times['median_s']:.2f} s after the last fault in the median, {times['max_s']:.2f} s at "
        f"most ({size.nodes} nodes, {published:,} events, {acknowledged:,} of them acknowledged in time by "
        f"as many nodes as there are replicas)"
    )
    if besides:
        told = (f"{name} in {count:,} runs" for name, count in sorted(besides.items()))
        text += f"; known to be broken besides: {', '.join(told)}"
    values: dict[str, Any] = {
        "runs": len(outcomes),
        "broken": len(broken),
        "faults": [f"seed {outcome.seed}: {outcome.faults[0]}" for outcome in broken[:10]],
        "besides": dict(sorted(besides.items())),
        "published": published,
        "acknowledged": acknowledged,
        "converged": times,
        "carriers": {name: _of_carrier(name, outcomes) for name in CARRIERS},
    }
    return Measured(text, not broken and acknowledged > 0, values)


def _of_carrier(name: str, outcomes: list[FaultOutcome]) -> dict[str, Any]:
    own = [outcome for outcome in outcomes if outcome.system == name]
    told: dict[str, Any] = {"runs": len(own), "broken": sum(bool(outcome.faults) for outcome in own)}
    return {**told, "converged": convergence(own)} if own else told


def _keeps(claim: str, finds: str) -> Callable[[Setup], Measured]:
    """Measures the simulated half of a claim, and the live one. finds: what must be so in the end"""

    def measure(setup: Setup) -> Measured:
        return with_live(claim, setup, _measured(setup, outcomes_of(claim, setup), finds), finds)

    return measure


def refuses(setup: Setup) -> Measured:
    """PU-6: one hostile node in each network; and name records stored over an owner's."""
    outcomes, names = outcomes_of("PU-6", setup), names_outcomes(setup)
    found = _measured(setup, outcomes, "nothing forged delivered")
    counted: Counter[str] = Counter()
    for counters in (*(run.counters for run in outcomes), *(run.counters for run in names)):
        counted.update(counters)
    refused = {reason: counted[reason] for reason in REFUSED}
    replaced = sum(bool(outcome.faults) for outcome in names)
    text = (
        f"{found.text}; refused: "
        + ", ".join(f"{name_of(reason)} {count:,}" for reason, count in refused.items())
        + f"; name records replaced in {replaced} of {len(names):,} runs"
    )
    holds = found.holds and not replaced and all(refused.values())
    both = Measured(text, holds, {**found.values, "refused": refused, "names_replaced": replaced})
    return with_live("PU-6", setup, both, "nothing forged delivered", LIVE_REFUSED)


CLAIMS = (
    Claim(
        "PU-1", "same streams for all", "identical event sets under 30 % loss and restarts",
        "SYSTEMS.md §5", _keeps("PU-1", "equal streams"), partial(fault_runs, "PU-1"),
    ),
    Claim(
        "PU-2", "events survive deaths", "those of the publisher and of any k − 1 holders",
        "SYSTEMS.md §5", _keeps("PU-2", "no acknowledged event lost"), partial(fault_runs, "PU-2"),
    ),
    Claim(
        "PU-3", "partitions heal", "streams converge; time reported",
        "SYSTEMS.md §5", _keeps("PU-3", "equal streams"), partial(fault_runs, "PU-3"),
    ),
    Claim(
        "PU-4", "catching up", "all that was missed, without publishers",
        "SYSTEMS.md §5", _keeps("PU-4", "nothing missed"), partial(fault_runs, "PU-4"),
    ),
    Claim(
        "PU-6", "forgeries", "refused, counted, never delivered",
        "SYSTEMS.md §5", refuses, lambda setup: [*fault_runs("PU-6", setup), *fault_runs(NAMES, setup)],
    ),
)  # fmt: skip
