"""Name records under attack (PU-6): an owner renews its topic's record, a hostile node stores others over it.

The table is Kademlia with the checker of name records as its validator. The hostile node stores, wherever it
can, the owner's old record again, records that it signed itself, records under the wrong key and bytes that
are no record. Everybody who looks the name up afterwards must find the owner's newest.
"""

from dataclasses import dataclass, field

from vinecast.core.circle import simulated_ids
from vinecast.core.draws import below, purpose, stream
from vinecast.core.events import Effect, Event, Send, SetTimer, Start, TimerFired
from vinecast.core.log.blocks import cid_of
from vinecast.core.log.name_record import NameChecker, encode_name, name_key, sign_name
from vinecast.core.machine import SECOND_US, Machine
from vinecast.protocols.kademlia import Kademlia, KademliaConfig, KademliaStore
from vinecast.sim.engine.engine import EventEngine
from vinecast.sim.engine.network import Network, NetworkConfig
from vinecast.sim.measure.overlay import random_views
from vinecast.systems.durable.simulated import NETWORK, cheap_sign, cheap_verify, public_key

TOPIC = "sports"
PUT_S, RENEW_S, LOOK_S, END_S = 2, 4, 8, 11
"""When the owner publishes its record and a newer one, when all look it up, and when that is over."""
ATTACK_US = 250_000
RENEW, ATTACK, LOOK = "names.renew", "names.attack", "names.look"

_ATTACK = purpose("names.attack")


@dataclass(slots=True)
class NamesOutcome:
    """What became of a run."""

    faults: list[str] = field(default_factory=list)
    looked_up: int = 0
    counters: dict[str, int] = field(default_factory=dict)


class _Owner:
    """The records of one run. Node 0 is the owner."""

    def __init__(self) -> None:
        self.key = name_key(public_key(0), TOPIC)
        self.old, self.new = (self._record(0, sequence) for sequence in (1, 2))

    def _record(self, signer: int, sequence: int, topic: str = TOPIC) -> bytes:
        value = cid_of(b"%d" % sequence)
        sign = cheap_sign(public_key(signer))
        return encode_name(sign_name(NETWORK, topic, public_key(0), value, sequence, 0, sign))

    def lies(self, enemy: int) -> tuple[bytes, ...]:
        """What a hostile node stores under the name."""
        return (self.old, self._record(enemy, 9), self._record(0, 9, "another"), b"no record", self.new[:-1])


class _NamesMember:
    """A node of the table, which does what its part is when its time comes."""

    def __init__(self, owner: _Owner, table: Kademlia, enemy: int, seed: int) -> None:
        self.table = table
        self.found: list[bytes] = []
        self._owner = owner
        self._enemy = enemy
        self._seed = seed
        self._attacks = 0

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        effects: list[Effect] = []
        match event:
            case TimerFired(name) if name == RENEW:
                record = self._owner.old if now_us < RENEW_S * SECOND_US else self._owner.new
                effects += self.table.put(self._owner.key, record, now_us)
            case TimerFired(name) if name == LOOK:
                effects += self.table.get(self._owner.key, now_us)
            case TimerFired(name) if name == ATTACK:
                effects += [SetTimer(ATTACK, ATTACK_US), *self._attack()]
            case _:
                effects += self.table.handle(event, now_us)
        if isinstance(event, Start):
            effects += self._plan()
        self.found += [found.value for found in self.table.take_results() if found.key == self._owner.key]
        return effects

    def _plan(self) -> list[Effect]:
        me = self.table.me
        if me == self._enemy:
            return [SetTimer(ATTACK, ATTACK_US)]
        plan: list[Effect] = [SetTimer(LOOK, LOOK_S * SECOND_US)]
        return plan + ([SetTimer(RENEW, s * SECOND_US) for s in (PUT_S, RENEW_S)] if me == 0 else [])

    def _attack(self) -> list[Effect]:
        self._attacks += 1
        lies, peers = self._owner.lies(self._enemy), len(self.table.buckets.keys)
        key = stream(self._seed, _ATTACK, self._attacks, self._enemy)
        return [
            Send(
                (self._enemy + 1 + below(key, 2 * i, peers - 1)) % peers,
                KademliaStore(
                    self._attacks, self._owner.key, lies[below(key, 2 * i + 1, len(lies))], 1 << 40
                ),
            )
            for i in range(8)
        ]


def attacked_names(seed: int, nodes: int = 10) -> NamesOutcome:
    """One run."""
    owner, ids = _Owner(), simulated_ids(seed, nodes)
    enemy = 1 + seed % (nodes - 1)
    config = KademliaConfig(nearest=4, period_s=2.0, timeout_s=0.25)
    members: dict[int, _NamesMember] = {}

    def make(node: int) -> Machine:
        table = Kademlia(config, seed, node, ids, NameChecker(cheap_verify, NETWORK))
        members[node] = _NamesMember(owner, table, enemy, seed)
        return members[node]

    engine = EventEngine(make, nodes, seed, Network(NetworkConfig(latency_ms=20.0), seed, nodes))
    for node, known in enumerate(random_views(seed, nodes, 3).tolist()):
        engine.start(node, 0, tuple(known))
    engine.run(END_S * SECOND_US)
    outcome = NamesOutcome()
    for node, member in members.items():
        looked_up = [value for value in member.found if node not in (0, enemy)]
        outcome.looked_up += len(looked_up)
        outcome.faults += [f"node {node} found another record" for value in looked_up if value != owner.new]
        if node not in (0, enemy) and not looked_up:
            outcome.faults.append(f"node {node} found nothing")
    outcome.counters = {
        name: sum(n for node, n in enumerate(counts) if node != enemy)
        for name, counts in sorted(engine.counters.items())
    }
    return outcome
