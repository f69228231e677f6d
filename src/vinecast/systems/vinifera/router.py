"""Vinifera on a live node: filters are asked for along the circle, and events go to those who asked.

A topic is a filter like others: who subscribes to it asks the owner of the topic's place, which is the
highest bits of the key that its replicas are found by. An event of a topic goes there; an event of a schema
goes besides to the owners of its value of each attribute, and from each of them to whoever asked for what it
is. Nodes on these ways need not subscribe to the topic, nor know the schema (``core/content/names``).
"""

from functools import partial
from typing import Any

from vinecast.core.content.names import read_places
from vinecast.core.content.schemas import ATTRIBUTES_MAX
from vinecast.core.errors import RemoteError
from vinecast.core.events import Effect
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.machine import NOBODY
from vinecast.protocols.cyclon import CyclonConfig
from vinecast.protocols.tman import TManConfig
from vinecast.systems.common.router import ME, LiveParts, Publishing, RouterEvent, RouterPorts
from vinecast.systems.common.tman_router import FIRST_TIMER, TManRouter, scratch_for, topic_place
from vinecast.systems.common.wire import PATIENCE_PERIODS
from vinecast.systems.vinifera.catalogue import CIRCLE, ContentShared
from vinecast.systems.vinifera.events import ContentEvent
from vinecast.systems.vinifera.filter_table import FilterTable
from vinecast.systems.vinifera.machine import Vinifera, ViniferaConfig
from vinecast.systems.vinifera.messages import ROWS_MAX, Asked
from vinecast.systems.vinifera.words import AskedForm, ViniferaWords

ATTRIBUTES = 16
"""Attributes that count in the choice of friends, of all schemas together (ours); those beyond are only
routed by."""
ASKED_SHARE = 4
"""One peer can ask for a part of a range for one in so many of the filters that a node can know, in a cycle
(ours)."""


def vinifera_config(settings: Any) -> ViniferaConfig:
    """Vinifera's settings on such a node."""
    own = settings.vinifera
    return ViniferaConfig(
        remembered=settings.remembered,
        remember_s=settings.remember_s,
        cyclon=CyclonConfig(period_s=settings.period_s),
        tman=TManConfig(table_size=own.table_size, threshold=PATIENCE_PERIODS, period_s=settings.period_s),
        long_links=own.long_links,
        beta=own.beta,
        to_friends=own.to_friends,
        requests=own.requests,
    )


def make(settings: Any, ports: RouterPorts) -> LiveParts:
    """Vinifera for one node."""
    router = ViniferaRouter(vinifera_config(settings), ports)
    return LiveParts(router, ContentEncoding(), status=router.words, fields={Asked: router.asked})


class ContentEncoding:
    """See ``EventEncoding``: by which attribute an event is routed, the topic first, and whether it is on its
    way up."""

    count = 2 * (1 + ATTRIBUTES_MAX)

    def form_of(self, message: Any) -> int | None:
        if isinstance(message, ContentEvent):
            return 2 * message.attribute + message.up
        return None

    def read(self, form: int, topic: int, signed: SignedEvent, hops: int) -> ContentEvent:
        digest, places = read_places(signed.record)
        if form // 2 > len(places):
            raise RemoteError("event routed by an attribute that it does not have")
        return ContentEvent(topic, signed.number, hops, (digest, *places), form // 2, bool(form % 2))


class ViniferaRouter(TManRouter):
    """Vinifera as the router of one live node."""

    def __init__(self, config: ViniferaConfig, ports: RouterPorts) -> None:
        peers, profiles = ports.peers, ports.peers.profiles
        peers.has_filters = True
        filters = FilterTable(peers.topics, partial(topic_place, ports), ports.when_compiled)
        self._shared = shared = ContentShared(profiles, filters, ATTRIBUTES)
        self.machine = machine = Vinifera(
            config, ports.seed, ME, profiles, scratch_for(config, ports), shared
        )
        super().__init__(ports, machine)
        self.words = ViniferaWords(peers, shared)
        asked_max = max(ports.topics_max // ASKED_SHARE, ROWS_MAX)
        self.asked = AskedForm(peers, filters, ports.take_number, asked_max, ports.counters)
        self.carries = machine.requests.asks_for

    def handle(self, event: RouterEvent, now_us: int) -> list[Effect]:
        if isinstance(event, Publishing):
            digest, places = read_places(event.signed.record)
            self._shared.contents.clear()
            self._shared.contents[event.signed.number] = (digest, *places)
            return []
        return super().handle(event, now_us)

    def _begin(self, timer: str) -> None:
        super()._begin(timer)
        if timer == FIRST_TIMER:
            self.asked.begin_cycle()
            self._step_aside()

    def _step_aside(self) -> None:
        """No two nodes may be at one place: the one with the higher id takes the next."""
        place, id_of = self._ports.peers.profiles.place, self._ports.peers.id_of
        here = [peer for peer in self.machine.neighbours() if place[peer] == place[ME]]
        if any(id_of(peer) < id_of(ME) for peer in here):
            place[ME] = (int(place[ME]) + 1) % CIRCLE

    def leads_to(self, topic: int, peer: int) -> bool:
        """See ``Router``: any neighbour may be next on one of an event's ways."""
        return peer in self.machine.neighbours()

    def is_alone(self, topic: int, now_us: int) -> bool:
        """See ``Router``: while nobody at all is known. Who publishes need not subscribe, and filters are
        mostly one node's own."""
        return self.machine.cyclon.view.size == 0 and not self.machine.neighbours()

    def nearest(self, topic: int, now_us: int) -> tuple[int, int]:
        """Two of the subscribers that it knows."""
        found = [*self.machine.interested(topic), NOBODY, NOBODY]
        return found[0], found[1]

    def takes_any(self, form: int, event: int) -> bool:
        """See ``Router``: nodes pass on what they do not subscribe to."""
        return True

    def has_seen(self, event: int, topic: int) -> bool:
        return self.machine.has_seen(event)
