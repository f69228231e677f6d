"""PolderCast's settings."""

from dataclasses import dataclass, field

from vinecast.core.config import check, limited
from vinecast.core.errors import InputError
from vinecast.core.machine import SECOND_US
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.rings import RingsConfig
from vinecast.protocols.vicinity import VicinityConfig
from vinecast.systems.common.anycast import AnycastConfig

SHORTCUTS = ("both", "mixed", "cyclon", "vicinity")


@dataclass(frozen=True, slots=True)
class PolderCastConfig:
    """The three layers, and how events are forwarded."""

    fanout: int = limited(2, at_least=1, at_most=64)
    """How often an event is forwarded on first receipt (S0 §4.2: f)."""
    shortcuts: str = limited("both", one_of=SHORTCUTS)
    """Which views random subscribers are taken from (S0 §6.4): from Cyclon's and Vicinity's together, from
    one of the two by a coin for every node and event ("mixed"), or always from the same."""
    stand_by: bool = True
    """Whether the second ring neighbour on a side gets an event if the first cannot be reached (S0 §5.1:
    "stand-by successors and predecessors to be used in case of failures"; §6.6)."""
    with_vicinity: bool = True
    """Whether there is a Vicinity layer at all (S0 §6.2 measures what happens without)."""
    remembered: int = limited(8192, at_least=1, at_most=10_000_000)
    """Events that a node remembers having seen, at the most: one for each topic that it can have. While all
    of them are recent, a further one is turned away (ours)."""
    remember_s: float = limited(10.0, at_least=0.001, at_most=86400.0)
    """Seconds for which an event counts as recent. It must have come to rest everywhere by then (ours)."""
    cyclon: CyclonConfig = field(default_factory=CyclonConfig)
    vicinity: VicinityConfig = field(default_factory=VicinityConfig)
    rings: RingsConfig = field(default_factory=RingsConfig)
    anycast: AnycastConfig = field(default_factory=AnycastConfig)

    def __post_init__(self) -> None:
        check(self)
        if not self.with_vicinity and self.shortcuts in ("vicinity", "mixed"):
            raise InputError(f'shortcuts = "{self.shortcuts}" needs with_vicinity = true')

    @property
    def period_us(self) -> int:
        """The length of a cycle: Cyclon's period."""
        return self.cyclon.period_us

    @property
    def remember_us(self) -> int:
        """For how long an event counts as recent, in microseconds."""
        return round(self.remember_s * SECOND_US)

    @property
    def most(self) -> int:
        """The longest list that any layer ever chooses."""
        sizes = (self.cyclon.view_size, self.vicinity.view_size, self.rings.gossip_size, self.fanout)
        return max(*sizes, self.cyclon.gossip_size, self.vicinity.gossip_size)
