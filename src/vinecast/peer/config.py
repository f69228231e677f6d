"""The settings of a peer: all of a node's that are not about its disk and its connections."""

from dataclasses import dataclass, field

from vinecast.core.arrays.regularity import DAY_S, WEEK_S
from vinecast.core.config import check, limited
from vinecast.core.errors import InputError
from vinecast.peer.routers.router import SYSTEMS
from vinecast.protocols.regularity import RegularityConfig
from vinecast.systems.poldercast.config import SHORTCUTS

CYCLES = {"day": DAY_S, "week": WEEK_S}
"""Cycles of recurring behaviour, in seconds; a slot is an hour."""
PATIENCE_PERIODS = 4
"""Periods that a partner may take for its answer (ours); until then it counts as a neighbour."""


TABLE_MAX = 128
"""Entries of a live table at the most (ours): a message has room for all of them."""


@dataclass(frozen=True, slots=True)
class VitisSettings:
    """What can be set for Vitis: S2's parameters."""

    table_size: int = limited(15, at_least=4, at_most=TABLE_MAX)
    """Entries in the routing table, however many topics the node has (S2 §3.6.1: 15)."""
    long_links: int = limited(1, at_least=0, at_most=TABLE_MAX - 2)
    """Those of them at random distances, besides the two of the ring (S2 §3.6.2: one)."""
    gateway_hops: int = limited(5, at_least=1, at_most=64)
    """A gateway speaks for nodes so many hops away, at the most (S2 §3.6.1: d = 5)."""
    pull_timeout_s: float = limited(1.0, at_least=0.01, at_most=60.0)
    """Seconds after which an event is asked for elsewhere."""

    def __post_init__(self) -> None:
        check(self)
        if self.long_links + 2 > self.table_size:
            raise InputError(
                f"long_links + 2 must be at most table_size ({self.table_size}), not {self.long_links + 2}"
            )


@dataclass(frozen=True, slots=True)
class ViniferaSettings:
    """What can be set for Vinifera: S2's parameters."""

    table_size: int = limited(15, at_least=4, at_most=TABLE_MAX)
    """Entries in the routing table, however many filters the node has (S2 §4.6.2: ten)."""
    long_links: int = limited(4, at_least=0, at_most=TABLE_MAX - 2)
    """Those of them at random distances, besides the two of the ring (S2 §4.6.2: none; then ways are long in
    large networks)."""
    beta: int = limited(4, at_least=0, at_most=1_000_000)
    """How many times as much to do a node's successor must have for the node to move towards it; 0: nodes
    never move."""
    to_friends: bool = True
    """Whether who wants an event also sends it to the neighbours that want it, as far as it knows: it is
    faster, and little is lost while nodes come and go, for more copies."""
    requests: int = limited(65_536, at_least=64, at_most=1 << 24)
    """Requests of others that the node has room for."""

    def __post_init__(self) -> None:
        check(self)
        if self.long_links + 2 > self.table_size:
            raise InputError(
                f"long_links + 2 must be at most table_size ({self.table_size}), not {self.long_links + 2}"
            )


@dataclass(frozen=True, slots=True)
class PeerConfig:
    """What can be set of a peer. The defaults are ours, and fit some hundreds of nodes on one network."""

    system: str = limited("poldercast", one_of=tuple(SYSTEMS))
    """What carries events: PolderCast's rings, PulsarCast's trees, Vitis' clusters and relay paths, or
    Vinifera's ways of content. Nodes of another system are refused."""
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
    traced: int = limited(1000, at_least=0, at_most=10_000_000)
    """Trace records that are kept, the latest ones."""
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
    def unmet(self) -> int:
        """Numbers for peers of whom only the name is known: Vitis' gateways may be far away."""
        return self.peers if self.system == "vitis" else 0

    @property
    def slotting(self) -> RegularityConfig | None:
        """How the node's regularity is found out; None where it does not matter."""
        if self.regularity == "off":
            return None
        return RegularityConfig(cycle_s=CYCLES[self.regularity], threshold=self.regular_share)
