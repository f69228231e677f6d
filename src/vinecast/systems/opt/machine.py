"""OPT (S2 §3.6): an overlay for every topic, the baseline of Vitis that knows no relays.

Every node wants a few neighbours for each of its topics, and takes first who shares most of those that still
lack some, as SpiderCast does. An event goes from subscriber to subscriber along these links. Nobody carries
what it did not ask for; but how many links that takes depends on the subscriptions, and with too few some
topics fall apart. ``tman.table_size`` bounds how many a node chooses and, unless ``bounded`` is false, how
many it passes events on to: those it has chosen and, as far as there is room, those who chose it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from vinecast.core.arrays.profiles import Profiles, row_of
from vinecast.core.arrays.topic_overlap import Scratch
from vinecast.core.config import check, limited
from vinecast.core.machine import NOBODY
from vinecast.systems.common.notices_base import NoticesBase, NoticesBaseConfig
from vinecast.systems.opt.rules import select_covering


@dataclass(frozen=True, slots=True)
class OptConfig(NoticesBaseConfig):
    """The layers below, and how well topics are covered."""

    coverage: int = limited(3, at_least=1, at_most=100)
    """Neighbours that a node wants for each of its topics (SpiderCast's K; S2 does not say)."""
    bounded: bool = True
    """Whether a node passes events on to ``tman.table_size`` others at the most (S2: "bounded node degree"),
    or to all who chose it as well."""

    def __post_init__(self) -> None:
        check(self)
        NoticesBaseConfig.__post_init__(self)


class Opt(NoticesBase):
    """The machine. ``profiles`` is the table of peers, ``scratch`` working memory that machines may share."""

    def __init__(self, config: OptConfig, seed: int, me: int, profiles: Profiles, scratch: Scratch) -> None:
        super().__init__("opt", config, seed, me, profiles, scratch)
        self.config = config

    def neighbours(self) -> list[int]:
        """See ``NoticesBase``; no more than the bound, its own choice first."""
        near = super().neighbours()
        return near[: self.config.tman.table_size] if self.config.bounded else near

    def _select(self, count: int) -> int:
        most = self.config.tman.table_size
        return select_covering(self.me, self.config.coverage, count, most, self.profiles.table, self._scratch)

    def _links(self, topic: int) -> list[int]:
        return self.interested(topic)

    def _next_hop(self, topic: int) -> int:
        """There is no rendezvous: somebody in the sample who subscribes will do."""
        table = self.profiles.table
        return next((p for p in self.cyclon.view.tolist() if row_of(table, p, topic) >= 0), NOBODY)


def opt_machines(config: OptConfig, seed: int, profiles: Profiles) -> Callable[[int], Opt]:
    """Who makes the machine of each node of a simulated population."""
    scratch = config.make_scratch(profiles)
    return lambda node: Opt(config, seed, node, profiles, scratch)
