"""What is done to processes that have durable streams, claim by claim (PU-1 … PU-6); they are
``lab/localnet/durable``'s.

A kind of run is a function of a size and a seed. What is drawn (who publishes, who is killed) comes from the
seed; when it happens, and what processes make of it, is the machine's.
"""

import asyncio
import signal
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from vinecast.core.log.name_record import decode_name
from vinecast.lab.localnet.durable import CONTACTS, DurableRun, LiveSize
from vinecast.lab.localnet.durable_attacks import KINDS as ATTACKS
from vinecast.lab.localnet.durable_attacks import NAMES
from vinecast.lab.localnet.hostile import attacker_process
from vinecast.lab.localnet.ledger import NETWORK, TOPIC, LedgerOutcome
from vinecast.lab.localnet.messages import Attack, CreateTopic, CutConnections, Safe, Shown, ShowTopic
from vinecast.node.runtime.loop import run as run_loop

SIZES = {"small": LiveSize(), "paper": LiveSize(nodes=10, events=1000, kills=12, rounds=3, patience_s=240.0)}
PUBLISHERS = 2  # ours: that die, where the claim is about publishers that are gone
CUT_OFF = 2  # ours: nodes whose connections break for each process that is killed
STRUCK_AFTER = 10  # ours: receipts that have come when an event's holders are killed
ATTACKER = "vinecast.lab.localnet.durable_attacks"
NAMED, BELOW = "named", "named/more"  # topics that have an owner


async def restarts(size: LiveSize, seed: int) -> LedgerOutcome:
    """PU-1: processes are killed one by one, connections break, and then all processes are killed at once,
    all while events are published; everybody comes back."""
    async with DurableRun(size, seed, holders=1) as run:
        nodes, cut_off = list(range(size.nodes)), 0
        await run.start_all(nodes)
        async with run.publishing(nodes):
            for _ in range(size.kills):
                await run.ordered_more(size.events // (size.kills + 1))
                victim = run.draw.choice(nodes)
                await run.kill(victim)
                for other in run.draw.sample(run.up, CUT_OFF):
                    await run.tell(CutConnections(other))
                    cut_off += 1
                await run.revive(victim)
            await run.ordered_more(size.events // (size.kills + 1))
            await run.kill(*nodes)
            await run.revive(*nodes)
            await run.ordered_more(size.hand)
        run.mark()
        run.outcome.noted["cut_off"] = cut_off
        await run.converge(enough=0)
        return await run.finish(enough=0)


async def deaths(size: LiveSize, seed: int) -> LedgerOutcome:
    """PU-2: at the moment of the k-th acknowledgement an event's publisher and k − 1 of those who hold it are
    killed for good. Nobody has read the topic; then somebody comes and does."""
    enough = size.holders
    async with DurableRun(size, seed, holders=enough) as run:
        nodes, newcomer = list(range(size.nodes)), size.nodes
        await run.spawn([*nodes, newcomer])
        for number in nodes:
            await run.start(number, reads=False)
        publisher = run.draw.choice(nodes)
        struck: list[int] = []

        def strike(safe: Safe) -> None:
            if struck or safe.holders < enough or len(run.ledger.receipts) < STRUCK_AFTER:
                return
            holders = [run.number_at(point) for point in safe.held_by]
            struck.extend([publisher, *run.draw.sample(holders, enough - 1)])
            for number in struck:
                run.kill_now(number)

        run.on_safe = strike
        async with run.publishing([publisher]):
            await run.until(lambda: bool(struck), f"an event that {enough} others hold")
        await run.kill(*struck)
        await run.start(newcomer)
        run.mark()
        await run.converge(enough)
        return await run.finish(enough)


async def partition(size: LiveSize, seed: int) -> LedgerOutcome:
    """PU-3: two groups that have never heard of each other publish on the same topic, and one of each is
    killed and comes back; then somebody joins both. After that each half is stopped for a while, in turns,
    and the other publishes."""
    async with DurableRun(size, seed, holders=1) as run:
        middle, between = size.nodes // 2, size.nodes
        halves = [list(range(middle)), list(range(middle, size.nodes))]
        await run.spawn(range(size.nodes + 1))
        for half in halves:
            for i, number in enumerate(half):
                await run.start(number, join=half[:i][:CONTACTS])
        await run.ready()
        for half in halves:
            await run.publish_on(half, size.events // 4)
            await run.kill(half[-1])
            await run.revive(half[-1], join=half[:1])
        run.mark()
        await run.start(between, join=[half[0] for half in halves])
        run.outcome.noted["groups_met_s"] = await run.converge(enough=0)
        halves[1].append(between)
        for stopped, others in (halves, halves[::-1]):
            for number in stopped:
                run.processes.signal(number, signal.SIGSTOP)
            await run.publish_on(others, size.events // 4)
            for number in stopped:
                run.processes.signal(number, signal.SIGCONT)
        run.mark()
        run.outcome.noted["stopped_in_turns_s"] = await run.converge(enough=0)
        return await run.finish(enough=0)


async def absence(size: LiveSize, seed: int) -> LedgerOutcome:
    """PU-4: a process is killed, others publish and are killed for good; then the first comes back."""
    enough = size.holders
    async with DurableRun(size, seed, holders=enough) as run:
        nodes = list(range(size.nodes + 1))
        await run.start_all(nodes)
        await run.publish_on(nodes, size.events // 4)
        absent, *publishers = run.draw.sample(nodes, 1 + min(PUBLISHERS, enough))
        await run.kill(absent)
        before = run.ledger.ordered
        await run.publish_on(publishers, size.events)
        await run.kill(*publishers)
        run.outcome.noted["missed"] = run.ledger.ordered - before
        run.mark()
        await run.revive(absent)
        await run.converge(enough)
        return await run.finish(enough)


async def hostile(size: LiveSize, seed: int) -> LedgerOutcome:
    """PU-6: another process lies to nodes in every way that it knows while they publish, and stores false
    name records over an owner's. One of the nodes is killed then, and comes back with what it kept."""
    async with DurableRun(size, seed, holders=1) as run:
        nodes = list(range(size.nodes))
        await run.start_all(nodes)
        *others, owner = nodes
        old = (await run.ask(CreateTopic(owner, NAMED, ""), Shown)).record
        newest = decode_name((await run.ask(CreateTopic(owner, BELOW, NAMED), Shown)).record)
        tried: Counter[str] = Counter()
        async with run.publishing(nodes), attacker_process(NETWORK, seed, ATTACKER) as attacker:
            await run.ordered_more(size.events // 2)
            for i, kind in enumerate(ATTACKS):
                for victim in others if kind == NAMES else [others[i % len(others)]]:
                    order = Attack(kind, run.address_of(victim), run.address_of(owner), TOPIC, old)
                    tried[kind] += await attacker.attack(order)
            await run.hear_all()
            await run.kill(others[0])
            await run.revive(others[0])
            await run.ordered_more(size.events // 2)
        run.mark()
        await run.converge(enough=0)
        looking = (run.ask(ShowTopic(number, NAMED, newest.owner), Shown) for number in others)
        found = [decode_name(shown.record) for shown in await asyncio.gather(*looking)]
        replaced = sum((one.sequence, one.value) != (newest.sequence, newest.value) for one in found)
        run.outcome.faults += [f"{kind}: never tried" for kind in ATTACKS if not tried[kind]]
        run.outcome.noted |= {"tried": tried.total(), "names_replaced": replaced}
        return await run.finish(enough=0)


KINDS: dict[str, Callable[[LiveSize, int], Coroutine[Any, Any, LedgerOutcome]]] = {
    "PU-1": restarts,
    "PU-2": deaths,
    "PU-3": partition,
    "PU-4": absence,
    "PU-6": hostile,
}


def run_live(kind: str, scale: str, seed: int) -> LedgerOutcome:
    """All rounds of a claim's live half, taken together."""
    size, total = SIZES[scale], LedgerOutcome()
    for number in range(size.rounds):
        try:
            _add(total, run_loop(KINDS[kind](size, seed * size.rounds + number)))
        except TimeoutError as error:
            total.faults.append(str(error) or "a node did not answer")
    return total


def _add(total: LedgerOutcome, one: LedgerOutcome) -> None:
    total.faults += one.faults
    total.trouble += one.trouble
    for name in ("processes", "killed", "published", "acknowledged", "delivered"):
        setattr(total, name, getattr(total, name) + getattr(one, name))
    total.converged_s = max(total.converged_s, one.converged_s)
    total.refused = dict(Counter(total.refused) + Counter(one.refused))
    for name, value in one.noted.items():
        worse = max(value, total.noted.get(name, value)) if name.endswith("_s") else None
        total.noted[name] = value + total.noted.get(name, 0) if worse is None else worse
