"""Name records under attack (PU-6): an owner renews its topic's record, a hostile node stores others over it.

Whole peers, which put and get records as the application of a live node does (``node/api/topic_names``). The
hostile node stores, wherever it can, the owner's old record again, records that it signed itself, and bytes
that are no record, and answers lookups with them. Everybody who looks the name up must find the owner's
newest.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from vinecast.core.log.blocks import cid_of
from vinecast.core.log.name_record import encode_name, name_key, sign_name
from vinecast.core.log.retention import Retention
from vinecast.lab.campaign.draw import Chance
from vinecast.peer import inputs as given
from vinecast.peer import outputs as asked
from vinecast.peer.config import PeerConfig
from vinecast.protocols.kademlia import Found, Operation
from vinecast.sim.peers.disk import DiskConfig
from vinecast.sim.peers.links import LinkConfig
from vinecast.sim.peers.node import SimulatedNode
from vinecast.sim.peers.world import PeerWorld, Unobserved

NETWORK, TOPIC = "campaign", "sports"
LIE = "name records, old and forged"
BEGIN_S, PUT_S, RENEW_S, LOOK_S, END_S = 0.5, 4.0, 8.0, 14.0, 30.0
"""Until when all come up, when the owner publishes its record and a newer one, when all look it up, and when
that is over."""
OWNER = 0


@dataclass(slots=True)
class NamesOutcome:
    """What became of a run."""

    seed: int
    faults: list[str] = field(default_factory=list)
    looked_up: int = 0
    counters: dict[str, int] = field(default_factory=dict)


class _Answers(Unobserved):
    """Notes what nodes were answered."""

    def __init__(self) -> None:
        self.found: dict[int, list[bytes]] = {}
        """Node → what it found."""

    def after(self, node: SimulatedNode, what: given.PeerInput, outputs: list[asked.PeerOutput]) -> None:
        for output in outputs:
            match output:
                case asked.Answered(_, Found(operation=Operation.GET, value=value)):
                    self.found.setdefault(node.number, []).append(value)


class _NameRun:
    """One run."""

    def __init__(self, seed: int, nodes: int) -> None:
        self.answers = _Answers()
        self.world = PeerWorld(seed, LinkConfig(), self.answers)
        self.enemy = 1 + seed % (nodes - 1)
        chance = Chance(seed)
        for node in range(nodes):
            self.world.add(
                PeerConfig(peers=64, topics=256),
                lies=(LIE,) if node == self.enemy else (),
                topics=(TOPIC,),
                network=NETWORK,
                disk=DiskConfig(),
                retention=Retention(),
            )
            known = chance.some([other for other in range(nodes) if other != node], 3)
            self.world.at_s(chance.between(0, BEGIN_S), self.world.start, node, known)
        owner = self.world.nodes[OWNER].setup.identity
        self.key = name_key(owner.public, TOPIC)
        self.records: list[bytes] = []
        for at_s in (PUT_S, RENEW_S):
            self.world.at_s(at_s, self._renew)
        for node in self.honest():
            self.world.at_s(LOOK_S, self._ask, node, partial(_look_up, self.key))

    def honest(self) -> list[int]:
        """Who plays fair, and is not the owner."""
        return [node.number for node in self.world.nodes if node.number not in (OWNER, self.enemy)]

    def _ask(self, node: int, make: Callable[[int], given.PeerCommand]) -> None:
        self.world.nodes[node].ask(make)

    def _renew(self) -> None:
        """The owner publishes a new record."""
        owner, number = self.world.nodes[OWNER].setup.identity, 1 + len(self.records)
        value = cid_of(b"%d" % number)
        record = sign_name(NETWORK, TOPIC, owner.public, value, number, self.world.now_us, owner.sign)
        self.records.append(encode_name(record))
        self._ask(OWNER, partial(_put, self.key, self.records[-1]))

    def run(self) -> NamesOutcome:
        """See what is found."""
        self.world.run(END_S)
        outcome = NamesOutcome(self.world.seed)
        counters: Counter[str] = Counter()
        for node in self.honest():
            found = self.answers.found.get(node, [])
            outcome.looked_up += len(found)
            outcome.faults += [
                f"node {node} found another record" for value in found if value != self.records[-1]
            ]
            if not found:
                outcome.faults.append(f"node {node} was not answered")
        for number in (OWNER, *self.honest()):
            peer = self.world.nodes[number].peer
            assert peer is not None
            counters.update(peer.counters)
        outcome.counters = dict(sorted(counters.items()))
        return outcome


def _look_up(key: bytes, request: int) -> given.AskTable:
    return given.AskTable(request, Operation.GET, key)


def _put(key: bytes, value: bytes, request: int) -> given.AskTable:
    return given.AskTable(request, Operation.PUT, key, value)


def run_names(seed: int, nodes: int = 10) -> NamesOutcome:
    """One run."""
    return _NameRun(seed, nodes).run()
