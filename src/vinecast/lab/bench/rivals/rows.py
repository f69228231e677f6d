"""The comparison as rows: what everybody came to in every scenario, and Vinecast against each rival.

The median of the turns counts; the lowest and the highest stand behind it. A ratio is that of one turn, so
that what slowed the machine down for a while is in both of its numbers.
"""

import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from vinecast.lab.bench.rivals.measure import RivalOutcome, Tell, measure
from vinecast.lab.bench.rivals.plan import Contender, RivalPlan, RivalScenario
from vinecast.lab.bench.rivals.team import RivalRun
from vinecast.node.runtime.loop import run

FAST = ("scenario", "who", "deliveries a second", "CPU a delivery", "lost")
PACED = (
    *FAST[:3], "delivery p50", "delivery p99", "receipt p50", "receipt p99", *FAST[3:]
)  # fmt: skip
"""The headings of the two tables."""
RATE, CPU, LOST = "deliveries_a_second", "cpu_us_a_delivery", "lost_percent"
LATENCIES = ("delivery_p50_ms", "delivery_p99_ms", "receipt_p50_ms", "receipt_p99_ms")
"""The names of numbers, where they are not words."""


@dataclass(frozen=True, slots=True)
class Spread:
    """What the turns came to."""

    median: float
    lowest: float
    highest: float


@dataclass(frozen=True, slots=True)
class RivalRow:
    """One contender in one scenario, or Vinecast against a rival."""

    scenario: str
    paced: bool
    who: str
    against: str = ""
    """The rival, if the numbers are Vinecast's divided by the rival's."""
    numbers: Mapping[str, Spread] = field(default_factory=dict)
    note: str = ""
    """Why there are no numbers, or why a run ended early."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def cells(self) -> tuple[str, ...]:
        """For its table."""
        who = f"{self.who} against {self.against}" if self.against else self.who
        blanks = ("",) * (len(PACED if self.paced else FAST) - 3)
        if not self.numbers:
            return (self.scenario, who, self.note, *blanks)
        units = {RATE: "", CPU: "µs", LOST: "%"}
        keys = (RATE, *(LATENCIES if self.paced else ()), CPU, LOST)
        texts = [
            _text(self.numbers.get(key), "times" if self.against else units.get(key, "ms")) for key in keys
        ]
        if self.note:
            texts[-1] += f"; {self.note}"
        return (self.scenario, who, *texts)


def bench_rivals(plan: RivalPlan, tell: Tell = lambda text: None) -> list[RivalRow]:
    """Measure everybody, and say what came of it."""
    return list(rows_of(plan, run(measure(plan, tell))))


def rows_of(plan: RivalPlan, outcome: RivalOutcome) -> Iterator[RivalRow]:
    """All rows, scenario by scenario; at the end those who cannot be had."""
    contenders = plan.contenders()
    for scenario in plan.scenarios():
        for contender in contenders:
            if contender.name not in outcome.absent:
                yield _row(scenario, contender, outcome)
        for ours in (one for one in contenders if one.is_ours):
            for rival in (one for one in contenders if not one.is_ours and one.durable == ours.durable):
                yield from _against(scenario, ours, rival, outcome)
    for contender in contenders:
        if contender.name in outcome.absent:
            note = f"not measured: {outcome.absent[contender.name]}"
            paced = all(scenario.rate for scenario in plan.scenarios())
            yield RivalRow("all", paced, contender.title, note=note)


def _row(scenario: RivalScenario, contender: Contender, outcome: RivalOutcome) -> RivalRow:
    runs = outcome.runs.get((scenario, contender.name), {})
    failure = outcome.failed.get((scenario, contender.name), "")
    note = next((_early(one) for one in runs.values() if one.why), failure and f"not measured: {failure}")
    if runs and failure:
        note = f"in one turn: {failure}"
    numbers = _spreads([_numbers(one, contender.durable) for one in runs.values()])
    return RivalRow(scenario.title, bool(scenario.rate), contender.title, numbers=numbers, note=note)


def _early(one: RivalRun) -> str:
    return f"publishing ended after {one.published:,} of {one.planned:,} events: {one.why}"


def _against(
    scenario: RivalScenario, ours: Contender, rival: Contender, outcome: RivalOutcome
) -> Iterator[RivalRow]:
    """One row, if there was a turn that both of them had."""
    mine, other = (outcome.runs.get((scenario, one.name), {}) for one in (ours, rival))
    ratios = []
    for turn in sorted(mine.keys() & other.keys()):
        numbers = _numbers(mine[turn], ours.durable), _numbers(other[turn], rival.durable)
        ratios.append({key: _ratio(numbers[0][key], numbers[1][key]) for key in numbers[0] if key != LOST})
    if ratios:
        title = scenario.title
        yield RivalRow(title, bool(scenario.rate), ours.title, rival.title, _spreads(ratios))


def _numbers(one: RivalRun, durable: bool) -> dict[str, float]:
    numbers = {RATE: one.rate, CPU: one.cpu_us, LOST: 100 * one.lost}
    for percent in (50, 99):
        numbers[f"delivery_p{percent}_ms"] = one.took_ms(percent)
        numbers[f"receipt_p{percent}_ms"] = one.receipt_ms(percent) if durable else math.nan
    return numbers


def _ratio(ours: float, theirs: float) -> float:
    return ours / theirs if theirs else math.nan


def _spreads(turns: list[dict[str, float]]) -> dict[str, Spread]:
    """Of what was measured in at least one turn."""
    found = {}
    for key in turns[0] if turns else ():
        values = [turn[key] for turn in turns if math.isfinite(turn[key])]
        if values:
            found[key] = Spread(statistics.median(values), min(values), max(values))
    return found


def _text(spread: Spread | None, unit: str) -> str:
    """The median, and where the others lie."""
    if spread is None:
        return ""
    text, low, high = (_short(value) for value in (spread.median, spread.lowest, spread.highest))
    text = f"{text} {unit}".strip()
    return text if low == high else f"{text} ({low} … {high})"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
