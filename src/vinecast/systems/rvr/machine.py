"""RVR (S2 §3.6): rendezvous routing, the baseline of Vitis that knows no friends.

Every subscriber asks for a path to the topic's rendezvous, and the paths make a tree, as in Scribe or Bayeux;
events go along its links and nowhere else. The table has the ring and long links only. Sampling, T-Man and
the way events travel are those of Vitis, so that what differs between the two is what Vitis adds.
"""

from collections.abc import Callable
from dataclasses import dataclass

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.topic_overlap import Scratch
from vinecast.core.events import Effect
from vinecast.systems.common.notices_base import NoticesBaseConfig
from vinecast.systems.vitis.machine import Rendezvous, VitisProfiles


@dataclass(frozen=True, slots=True)
class RvrConfig(NoticesBaseConfig):
    """The layers below; all of the table but the ring's two entries are long links."""

    @property
    def long_links(self) -> int:
        """Links at random distances."""
        return self.tman.table_size - 2


class Rvr(Rendezvous):
    """The machine. ``profiles`` and ``shared`` are the table of peers, ``scratch`` working memory that
    machines may share."""

    def __init__(
        self,
        config: RvrConfig,
        seed: int,
        me: int,
        profiles: Profiles,
        scratch: Scratch,
        shared: VitisProfiles,
    ) -> None:
        super().__init__("rvr", config, config.long_links, seed, me, profiles, scratch, shared)
        self.config = config

    def _links(self, topic: int) -> list[int]:
        return self.relays.links(topic)

    def _build(self) -> list[Effect]:
        self.relays.turn()
        return self.relays.ask(self.profiles.topics_of(self.me).tolist())


def rvr_machines(config: RvrConfig, seed: int, profiles: Profiles) -> Callable[[int], Rvr]:
    """Who makes the machine of each node of a simulated population."""
    scratch, shared = config.make_scratch(profiles), VitisProfiles(profiles)
    return lambda node: Rvr(config, seed, node, profiles, scratch, shared)
