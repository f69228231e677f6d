"""A liar among nodes of Vinifera, the filters that it names, and what must hold whatever it says."""

from typing import Any

from hypothesis import strategies as st

from support.content import SCHEMA, parse_filter
from vinecast.core.arrays.profiles import PLACE_BITS
from vinecast.core.content.names import digest_of, name_of
from vinecast.node.api.node import Node
from vinecast.node.api.subscription import Subscription
from vinecast.node.runtime.config import NodeConfig
from vinecast.node.storage.identity_file import make_identity
from vinecast.peer.wire.messages import make_card
from vinecast.protocols.load_balance import LOAD_MAX
from vinecast.systems.vinifera import messages as wire
from vinecast.systems.vinifera.settings import ViniferaSettings

VINIFERA = NodeConfig(
    period_s=0.1, system="vinifera", topics=64, peers=64, vinifera=ViniferaSettings(requests=128)
)
LAST = (1 << PLACE_BITS) - 1
LIAR = make_identity()
CHEAP = name_of(parse_filter(SCHEMA, 'price < 10 and order = "buy"'))
DEAR = name_of(parse_filter(SCHEMA, "price > 900"))
CARD = make_card(LIAR.sign, "test", LIAR.public, "127.0.0.1:9", 1, (CHEAP, "news"))


def filter_name(at: int) -> str:
    """One of many filters."""
    return f"#{digest_of(SCHEMA)};1:{at:08x}-{at:08x}"


places = st.integers(0, LAST)
loads = st.integers(0, LOAD_MAX)


def row(name: int = 0, index: int = 0, low: int = 0, high: int = 9) -> bytes:
    return wire.ROW.pack(name, index, low, high)


Headers = dict[str, str | bytes]


def check_books(node: Node, config: NodeConfig = VINIFERA) -> None:
    """Nothing that a stranger can make grow is larger than it may be, and books agree."""
    peer = node._peer
    system: Any = peer.system
    machine, topics = peer.machine, peer.peer_table.topics
    assert len(topics.numbers) <= config.topics
    assert len(machine.requests) <= config.vinifera.requests
    assert len({*peer.counters, *node._driver.counters}) <= 80
    for number in system._relayed._held:
        assert topics.names[number] is not None
    filters = system.router._shared.filters
    assert set(filters._spans) == set(topics.numbers.values())
    assert machine.peers_in_use() <= set(peer.peer_table.known())
    for attribute, number in machine.requests._rows:
        assert any(span.attribute == attribute for span in filters.spans(number))
    place = peer.peer_table.profiles.place
    assert ((place >= 0) & (place <= LAST)).all()
    load = system.router._shared.load
    assert ((load >= 0) & (load <= LOAD_MAX)).all()
    assert not system.router._shared.contents


VALUES = {"price": 5.0, "order": "buy", "count": 1, "at": "2026-05-01T12:00:00Z"}


async def still_there(publisher: Node, cursor: Node, reader: Subscription) -> None:
    """Events that match still come; it may take some cycles until the ring is what it was."""
    while not reader.waiting:
        await publisher.publish(SCHEMA, VALUES, durable=False)
        await cursor._driver.next_cycle()
    while reader.waiting:
        assert (await anext(reader)).values == VALUES


BUYS = 'price < 10 and order = "buy"'
