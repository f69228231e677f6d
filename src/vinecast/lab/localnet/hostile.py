"""Somebody attacks a local network while its nodes publish: what becomes of deliveries and memory.

The attacker is a process of its own (``lab/localnet/attacks``) with real sockets. It is told one kind of
attack after the other, each on one of a few nodes that share a process. After each, that process is asked
what it has refused, so that refusals stand beside the attack that they answer.
"""

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vinecast.core.errors import VinecastError
from vinecast.lab.localnet.attacks import KINDS
from vinecast.lab.localnet.messages import Attack, attacked_decoder, line

if TYPE_CHECKING:
    from vinecast.lab.localnet.network import LocalNetwork
    from vinecast.lab.localnet.tally import NetMember

PROCESS = 0  # the nodes of this one are attacked
VICTIMS = 3  # ours: so many of them, in turns
BEFORE_CYCLES = 4  # ours: publishing for so long before the first attack
AFTER_CYCLES = 4  # ours: … and after the last
REPORTS = 2  # the first one after an attack may have been written before its end


class AttackerGoneError(VinecastError):
    """The attacker's process ended."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attack, and what the attacked process refused meanwhile."""

    kind: str
    node: int
    tried: int
    begin_s: float
    end_s: float
    refused: Counter[str]


class HostileRun:
    """All attacks on a network. ``attempts``: those that are over; ``doing``: the one that is not."""

    NAME = "hostile"

    def __init__(self, network: "LocalNetwork") -> None:
        self.attempts: list[Attempt] = []
        self.doing = ""
        self.done = asyncio.Event()
        self._network = network
        self._before_bytes = 0

    async def run(self) -> None:
        """Wait, attack in every way, wait."""
        network, tally = self._network, self._network.tally
        await network.started.wait()
        await asyncio.sleep(BEFORE_CYCLES * network.config.period_s)
        self._before_bytes = tally.reports[PROCESS].resident_bytes
        tally.highest_bytes.clear()
        victims = [tally.members[number] for number in network.numbers_of(PROCESS)[:VICTIMS]]
        try:
            async with attacker_process(network.config.network, network.config.seed) as attacker:
                for i, kind in enumerate(KINDS):
                    other = tally.members[-1].address
                    await self._attempt(attacker, kind, victims[i % len(victims)], other)
        except AttackerGoneError as error:
            network.note_trouble(str(error))
        self.doing = ""
        await asyncio.sleep(AFTER_CYCLES * network.config.period_s)
        self.done.set()

    async def _attempt(self, attacker: "AttackerProcess", kind: str, victim: "NetMember", other: str) -> None:
        network = self._network
        self.doing, begin_s, before = kind, network.elapsed_s, self._refused()
        tried = await attacker.attack(Attack(kind, victim.address, other, victim.topics[0]))
        end_s = network.elapsed_s
        await network.hear_from(PROCESS, REPORTS)
        refused = self._refused() - before
        self.attempts.append(Attempt(kind, victim.number, tried, begin_s, end_s, refused))

    def _refused(self) -> Counter[str]:
        return Counter(self._network.tally.reports[PROCESS].refused)

    def summary(self) -> dict[str, Any]:
        """What came of it. Deliveries are those among the network's own nodes."""
        tally, attempts = self._network.tally, self.attempts
        begin_s = attempts[0].begin_s if attempts else float("inf")
        end_s = attempts[-1].end_s if attempts else float("inf")
        after = tally.reports.get(PROCESS)
        return {
            "finished": len(attempts) == len(KINDS),
            "attacked_nodes": sorted({one.node for one in attempts}),
            "attacks": [
                {
                    "kind": one.kind,
                    "node": one.node,
                    "tried": one.tried,
                    "seconds": round(one.end_s - one.begin_s, 3),
                    "refused": dict(one.refused),
                    "deliveries": tally.between(one.begin_s, one.end_s),
                }
                for one in attempts
            ],
            "deliveries": tally.between(begin_s, end_s),
            "deliveries_afterwards": tally.between(end_s, float("inf")),
            "refused": dict(sum((one.refused for one in attempts), Counter())),
            "resident_mb": {
                "before": round(self._before_bytes / 1e6, 1),
                "highest": round(tally.highest_bytes.get(PROCESS, 0) / 1e6, 1),
                "after": round(after.resident_bytes / 1e6, 1) if after else 0.0,
            },
        }


class AttackerProcess:
    """The attacker's process, seen from the parent."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def attack(self, order: Attack) -> int:
        """Let it attack; how often it tried."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(line(order))
        text = await stdout.readline()
        if not text:
            raise AttackerGoneError(f"the attacker ended by itself (attack: {order.kind})")
        return attacked_decoder.decode(text).tried


@contextlib.asynccontextmanager
async def attacker_process(
    network: str, seed: int, module: str = "vinecast.lab.localnet.attacks"
) -> AsyncIterator[AttackerProcess]:
    """Its process, for as long as it is needed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, network, str(seed)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C on the terminal is for the parent alone
    )
    try:
        yield AttackerProcess(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
