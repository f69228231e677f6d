"""The runs: everybody in every scenario, in turns, so that a machine's mood meets all of them alike.

For each turn, each group of scenarios with as many publishers and subscribers, and each contender, processes
and server are started anew, warmed up, measured, and ended before the next contender's turn.
"""

import asyncio
import contextlib
import itertools
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vinecast.lab.bench.rivals.plan import Contender, RivalPlan, RivalScenario
from vinecast.lab.bench.rivals.server import mosquitto, nats_server, program, redis_server
from vinecast.lab.bench.rivals.team import RivalRun, RivalTeam
from vinecast.lab.bench.team import AbsentError, need_package
from vinecast.node.runtime.config import NodeConfig
from vinecast.node.runtime.warm_up import warm_up

Tell = Callable[[str], object]
"""Told what is being done."""

Part = tuple[RivalScenario, str]
"""A scenario, and the name of a contender."""
SERVERS = {"nats": nats_server, "redis": redis_server, "mosquitto": mosquitto}
PROGRAMS = {
    "nats": ("nats-server", "nats-server", "bench"),
    "redis": ("redis-server", "Redis"),
    "mosquitto": ("mosquitto", "Mosquitto"),
}


@dataclass(slots=True)
class RivalOutcome:
    """All that was measured."""

    runs: dict[Part, dict[int, RivalRun]] = field(default_factory=lambda: defaultdict(dict))
    """By scenario and contender: the run of each turn."""
    absent: dict[str, str] = field(default_factory=dict)
    """Contenders that cannot be had here, and why not."""
    failed: dict[Part, str] = field(default_factory=dict)
    """Scenarios in which a contender failed, and how."""


async def measure(plan: RivalPlan, tell: Tell = lambda text: None) -> RivalOutcome:
    """All turns of all contenders."""
    outcome = RivalOutcome()
    for contender in plan.contenders():
        try:
            _look_for(contender)
        except AbsentError as error:
            outcome.absent[contender.name] = str(error)
    tell("compiling the rules of our nodes, if they are not yet")
    await asyncio.to_thread(warm_up, NodeConfig())
    groups = [list(group) for _, group in itertools.groupby(plan.scenarios(), _sizes)]
    for turn, group in itertools.product(range(plan.repeat), groups):
        for contender in plan.contenders():
            if contender.name not in outcome.absent:
                tell(f"turn {turn + 1} of {plan.repeat}, {contender.title}: {group[0].title} …")
                await _turn(plan, contender, group, outcome, turn)
    return outcome


def _sizes(scenario: RivalScenario) -> tuple[int, int]:
    return scenario.publishers, scenario.subscribers


def _look_for(contender: Contender) -> None:
    """AbsentError if something of it is not installed."""
    if contender.package is not None:
        need_package(*contender.package)
    if contender.kind in PROGRAMS:
        program(*PROGRAMS[contender.kind])


async def _turn(
    plan: RivalPlan, contender: Contender, group: Sequence[RivalScenario], outcome: RivalOutcome, turn: int
) -> None:
    """The scenarios of a group, one after the other; after a failure the rest with new processes. What failed
    is not tried again."""
    left = [scenario for scenario in group if (scenario, contender.name) not in outcome.failed]
    while left:
        started = False
        try:
            async with _gather(plan, contender, left[0]) as team:
                started = True
                while left:
                    run = await team.measure(plan.events_of(left[0]), hand=left[0].hand, rate=left[0].rate)
                    outcome.runs[left[0], contender.name][turn] = run
                    left.pop(0)
                    await team.quiet()
        except AbsentError as error:
            for scenario in left[: 1 if started else None]:
                outcome.failed[scenario, contender.name] = str(error)
                left.remove(scenario)


@contextlib.asynccontextmanager
async def _gather(plan: RivalPlan, contender: Contender, scenario: RivalScenario) -> AsyncIterator[RivalTeam]:
    """A contender's processes, ready for a scenario, and its server if it has one."""
    async with contextlib.AsyncExitStack() as ends:
        beside = tempfile.TemporaryDirectory(prefix="vinecast-bench-", dir=plan.folder)
        folder = Path(ends.enter_context(beside))
        address, process = "", None
        if contender.kind in SERVERS:
            serve = SERVERS[contender.kind](folder, contender.durable)
            address, process = await ends.enter_async_context(serve)
        commands = []
        for i in range(scenario.publishers + scenario.subscribers):
            settings = {
                "reads": i >= scenario.publishers, "durable": contender.durable, "server": address,
                "folder": str(folder / f"node-{i}"), "period_s": plan.period_s,
            }  # fmt: skip
            module = "vinecast.lab.bench.rivals.process"
            commands.append([sys.executable, "-m", module, contender.kind, json.dumps(settings)])
        team = await ends.enter_async_context(RivalTeam.gather(commands, process))
        team.publishers = scenario.publishers
        await team.warm_up()
        yield team
