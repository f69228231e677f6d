"""The settings of a live node."""

from dataclasses import dataclass, field

from vinecast.core.config import check, limited
from vinecast.core.errors import InputError
from vinecast.core.records import BLOCK_BYTES_MAX
from vinecast.core.seals import SEAL_BYTES_MAX
from vinecast.node.store import StoreConfig
from vinecast.node.transport import TransportConfig
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.rings import RingsConfig
from vinecast.protocols.vicinity import VicinityConfig
from vinecast.systems.poldercast import SHORTCUTS, PolderCastConfig

PATIENCE_PERIODS = 4
"""Periods that a partner may take for its answer (ours); until then it counts as a neighbour."""
EVENT_BYTES_MAX = BLOCK_BYTES_MAX + SEAL_BYTES_MAX + 64
"""The largest frame that an event can need."""


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """What can be set. The defaults are ours, and fit some hundreds of nodes on one network."""

    period_s: float = limited(1.0, at_least=0.01, at_most=3600.0)
    """Seconds between two exchanges of each gossip layer."""
    fanout: int = limited(2, at_least=1, at_most=64)
    """How often an event is forwarded on first receipt (S0 §4.2: f)."""
    shortcuts: str = limited("both", one_of=SHORTCUTS)
    """Which views random subscribers are taken from (S0 §6.4)."""
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
    alone_cycles: int = limited(4, at_least=1, at_most=1000)
    """Cycles without finding another subscriber after which a subscription counts as ready."""
    traced: int = limited(1000, at_least=0, at_most=10_000_000)
    """Trace records that are kept, the latest ones."""
    leave_s: float = limited(2.0, at_least=0.0, at_most=60.0)
    """Seconds for what is queued to go out when the node leaves."""
    transport: TransportConfig = field(default_factory=TransportConfig)
    store: StoreConfig = field(default_factory=StoreConfig)

    def __post_init__(self) -> None:
        check(self)
        if self.transport.frame_bytes_max < EVENT_BYTES_MAX:
            raise InputError(
                f"transport.frame_bytes_max must have room for an event: {EVENT_BYTES_MAX:,} bytes"
            )

    @property
    def system(self) -> PolderCastConfig:
        """The system's own settings."""
        return PolderCastConfig(
            fanout=self.fanout,
            shortcuts=self.shortcuts,
            remembered=self.remembered,
            remember_s=self.remember_s,
            cyclon=CyclonConfig(period_s=self.period_s),
            vicinity=VicinityConfig(period_s=self.period_s),
            rings=RingsConfig(period_s=self.period_s, answer_within=PATIENCE_PERIODS),
        )
