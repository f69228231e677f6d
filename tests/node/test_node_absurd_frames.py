"""Frames of the right form with absurd contents: a node refuses them and goes on.

They go straight to the peer: thousands in a second."""

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.node.live import live, until, village
from support.node.strangers import REASONS_MAX
from vinecast.core.events import TimerFired
from vinecast.core.machine import NOBODY
from vinecast.node.storage.identity_file import make_identity
from vinecast.peer.peer import Peer
from vinecast.peer.wire.messages import (
    EVENTS_MAX,
    EventFrame,
    Gossip,
    Introduction,
    Leaving,
    encode,
    make_card,
)
from vinecast.systems.common.router import ME
from vinecast.systems.common.wire import AGE_MAX, CYCLE_MAX, HOPS_MAX, VERSION_MAX, Card, CardReference, Entry

LIAR = make_identity()
around = st.sampled_from
sizes = around([0, 1, 31, 32, 33, 63, 64, 65, 8192])
numbers = around([-(2**63), -1, 0, 1, 255, 256, AGE_MAX, AGE_MAX + 1, CYCLE_MAX, 2**64 - 1])
names = st.text(max_size=4) | around(
    ["news", "x" * 255, "x" * 256, "#", "+", "/", "\0", "a//b", "\U0001f347" * 64]
)
addresses = around(
    ["", "127.0.0.1:9", "[::1]:9", "0.0.0.0:0", "a:99999", ":", "x" * 300, "x" * 301, "\n:1", "é:1"]
)


def bytes_of(size: int) -> bytes:
    return bytes(i % 251 for i in range(size))


def signed(address: str, version: int, topics: list[str]) -> Card:
    return make_card(LIAR.sign, "test", LIAR.public, address, version, tuple(sorted(set(topics))))


versions = around([0, 1, 2, VERSION_MAX - 1, VERSION_MAX])
cards = st.one_of(
    st.builds(
        Card,
        public=st.just(LIAR.public) | st.builds(bytes_of, sizes),
        address=addresses,
        version=numbers,
        topics=st.lists(names, max_size=4).map(tuple),
        signature=st.builds(bytes_of, sizes),
    ),
    st.builds(signed, addresses, versions, st.lists(names, max_size=20)),
    st.builds(CardReference, id=st.just(LIAR.id) | st.builds(bytes_of, sizes), version=numbers),
)
entries = st.builds(
    Entry,
    card=cards,
    age=numbers | around([0, 1, AGE_MAX]),
    coverage=st.binary(max_size=4) | st.builds(bytes_of, sizes),
    gaps=st.binary(max_size=16) | st.builds(bytes_of, sizes),
)
true_entries = st.builds(
    Entry,
    card=st.builds(signed, addresses, versions, st.lists(names, max_size=3)),
    age=around([0, 1, AGE_MAX]),
    coverage=st.binary(max_size=4),
    gaps=st.binary(max_size=16),
)
KINDS = [f"{layer}.{what}" for layer in ("cyclon", "vicinity", "rings") for what in ("request", "answer")]
frames = st.one_of(
    st.builds(
        Gossip,
        kind=around([*KINDS, "poldercast.event", "", "x" * 41]),
        cycle=numbers | around([0, 1, CYCLE_MAX]),
        sender=entries | true_entries,
        entries=st.lists(entries | true_entries, max_size=12).map(tuple)
        | true_entries.map(lambda e: (e,) * 65),
    ),
    st.builds(Introduction, sender=entries | true_entries),
    st.builds(Leaving),
    st.builds(
        EventFrame,
        hops=numbers | around([0, HOPS_MAX, HOPS_MAX + 1]),
        events=st.lists(
            st.tuples(st.binary(max_size=80), st.binary(max_size=80)), max_size=EVENTS_MAX + 1
        ).map(tuple),
    ),
)
shapes = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.binary(max_size=40)
    | names,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(names, inner, max_size=3),
    max_leaves=20,
)


def check_views(peer: Peer) -> None:
    """Nobody stands twice in a view, nor the node itself, nor somebody without a name."""
    machine = peer.machine
    half = machine.config.rings.size // 2
    sides = [side for row in machine.rings.peers for side in (row[:half], row[half:])]
    for view in (machine.cyclon.view, machine.vicinity.peers, *sides):
        peers = [number for number in view.tolist() if number != NOBODY]
        assert ME not in peers
        assert len(set(peers)) == len(peers)
        assert set(peers) <= set(peer.peer_table.known())


def feed(given_frames: st.SearchStrategy[Any], encoded: Callable[[Any], bytes], examples: int) -> None:
    """Let a node in a small network swallow whatever comes out of a strategy."""

    async def main() -> None:
        async with village(3) as found:
            reader = found.nodes[1].subscribe("news")
            found.nodes[0].subscribe("news")
            driver, peer = found.nodes[0]._driver, found.nodes[0]._peer
            await until(lambda: peer.is_ready("news"), "rings complete")

            @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
            @given(given_frames)
            def swallow(frame: Any) -> None:
                peer._misbehaviour.begin_cycle(0)
                driver.on_frame(LIAR.id, encoded(frame))
                for layer in ("cyclon", "vicinity", "rings"):
                    driver.feed(TimerFired(layer))
                check_views(peer)

            swallow()
            assert len(peer.counters) <= REASONS_MAX
            while not reader.waiting:  # its views may be full of liars for a while
                await found.nodes[0].publish("news", b"still there", durable=False)
                await driver.next_cycle()
            assert (await anext(reader)).payload == b"still there"

    live(main())


def test_valid_frames_with_absurd_values() -> None:
    def encoded(frame: Any) -> bytes:
        try:
            return encode(frame)
        except OverflowError:  # not even MessagePack can say it
            return b""

    feed(frames, encoded, examples=400)


def test_messagepack_of_any_other_shape() -> None:
    feed(st.tuples(around([0, 1, 2, 3, 4, -1]), shapes) | shapes, msgspec.msgpack.encode, examples=300)


def test_frames_cut_short_or_with_something_after() -> None:
    frame = encode(Introduction(Entry(signed("127.0.0.1:9", 1, ["news"]), 0, b"\1", b"\0\0\0\1")))
    cut = st.integers(0, len(frame)).map(lambda at: frame[:at]) | st.binary(max_size=9).map(
        lambda b: frame + b
    )
    feed(cut, bytes, examples=100)
