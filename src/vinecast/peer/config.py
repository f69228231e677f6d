"""The settings of a peer: all of a node's that are not about its disk and its connections."""

from dataclasses import dataclass, field

from vinecast.core.arrays.regularity import DAY_S, WEEK_S
from vinecast.core.config import check, limited
from vinecast.core.errors import InputError
from vinecast.peer.streams.replicas import table_config
from vinecast.protocols.kademlia import KademliaConfig
from vinecast.protocols.regularity import RegularityConfig
from vinecast.systems.poldercast.config import SHORTCUTS
from vinecast.systems.registry import LIVE_SYSTEMS, live_system
from vinecast.systems.vinifera.settings import ViniferaSettings
from vinecast.systems.vitis.settings import VitisSettings

CYCLES = {"day": DAY_S, "week": WEEK_S}
"""Cycles of recurring behaviour, in seconds; a slot is an hour."""


@dataclass(frozen=True, slots=True)
class PeerConfig:
    """What can be set of a peer. The defaults are ours, and fit some hundreds of nodes on one network."""

    system: str = limited("poldercast", one_of=LIVE_SYSTEMS)
    """What carries events: PolderCast's rings, PulsarCast's trees, Vitis' clusters and relay paths,
    Vinifera's ways of content, or flooding over all links. Nodes of another system are refused."""
    period_s: float = limited(1.0, at_least=0.01, at_most=3600.0)
    """Seconds between two exchanges of each gossip layer, or two heartbeats of a tree."""
    fanout: int = limited(2, at_least=1, at_most=64)
    """PolderCast: how often an event is forwarded on first receipt (S0 §4.2: f)."""
    shortcuts: str = limited("both", one_of=SHORTCUTS)
    """PolderCast: which views random subscribers are taken from (S0 §6.4)."""
    remembered: int = limited(262_144, at_least=1, at_most=10_000_000)
    """Events that the node remembers having seen, at the most."""
    remember_s: float = limited(10.0, at_least=0.1, at_most=3600.0)
    """Seconds after which an event may be forgotten: longer than any takes to reach everybody."""
    peers: int = limited(4096, at_least=64, at_most=1_000_000)
    """Peers that the node can know at a time."""
    topics: int = limited(16_384, at_least=16, at_most=1_000_000)
    """Topics, of all those peers together."""
    waiting: int = limited(10_000, at_least=1, at_most=10_000_000)
    """Events that may wait for the reader of a subscription; a further one is dropped and counted."""
    publish_wait_s: float = limited(10.0, at_least=0.0, at_most=3600.0)
    """Seconds that a publisher is made to wait when its neighbours cannot take more, before it is told so."""
    regularity: str = limited("off", one_of=("off", *CYCLES))
    """PolderCast: whether events also travel over rings of those who are regularly on line at this time of
    the day, or of the week (S4); "off" for neither. All nodes of a network should agree."""
    regular_share: int = limited(70, at_least=1, at_most=99)
    """The share of an hour, in per cent, that a node must have been on line for, day by day or week by week,
    to count as regular in it (S4: γ)."""
    anycast: bool = True
    """PolderCast: whether nodes tell each other what is near them, and search with that for a subscriber
    where none is known."""
    alone_cycles: int = limited(4, at_least=1, at_most=1000)
    """Cycles without finding another subscriber after which a subscription counts as ready."""
    traced: bool = False
    """Whether the peer leaves trace records of all that it publishes, sends, receives, delivers and drops,
    for whoever runs it."""
    leave_s: float = limited(2.0, at_least=0.0, at_most=60.0)
    """Seconds for what is queued to go out when the node leaves."""
    replicas: int = limited(3, at_least=0, at_most=20)
    """Nodes that keep the stream of each topic, whoever reads it: those nearest to its key."""
    provide: float = limited(0.1, at_least=0.0, at_most=1.0)
    """The probability with which the node, when it keeps an event, provides the event's stream from then on:
    is found by those who lack something of it that neighbours and replicas lack too (S3 §4.5: p)."""
    holders: int = limited(1, at_least=0, at_most=20)
    """Other nodes that must hold a durable event before its publisher gets the receipt; where there are
    fewer, as many as there are."""
    vitis: VitisSettings = field(default_factory=VitisSettings)
    vinifera: ViniferaSettings = field(default_factory=ViniferaSettings)

    def __post_init__(self) -> None:
        check(self)
        if self.regularity != "off" and self.system != "poldercast":
            raise InputError(f'regularity = "{self.regularity}" needs system = "poldercast"')

    @property
    def row(self) -> str:
        """The name of the row of the node's system: PolderCast with regular rings has one of its own."""
        return self.system if self.regularity == "off" else "poldercast_regular"

    @property
    def unmet(self) -> int:
        """Numbers for peers of whom only the name is known, in systems that need some."""
        return self.peers if live_system(self.row).names_peers else 0

    @property
    def table(self) -> KademliaConfig:
        """Kademlia's settings."""
        return table_config(self.period_s, self.replicas)

    @property
    def slotting(self) -> RegularityConfig | None:
        """How the node's regularity is found out; None where it does not matter."""
        if self.regularity == "off":
            return None
        return RegularityConfig(cycle_s=CYCLES[self.regularity], threshold=self.regular_share)
