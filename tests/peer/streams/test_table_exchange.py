"""Kademlia on a peer: whom it misses when frames do not go out."""

from support.lone_peer import LonePeer
from vinecast.peer.config import PeerConfig
from vinecast.peer.inputs import FrameUnsent
from vinecast.peer.streams.messages import HolderAck, Ping, encode_stream
from vinecast.peer.wire.messages import Leaving, encode


def test_kademlia_misses_a_peer_whom_its_own_messages_do_not_reach() -> None:
    lone = LonePeer(PeerConfig())
    other = lone.introduce("news")
    lone.publish(1, 10, durable=True)
    table, number = lone.peer.streams.replicas.table, lone.peer.peer_table.number_of(other)
    assert table is not None

    def waits() -> bool:
        return any(request.peer == number for request in table.requests.open.values())

    assert waits()
    for frame in (encode(Leaving()), encode_stream(HolderAck((bytes(36),)))):  # a queue was full
        lone.feed(FrameUnsent(other, 1, frame))
        assert waits()
    lone.feed(FrameUnsent(other, 1, encode_stream(Ping(1))))
    assert not waits()
