"""The claims of S3 about durability (SYSTEMS.md §5): seeded runs with faults, and live ones, on PolderCast as
carrier.

Every simulated run is a network of its own: who subscribes, publishes, crashes and when is drawn from the
seed (sim/faults.py). A claim holds when no promise was broken in any run, nor in its live half
(core/streams_checker.py). Paper scale has more runs, and more nodes in each; S3 gives neither.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from vinecast.claims.claim import Claim, Measured, Setup
from vinecast.claims.pulsarcast_live import name_of, with_live
from vinecast.sim.faults import (
    FaultConfig,
    Outcome,
    absence,
    blackout,
    converged,
    deaths,
    hostile,
    loss_and_restarts,
    partition,
)
from vinecast.sim.faults_names import attacked_names

SEEDS = {"small": 200, "paper": 2000}
"""Runs a claim (ours)."""
SIZES = {"small": FaultConfig(), "paper": FaultConfig(nodes=16, topics=4, events=40)}
REFUSED = (
    "durable.refused forged event",
    "durable.refused wrong bytes",
    "streams.refused wrong height",
    "streams.refused event that was not asked for",
    "streams.refused impossible heads",
    "streams.given up",
)
"""What a hostile node must have been refused for, in some run."""
NAMES_REFUSED = ("kademlia.refused_values", "kademlia.refused_older")
LIVE_REFUSED = (
    "durable.refused forged event",
    "streams.refused wrong height",
    "streams.refused event that was not asked for",
    "streams.refused impossible heads",
    *NAMES_REFUSED,
)
"""The same on live nodes; to them wrong bytes are an event that was not asked for."""


def _runs(setup: Setup, kind: Callable[[FaultConfig, int], Outcome]) -> list[Outcome]:
    """One run a seed."""
    first = setup.seed * SEEDS["paper"]
    return [kind(SIZES[setup.scale], first + run) for run in range(SEEDS[setup.scale])]


def _measured(setup: Setup, outcomes: list[Outcome], finds: str) -> Measured:
    """What runs have in common to tell. finds: what all readers had in the end, in words"""
    broken = [outcome for outcome in outcomes if outcome.faults]
    published = sum(outcome.published for outcome in outcomes)
    acknowledged = sum(outcome.acknowledged for outcome in outcomes)
    times = converged(outcomes)
    size = SIZES[setup.scale]
    found = f"{finds} in all {len(outcomes):,} runs" if not broken else f"broken in {len(broken):,} runs"
    text = (
        f"{found}, {times['median_s']:.2f} s after the last fault in the median, {times['max_s']:.2f} s at "
        f"most ({size.nodes} nodes, {published:,} events, {acknowledged:,} of them acknowledged by as many "
        f"nodes as there are keepers)"
    )
    values: dict[str, Any] = {
        "runs": len(outcomes),
        "broken": len(broken),
        "faults": [f"seed {outcome.seed}: {outcome.faults[0]}" for outcome in broken[:10]],
        "published": published,
        "acknowledged": acknowledged,
        "converged": times,
    }
    return Measured(text, not broken and acknowledged > 0, values)


def _both(claim: str, setup: Setup, kind: Callable[[FaultConfig, int], Outcome], finds: str) -> Measured:
    """The simulated half of a claim, and the live one."""
    return with_live(claim, setup, _measured(setup, _runs(setup, kind), finds), finds)


def same_streams(setup: Setup) -> Measured:
    """PU-1: 30 % of messages lost, nodes killed and restarted; in every fifth run, all of them at once."""

    def run(config: FaultConfig, seed: int) -> Outcome:
        return (loss_and_restarts if seed % 5 else blackout)(config, seed)

    return _both("PU-1", setup, run, "equal streams")


def survives_deaths(setup: Setup) -> Measured:
    """PU-2: the publisher and k − 1 holders die at the moment of the k-th acknowledgement."""
    return _both("PU-2", setup, deaths, "no acknowledged event lost")


def converges(setup: Setup) -> Measured:
    """PU-3: halves that both publish, and heal."""
    return _both("PU-3", setup, partition, "equal streams")


def catches_up(setup: Setup) -> Measured:
    """PU-4: who was away gets all it missed although all publishers are gone."""
    return _both("PU-4", setup, absence, "nothing missed")


def refuses(setup: Setup) -> Measured:
    """PU-6: one hostile node in each network; and name records stored over an owner's."""
    outcomes = _runs(setup, hostile)
    found = _measured(setup, outcomes, "nothing forged delivered")
    names = [attacked_names(setup.seed * SEEDS["paper"] + run) for run in range(SEEDS[setup.scale])]
    counted: Counter[str] = Counter()
    for counters in (*(run.counters for run in outcomes), *(run.counters for run in names)):
        counted.update(counters)
    refused = {reason: counted[reason] for reason in (*REFUSED, *NAMES_REFUSED)}
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
        "SYSTEMS.md §5", same_streams,
    ),
    Claim(
        "PU-2", "events survive deaths", "those of the publisher and of any k − 1 holders",
        "SYSTEMS.md §5", survives_deaths,
    ),
    Claim("PU-3", "partitions heal", "streams converge; time reported", "SYSTEMS.md §5", converges),
    Claim("PU-4", "catching up", "all that was missed, without publishers", "SYSTEMS.md §5", catches_up),
    Claim("PU-6", "forgeries", "refused, counted, never delivered", "SYSTEMS.md §5", refuses),
)  # fmt: skip
