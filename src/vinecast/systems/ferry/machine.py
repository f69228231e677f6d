"""Ferry* (S2 §4.6.1): one rendezvous for every attribute's *name*, the baseline of Vinifera.

A filter is asked for at the rendezvous of one of its schema's attributes, the one that is nearest to the
subscriber (S2 §4.6.3), whatever values it wants; an event goes to the rendezvous of all of them. So there is
one tree an attribute. The table has the ring and long links only. Sampling, T-Man and the way filters and
events travel are those of Vinifera, so that what differs between the two is what Vinifera adds.
"""

from collections.abc import Callable
from dataclasses import dataclass

from vinecast.core.arrays.profiles import Profiles, place_of
from vinecast.core.arrays.topic_overlap import Scratch
from vinecast.core.circle import id_of
from vinecast.protocols.content_table import WantedRange
from vinecast.protocols.small_world import LinkChoice
from vinecast.protocols.small_world.rules import far_from
from vinecast.systems.vinifera.catalogue import CIRCLE, Catalogue, Content, ContentProfiles
from vinecast.systems.vinifera.events import ContentConfig, ContentSystem
from vinecast.systems.vinifera.machine import content_profiles_of
from vinecast.systems.vinifera.rules import select_neighbours


@dataclass(frozen=True, slots=True)
class FerryConfig(ContentConfig):
    """The layers below; all of the table but the ring's two entries are long links."""

    @property
    def long_links(self) -> int:
        """Links at random distances."""
        return self.tman.table_size - 2


def rendezvous(catalogue: Catalogue) -> list[int]:
    """Where the rendezvous of every attribute is on the circle. [attribute]"""
    return [
        place_of(id_of(f"attribute:{schema.name}:{attribute.name}".encode()))
        for schema in catalogue.schemas
        for attribute in schema.attributes
    ]


class Ferry(ContentSystem):
    """The machine. ``profiles`` is the table of peers, ``scratch`` working memory that machines may share;
    ``places``: where rendezvous are."""

    def __init__(
        self,
        config: FerryConfig,
        seed: int,
        me: int,
        profiles: ContentProfiles,
        scratch: Scratch,
        places: list[int],
    ) -> None:
        self.config = config
        self._places = places
        super().__init__("ferry", config, seed, me, profiles, scratch, profiles.shared)

    def _select(self, count: int) -> int:
        choice = LinkChoice(self.me, self.seed, self.config.long_links)
        table, ranges = self.profiles.table, self.shared.ranges
        return select_neighbours(choice, 0, count, self._table_size, table, ranges, self._scratch)

    def _wanted(self, number: int) -> WantedRange:
        here = int(self.profiles.place[self.me])
        at = min(
            (span.attribute for span in self.filters.spans(number)),
            key=lambda attribute: far_from(self._places[attribute], here, CIRCLE),
        )
        return WantedRange(at, number, self._places[at], self._places[at])

    def _place(self, content: Content, attribute: int) -> int:
        return self._places[content.attributes[attribute]]


def ferry_machines(config: FerryConfig, seed: int, profiles: Profiles) -> Callable[[int], Ferry]:
    """Who makes the machine of each node of a simulated population."""
    known = content_profiles_of(profiles)
    scratch, places = config.make_scratch(known), rendezvous(known.catalogue)
    return lambda node: Ferry(config, seed, node, known, scratch, places)
