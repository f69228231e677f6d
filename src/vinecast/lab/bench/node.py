"""Speed of live nodes on loopback, next to our targets and to what others do in the same run.

On a machine that others use too, CPU time is the stable figure: it stands beside every rate. What is repeated
is repeated in turns, and the median counts. Every event of ours is signed by its publisher and verified by
each subscriber before the application gets it. Processes and runs: ``lab/bench/team``; brokers, and
others that sign nothing: ``lab/bench/rivals``.
"""

import json
import math
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from vinecast.core.errors import Bug, InputError
from vinecast.core.rule import COMPILED
from vinecast.lab.bench.libp2p import js_libp2p, py_libp2p
from vinecast.lab.bench.member import HAND_MAX, PAYLOAD_BYTES
from vinecast.lab.bench.result import Result
from vinecast.lab.bench.team import LATE_S, AbsentError, Team, Trial, highest_rate
from vinecast.node.runtime.loop import run

PARTS = ("two", "ten")
RIVALS = ("py-libp2p", "js-libp2p")
ONE_BY_ONE_MIN, IN_HAND_MIN, P50_MS_MAX = 6_000, 30_000, 1.0
RATIO_MIN = {"py-libp2p": 20.0, "js-libp2p": 5.0}
CALM_RATE = 1000  # events a second while latency is measured
FIRST_RATE = {"vinecast": 200.0, "py-libp2p": 5.0, "js-libp2p": 20.0}  # ours: where the search begins
WARM_S = 2.0  # ours: seconds of publishing at the first rate before anything is measured

Tell = Callable[[str], object]
"""Told what is being done."""


@dataclass(frozen=True, slots=True)
class NodePlan:
    """Which parts of the benchmark are run, against which rivals, and how large they are."""

    parts: Sequence[str] = PARTS
    events: int = 20_000
    """Of a run that goes as fast as it can."""
    repeat: int = 3
    rivals: Sequence[str] = RIVALS
    nodes: int = 10
    """Of the network in which a lossless rate is looked for."""
    trial_s: float = 3.0
    """How long a rate must be kept up, in seconds."""
    refine: int = 3
    """How often the highest rate is looked for between one that was kept up and one that was not."""
    period_s: float = 1.0
    """Of gossip, in seconds."""

    def __post_init__(self) -> None:
        for given, known in ((self.parts, PARTS), (self.rivals, RIVALS)):
            for name in given:
                if name not in known:
                    raise InputError(f"the benchmark does not know {name!r}: {', '.join(known)}")


def bench_node(plan: NodePlan, tell: Tell = lambda text: None) -> Iterator[Result]:
    """All figures, one part after the other."""
    if not COMPILED:
        yield Result("rules", "plain Python", 0.0, "compiled", False)
    for part, measure in (("two", _two), ("ten", _ten)):
        if part in plan.parts:
            try:
                yield from run(measure(plan, tell))
            except AbsentError as error:
                raise Bug(f"the benchmark of our own failed: {error}") from None


def _member(**settings: Any) -> list[str]:
    return [sys.executable, "-m", "vinecast.lab.bench.member", json.dumps(settings)]


# Two nodes.


async def _two(plan: NodePlan, tell: Tell) -> list[Result]:
    tell("two nodes: starting")
    commands = [_member(reads=reads, period_s=plan.period_s) for reads in (False, True)]
    single, hands, calm = [], [], []
    async with Team.gather(commands) as team:
        await team.warm_up(min(plan.events, 2 * CALM_RATE), CALM_RATE)
        for i in range(plan.repeat):
            tell(f"two nodes: round {i + 1} of {plan.repeat}")
            single.append(await team.trial(plan.events))
            hands.append(await team.trial(plan.events, hand=HAND_MAX))
            await team.quiet()
            calm.append(await team.trial(min(plan.events, 2 * CALM_RATE), rate=CALM_RATE, timed=True))
    what = f"two nodes, {PAYLOAD_BYTES}-byte events, signed"
    lost = sum(trial.events - trial.deliveries for trial in (*single, *hands, *calm))
    p50, p99 = _median(trial.p50_ms for trial in calm), _median(trial.p99_ms for trial in calm)
    told = f"median {p50:.2f} ms, 99 of 100 within {p99:.2f} ms; {_cpu(calm)}"
    return [
        _rate(f"{what}, one by one", single, ONE_BY_ONE_MIN),
        _rate(f"{what}, {HAND_MAX} in hand", hands, IN_HAND_MIN),
        Result(
            f"{what}, {CALM_RATE:,} a second: latency", told, p50, f"≤ {P50_MS_MAX:g} ms", p50 <= P50_MS_MAX
        ),
        Result(f"{what}: events lost", f"{lost:,}", lost, "0", lost == 0),
    ]


# Ten nodes.


async def _ten(plan: NodePlan, tell: Tell) -> list[Result]:
    commands: dict[str, list[str]] = {"vinecast": _member(reads=True, period_s=plan.period_s)}
    absent: dict[str, str] = {}
    for name, find in (("py-libp2p", py_libp2p), ("js-libp2p", js_libp2p)):
        if name in plan.rivals:
            tell(f"{name}: looking for it")
            try:
                commands[name] = find()
            except AbsentError as error:
                absent[name] = str(error)
    found: dict[str, list[Trial]] = {name: [] for name in commands}
    for i in range(plan.repeat):
        for name, command in commands.items():
            if name not in absent:
                tell(f"{plan.nodes} nodes, {name}: round {i + 1} of {plan.repeat}")
                try:
                    found[name].append(await _lossless(plan, name, command, tell))
                except AbsentError as error:
                    if name == "vinecast":
                        raise
                    absent[name] = str(error)
    what = f"{plan.nodes} nodes in {plan.nodes} processes, {PAYLOAD_BYTES}-byte events, signed: lossless rate"
    rows = [_rate(what, found["vinecast"])]
    for name in plan.rivals:
        if name in absent:
            rows.append(_not_measured(f"{what}, {name}'s gossipsub", absent[name]))
        elif name in found:
            theirs = _rate(f"{what}, {name}'s gossipsub", found[name])
            rows += [theirs, _ratio(f"{what}, against {name}", rows[0], theirs, RATIO_MIN[name])]
    return rows


async def _lossless(plan: NodePlan, name: str, command: list[str], tell: Tell) -> Trial:
    """The highest rate at which everybody gets everything."""
    first = FIRST_RATE[name]
    async with Team.gather([command] * plan.nodes) as team:
        await team.warm_up(math.ceil(first * min(WARM_S, plan.trial_s)), first)

        def attempt(rate: float) -> Any:
            tell(f"{plan.nodes} nodes, {name}: {rate:,.0f} events a second")
            return team.trial(math.ceil(rate * plan.trial_s), rate=rate, late_s=LATE_S)

        trial = await highest_rate(attempt, first, refine=plan.refine, rest=team.quiet)
    if trial is None:
        raise AbsentError("it loses events at one a second")
    return trial


# Lines.


def _rate(what: str, trials: Sequence[Trial], target: float = 0.0) -> Result:
    value = _median(trial.rate for trial in trials)
    measured = f"{_among([trial.rate for trial in trials])} events a second; {_cpu(trials)}"
    if not target:
        return Result(what, measured, value)
    meets = value >= target and all(trial.lossless for trial in trials)
    return Result(what, measured, value, f"≥ {target:,.0f}", meets)


def _ratio(what: str, ours: Result, theirs: Result, least: float) -> Result:
    ratio = ours.value / theirs.value
    return Result(what, f"{ratio:.3g} times", ratio, f"≥ {least:g} times", ratio >= least)


def _not_measured(what: str, why: str) -> Result:
    return Result(what, f"not measured: {why}", float("nan"))


def _among(values: Sequence[float]) -> str:
    """The median, and where the others lie."""
    text = f"{_median(values):,.0f}"
    return text if len(values) == 1 else f"{text} ({min(values):,.0f} … {max(values):,.0f})"


def _cpu(trials: Sequence[Trial]) -> str:
    cpu_us = _median(trial.cpu_us for trial in trials)
    return f"{f'{cpu_us:.3g} µs' if cpu_us < 1000 else f'{cpu_us / 1000:.3g} ms'} of CPU a delivery"


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)
