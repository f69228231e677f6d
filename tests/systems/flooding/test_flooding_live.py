"""Flooding on live nodes, beside the conformance suite and what every system does: everything goes everywhere
once, and nothing goes back to where it came from."""

import pytest

from support.node.live import live, settled, until, village
from support.node.own_frames import read_own
from support.node.strangers import own
from vinecast.core.errors import RemoteError
from vinecast.core.log.batch_signature import sign_events
from vinecast.core.log.event_record import EventRecord
from vinecast.core.machine import NOBODY
from vinecast.node.runtime.config import NodeConfig
from vinecast.node.storage.identity_file import make_identity
from vinecast.peer.identity import verify
from vinecast.peer.table.peer_table import PeerTable
from vinecast.peer.wire.messages import make_card
from vinecast.systems.common.wire import Entry
from vinecast.systems.flooding.machine import FloodingEvent
from vinecast.systems.flooding.router import FloodingEncoding
from vinecast.systems.registry import live_system

FLOODING = NodeConfig(period_s=0.1, system="flooding")


def test_who_published_is_read_from_the_record() -> None:
    me, other = make_identity(), make_identity()
    peer_table = PeerTable(me.public, me.sign, verify, "test", 8, 8)
    encoding = FloodingEncoding(peer_table)
    record = EventRecord("news", other.public, 1, 0, b"x", {})
    (signed,) = sign_events("test", [record], other.sign)
    assert encoding.read(0, 3, signed, 2) == FloodingEvent(3, signed.number, 2, NOBODY)
    card = make_card(other.sign, "test", other.public, "127.0.0.1:9", 1, ())
    number = peer_table.meet(Entry(card, 0, b"", b""))
    message = encoding.read(0, 3, signed, 2)
    assert message.publisher == number
    assert encoding.form_of(message) == 0


def test_everybody_passes_everything_on_and_nobody_gets_back_its_own() -> None:
    async def main() -> None:
        async with village(6, config=FLOODING) as found:
            readers = [found.nodes[n].subscribe("news") for n in (0, 3)]
            await settled(found)
            await found.nodes[3].publish("news", b"x", durable=False)
            for reader in readers:
                assert (await anext(reader)).payload == b"x"
            idle = [node for n, node in enumerate(found.nodes) if n not in (0, 3)]
            await until(lambda: all(n.stats()["counters"].get("events received first") for n in idle))
            assert not found.nodes[3].stats()["counters"].get("events received again")

    live(main())


def test_it_has_no_messages_of_its_own() -> None:
    assert live_system("flooding").messages == ()
    with pytest.raises(RemoteError, match="malformed message"):
        read_own(own([0, "news"]), ())
