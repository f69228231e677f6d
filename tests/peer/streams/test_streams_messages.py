"""What travels of streams and of Kademlia: there and back, and whatever else somebody sends."""

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from support.node.live import live, until, village
from support.stream_events import chain
from vinecast.core.errors import RemoteError
from vinecast.core.events import TimerFired
from vinecast.core.log.event_record import NUMBER_MAX
from vinecast.node.api.node import Node
from vinecast.node.storage.identity_file import make_identity
from vinecast.peer.limits.misbehaviour import FAULTS_A_CYCLE
from vinecast.peer.limits.rate_limit import A_SECOND, IN_HAND, PEERS_MAX, RateLimit
from vinecast.peer.streams import messages as wire
from vinecast.peer.streams.codec import pack_events, pack_stream, read_stream
from vinecast.peer.wire.messages import StreamFrame, decode, encode, make_card
from vinecast.protocols.streams import (
    StreamAck,
    StreamEvents,
    StreamHeads,
    StreamList,
    StreamListed,
    StreamMessage,
    StreamPush,
    StreamStatus,
    StreamWant,
)
from vinecast.systems.common.wire import Entry

EVENTS = chain(5)
CIDS = tuple(event.cid for event in EVENTS)
LIAR = make_identity()
CARD = make_card(LIAR.sign, "test", LIAR.public, "127.0.0.1:9", 1, ("news",))
MESSAGES: tuple[StreamMessage, ...] = (
    StreamHeads((StreamStatus("t", CIDS[:2], 5, 0, 0), StreamStatus("u", (), 0, 0, 0)), 2),
    StreamList("t", 7, CIDS[0]),
    StreamListed("t", (3, b""), CIDS, NUMBER_MAX),
    StreamWant("t", CIDS),
    StreamEvents("t", tuple(EVENTS), CIDS[:1]),
    StreamPush("t", tuple(EVENTS)),
    StreamAck(CIDS),
)
FRAMES: tuple[wire.Inner, ...] = (
    *map(pack_stream, MESSAGES),
    wire.CarriedEvents(3, True, pack_events(EVENTS)),
    wire.Ping(1),
    wire.Pong(1),
    wire.FindPeers(1, bytes(32), 2),
    wire.FindAnswer(1, (Entry(CARD, 0, b"", b""),), (), b"value"),
    wire.StoreValue(1, bytes(32), b"value", 10),
    wire.ProvideKey(1, bytes(32)),
    wire.ValueStored(1, True),
    wire.TableGoodbye(),
)


def there_and_back(inner: wire.Inner) -> wire.Inner:
    frame = decode(wire.encode_stream(inner))
    assert isinstance(frame, StreamFrame)
    return wire.decode_stream(frame)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.kind)
def test_messages_of_streams_there_and_back(message: StreamMessage) -> None:
    inner = there_and_back(pack_stream(message))
    assert not isinstance(inner, (wire.CarriedEvents, *wire.TABLE_FRAMES))
    assert read_stream(inner) == message


@pytest.mark.parametrize("inner", FRAMES, ids=lambda inner: type(inner).__name__)
def test_frames_there_and_back(inner: wire.Inner) -> None:
    assert there_and_back(inner) == inner


@pytest.mark.parametrize(
    "inner",
    [
        wire.Heads((wire.StreamStatusEntry("t", CIDS * 13, 0, 0, 0),), 0),
        wire.Heads((wire.StreamStatusEntry("t", (), 0, 0, 0),) * 65, 0),
        wire.Heads((wire.StreamStatusEntry("t", (b"no content id",), 0, 0, 0),), 0),
        wire.Heads((wire.StreamStatusEntry("t", (), NUMBER_MAX + 1, 0, 0),), 0),
        wire.Heads((), 3),
        wire.ListStream("", 0, b""),
        wire.ListStream("t", -1, b""),
        wire.ListStream("t", 0, bytes(99)),
        wire.WantEvents("t", CIDS[:1] * (wire.CIDS_MAX + 1)),
        wire.EventBatch("t", ((b"", b""),) * (wire.BATCH_MAX + 1), ()),
        wire.Push("t", ((bytes(1 << 20), b""),)),
        wire.CarriedEvents(1, True, ()),
        wire.CarriedEvents(40_000, True, ((b"", b""),)),
        wire.FindPeers(0, bytes(31), 0),
        wire.FindAnswer(0, (Entry(CARD, 0, b"", b""),) * 65, (), b""),
        wire.FindAnswer(0, (), (), bytes(wire.VALUE_BYTES_MAX + 1)),
        wire.StoreValue(0, bytes(32), b"", -1),
        wire.Ping(-1),
    ],
    ids=lambda inner: type(inner).__name__,
)
def test_what_is_over_a_limit_is_refused(inner: wire.Inner) -> None:
    with pytest.raises(RemoteError):
        there_and_back(inner)


@pytest.mark.parametrize(
    "frame", [wire.WantEvents("a//b", ()), wire.Push("#", ()), wire.Push("t", ((b"no block", b"no seal"),))]
)
def test_what_makes_no_sense_is_refused(frame: wire.StreamBody) -> None:
    with pytest.raises(RemoteError):
        read_stream(frame)


def test_who_asks_without_end_is_at_fault() -> None:
    questions = RateLimit()
    for _ in range(IN_HAND):
        questions.note(b"a", 0)
    with pytest.raises(RemoteError):
        questions.note(b"a", 0)
    questions.note(b"b", 0)
    for _ in range(A_SECOND):
        questions.note(b"a", 1_000_000)
    with pytest.raises(RemoteError):
        questions.note(b"a", 1_000_000)
    for n in range(2 * PEERS_MAX):
        questions.note(b"%d" % n, 0)
    assert len(questions._left) == PEERS_MAX


# A node that is sent all that.

numbers = st.sampled_from((0, 1, 2, 7, 2**31, NUMBER_MAX)) | st.integers(-1, NUMBER_MAX + 1)
cids = st.lists(st.sampled_from(CIDS) | st.binary(max_size=40), max_size=4).map(tuple)
names = st.sampled_from(("news", "other", "", "a//b", "#", "x" * 300))
events = st.lists(
    st.sampled_from(pack_events(EVENTS)) | st.tuples(st.binary(max_size=99), st.binary(max_size=99)),
    max_size=3,
).map(tuple)
keys = st.sampled_from((bytes(32), b"\xff" * 32, b""))
entries = st.lists(st.just(Entry(CARD, 0, b"", b"")), max_size=2).map(tuple)
told = st.builds(wire.StreamStatusEntry, names, cids, numbers, numbers, numbers)
frames: st.SearchStrategy[Any] = st.one_of(
    st.builds(wire.CarriedEvents, numbers, st.booleans(), events),
    st.builds(wire.Heads, st.lists(told, max_size=3).map(tuple), numbers),
    st.builds(wire.ListStream, names, numbers, st.binary(max_size=40)),
    st.builds(wire.StreamListing, names, numbers, st.binary(max_size=40), cids, numbers),
    st.builds(wire.WantEvents, names, cids),
    st.builds(wire.EventBatch, names, events, cids),
    st.builds(wire.Push, names, events),
    st.builds(wire.HolderAck, cids),
    st.builds(wire.Ping, numbers),
    st.builds(wire.Pong, numbers),
    st.builds(wire.FindPeers, numbers, keys, numbers),
    st.builds(wire.FindAnswer, numbers, entries, entries, st.binary(max_size=40)),
    st.builds(wire.StoreValue, numbers, keys, st.binary(max_size=40), numbers),
    st.builds(wire.ProvideKey, numbers, keys),
    st.builds(wire.ValueStored, numbers, st.booleans()),
    st.builds(wire.TableGoodbye),
)
shapes = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=9) | st.binary(max_size=40),
    lambda inner: st.lists(inner, max_size=5),
    max_leaves=12,
)


def encoded(frame: Any) -> bytes:
    try:
        return wire.encode_stream(frame)
    except OverflowError:  # not even MessagePack can say it
        return b""


async def feed(node: Node, frames: st.SearchStrategy[bytes], examples: int) -> None:
    """Let a node swallow them, from somebody that it knows."""
    driver, peer = node._driver, node._peer
    peer.peer_table.meet(Entry(CARD, 0, b"\0", bytes(4)), LIAR.id)

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(frames)
    def swallow(data: bytes) -> None:
        peer._misbehaviour.begin_cycle(0)
        driver.on_frame(LIAR.id, data)

    swallow()
    for timer in ("streams.period", "streams.ask", "kademlia", "kademlia.timeout"):
        driver.feed(TimerFired(timer))


@pytest.mark.parametrize("shape", ["absurd", "any", "changed"])
def test_a_node_takes_whatever_comes_and_goes_on(shape: str) -> None:
    whole = tuple(map(wire.encode_stream, FRAMES))
    changed = st.tuples(st.sampled_from(whole), st.integers(0, 999), st.integers(0, 255)).map(
        lambda one: one[0][: one[1] % len(one[0])] + bytes([one[2]]) + one[0][one[1] % len(one[0]) + 1 :]
    )
    tried = {
        "absurd": frames.map(encoded),
        "any": shapes.map(lambda value: encode(StreamFrame(Raw(msgspec.msgpack.encode(value))))),
        "changed": changed,
    }

    async def main() -> None:
        async with village(2) as found:
            one, other = found.nodes
            reader = await one.subscribe("news").ready()
            await other.publish("news", b"before")
            await feed(one, tried[shape], 300)
            assert len({*one._peer.counters, *one._driver.counters}) <= 80
            assert len(one._peer.streams.repair.topics) <= 3
            await other.publish("news", b"after")
            assert {(await anext(reader)).payload for _ in range(2)} == {b"before", b"after"}

    live(main())


def test_garbage_is_counted_and_its_sender_shunned() -> None:
    async def main() -> None:
        async with village(2) as found:
            one, _ = found.nodes
            driver, peer = one._driver, one._peer
            peer.peer_table.meet(Entry(CARD, 0, b"\0", bytes(4)), LIAR.id)
            garbage = encode(StreamFrame(Raw(msgspec.msgpack.encode([99]))))
            for _ in range(FAULTS_A_CYCLE):
                driver.on_frame(LIAR.id, garbage)
            assert peer.counters["refused: malformed message (ValidationError)"] == FAULTS_A_CYCLE

    live(main())


def test_events_in_the_wrong_kind_of_frame_are_refused() -> None:
    from vinecast.core.log.batch_signature import sign_events
    from vinecast.core.log.event_record import EventRecord
    from vinecast.peer.wire.messages import EventFrame

    async def main() -> None:
        async with village(2) as found:
            one, other = found.nodes
            reader = await one.subscribe("news").ready()
            driver, peer = one._driver, one._peer
            peer.peer_table.meet(Entry(CARD, 0, b"\0", bytes(4)), LIAR.id)
            records = [EventRecord("news", LIAR.public, n, 0, b"x", height=n) for n in (0, 1)]
            plain, of_a_stream = pack_events(sign_events("test", records, LIAR.sign))
            driver.on_frame(LIAR.id, encode(EventFrame(0, (of_a_stream,))))
            assert peer.counters["refused: event of a stream among those of none"] == 1
            driver.on_frame(LIAR.id, wire.encode_stream(wire.CarriedEvents(0, False, (plain,))))
            assert peer.counters["refused: event of no stream among those of streams"] == 1
            forged = pack_events(sign_events("another network", records[1:], LIAR.sign))
            driver.on_frame(LIAR.id, wire.encode_stream(wire.CarriedEvents(0, False, forged)))
            assert peer.counters["durable.refused forged event"] == 1
            await other.publish("news", b"true")
            assert (await anext(reader)).payload == b"true"
            await until(lambda: reader.waiting == 0)

    live(main())
