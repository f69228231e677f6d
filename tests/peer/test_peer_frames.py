"""What a peer makes of frames that are not as they should be: refused, counted, and blamed on whoever is at
fault."""

from support.lone_peer import LonePeer, of_type
from support.stream_events import chain
from vinecast.node.storage.identity_file import make_identity
from vinecast.peer.config import PeerConfig
from vinecast.peer.inputs import FrameCame, LinkUp, OpenSubscription
from vinecast.peer.limits.misbehaviour import FAULTS_A_CYCLE
from vinecast.peer.outputs import PeerOutput, SendFrame, ShunPeer
from vinecast.peer.streams.codec import pack_stream
from vinecast.peer.streams.messages import encode_stream
from vinecast.peer.wire.messages import Introduction, encode, make_card
from vinecast.protocols.streams import StreamPush, StreamWant
from vinecast.systems.common.wire import Entry

WANT = encode_stream(pack_stream(StreamWant("news", (chain(1)[0].cid,))))


def often(lone: LonePeer, peer: bytes, frame: bytes, times: int = FAULTS_A_CYCLE) -> list[PeerOutput]:
    """What comes out when a peer sends a frame so many times."""
    return [output for _ in range(times) for output in lone.feed(FrameCame(peer, frame))]


def test_nobody_introduces_itself_with_the_card_of_another() -> None:
    lone, liar, other = LonePeer(PeerConfig()), make_identity(), make_identity()
    card = make_card(other.sign, "test", other.public, "127.0.0.1:9", 1, ("news",))
    lone.feed(LinkUp(liar.id))
    out = often(lone, liar.id, encode(Introduction(Entry(card, 0, b"", b""))))
    assert lone.peer.counters["refused: speaks for another peer"] == FAULTS_A_CYCLE
    assert of_type(ShunPeer, out) == [ShunPeer(liar.id)]
    assert not lone.peer.has_joined


def test_what_an_honest_peer_may_send_is_refused_and_held_against_nobody() -> None:
    lone, stranger = LonePeer(PeerConfig()), make_identity()
    lone.feed(LinkUp(stranger.id))
    assert not of_type(ShunPeer, often(lone, stranger.id, WANT))
    assert lone.peer.counters["refused: sender without a card"] == FAULTS_A_CYCLE
    assert of_type(ShunPeer, often(lone, stranger.id, b"\xc1"))


def test_events_are_kept_for_others_of_near_topics_only() -> None:
    lone = LonePeer(PeerConfig())
    other = lone.introduce("news")
    lone.feed(FrameCame(other, encode_stream(pack_stream(StreamPush("t", tuple(chain(3)))))))
    assert lone.peer.counters["refused: events to keep of a topic that is far from here"] == 1
    assert not lone.peer.streams.store.state("t").last


def test_a_card_that_no_connection_takes_is_not_sent() -> None:
    lone = LonePeer(PeerConfig())
    links = lone.peer.links
    links.limits = links.limits._replace(frame_bytes_max=1024)
    assert of_type(SendFrame, lone.feed(LinkUp(make_identity().id)))
    for number in range(10):
        lone.feed(OpenSubscription(number, number, f"{number}/{'long' * 40}", "now"))
    assert not of_type(SendFrame, lone.feed(LinkUp(make_identity().id)))
    assert lone.peer.counters["dropped: frame too large"] == 1
