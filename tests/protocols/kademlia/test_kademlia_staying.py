"""Kademlia's machine over time: who stays in its buckets, which values live on, and whatever peers send."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from support.protocols.kademlia import (
    BLOCK,
    BLOCK_KEY,
    KEEP_UP,
    KEYS,
    NAME,
    SECOND,
    TIME_OUT,
    crowd,
    do,
    hear,
    machine,
    member,
    nearest,
    said,
    settle,
)
from vinecast.core.events import Count, Event, PeerLost, Received, Send, Start, Stop
from vinecast.core.events import TimerFired as Fired
from vinecast.core.machine import NOBODY
from vinecast.protocols.kademlia import (
    MESSAGES,
    KademliaAnswer,
    KademliaFind,
    KademliaGoodbye,
    KademliaPing,
    KademliaPong,
    KademliaProvide,
    KademliaStore,
    KademliaStored,
    Operation,
    key_of_point,
)
from vinecast.protocols.kademlia.messages import PEERS, PROVIDERS, VALUE
from vinecast.protocols.kademlia.storage import Held

# Staying.


def test_the_least_recently_seen_must_answer_to_stay() -> None:
    row = [peer for peer in range(1, 40) if (int(KEYS[peer]) ^ int(KEYS[0])).bit_length() == 64]
    node = member(0, *row[:4], probes=0)
    assert said(hear(node, row[4], KademliaPing(1)), KademliaPing) == []  # all were heard from just now
    asked = hear(node, row[4], KademliaPing(1), 2 * SECOND)
    assert said(asked, KademliaPing) == [row[0]]
    assert said(hear(node, row[5], KademliaPing(1), 2 * SECOND), KademliaPing) == []  # one at a time
    hear(node, row[0], KademliaPong(max(node.requests.open)), 2 * SECOND)
    assert node.buckets.rows[63] == [row[1], row[2], row[3], row[0]]
    assert said(hear(node, row[5], KademliaPing(1), 2 * SECOND), KademliaPing) == [row[1]]
    node.handle(TIME_OUT, 3 * SECOND)
    node.handle(TIME_OUT, 4 * SECOND)
    assert node.buckets.rows[63] == [row[2], row[3], row[0], row[5]]


def test_a_round_pings_the_silent_and_looks_around() -> None:
    node = member(0, *range(1, 6), probes=2, lookup_periods=2, nearest=8)
    hear(node, 1, KademliaPong(0), 5 * SECOND)
    first = node.handle(KEEP_UP, 5 * SECOND)
    assert set(said(first, KademliaPing)) == {2, 3}
    second = node.handle(KEEP_UP, 6 * SECOND)
    assert not {2, 3} & set(said(second, KademliaPing))  # they have still to answer
    own = key_of_point(int(KEYS[0]))
    assert own in [
        e.message.key for e in second if isinstance(e, Send) and isinstance(e.message, KademliaFind)
    ]


def test_a_bucket_that_nobody_looked_into_is_refreshed() -> None:
    node = member(0, *range(1, 6), probes=0, lookup_periods=10, refresh_s=100.0)
    node.handle(KEEP_UP, SECOND)
    assert not node.tasks
    node.handle(KEEP_UP, 200 * SECOND)
    ((operation, key),) = node.tasks
    assert operation == Operation.CLOSEST
    row = (int.from_bytes(key[:8], "big") ^ int(KEYS[0])).bit_length() - 1
    assert row >= node.buckets.depth


# Values that live on.


def test_a_holder_stores_again_what_nobody_else_did_and_only_then() -> None:
    nodes = crowd(6, republish_s=100.0, expire_s=1000.0, nearest=3)
    do(nodes, 0, nodes[0].put(BLOCK_KEY, BLOCK, 0))
    nodes[0].forget(BLOCK_KEY)
    holder = next(node for node in nodes.values() if node.storage.value(BLOCK_KEY))
    held = holder.storage.value(BLOCK_KEY)
    assert held is not None
    assert 100 * SECOND <= held.due_us < 150 * SECOND
    hear(holder, 1, KademliaStore(7, BLOCK_KEY, BLOCK, SECOND), 90 * SECOND)
    assert held.due_us >= 190 * SECOND  # somebody else did
    assert held.expires_us == 1000 * SECOND  # and it lives no shorter for that
    holder.handle(KEEP_UP, 160 * SECOND)
    assert (Operation.PUT, BLOCK_KEY) not in holder.tasks
    holder.handle(KEEP_UP, 300 * SECOND)
    assert (Operation.PUT, BLOCK_KEY) in holder.tasks
    assert not holder.take_results()


def test_storing_again_does_not_prolong_a_life() -> None:
    node = member(3, 1, 2, nearest=2, republish_s=100.0, expire_s=1000.0)
    hear(node, 1, KademliaStore(1, BLOCK_KEY, BLOCK, 10**15))
    effects = node.handle(KEEP_UP, 400 * SECOND)
    stores: list[Any] = []
    while not stores:
        finds = [e for e in effects if isinstance(e, Send) and isinstance(e.message, KademliaFind)]
        effects = []
        for find in finds:
            assert isinstance(find.message, KademliaFind)
            effects += hear(node, find.to, KademliaAnswer(find.message.number, ()), 400 * SECOND)
        stores = [e.message for e in effects if isinstance(e, Send) and isinstance(e.message, KademliaStore)]
    assert {store.left_us for store in stores} == {600 * SECOND}
    assert Count("kademlia.expired") in node.handle(KEEP_UP, 1000 * SECOND)
    assert node.storage.records == 0


def test_an_owner_renews_what_it_put_and_provides() -> None:
    node = member(3, 1, republish_s=100.0, expire_s=1000.0)
    node.put(BLOCK_KEY, BLOCK, 0)
    node.provide(NAME, 0)
    node.handle(Start((1,)), SECOND)
    hear(node, 1, KademliaAnswer(max(node.requests.open), ()), SECOND)
    node.handle(KEEP_UP, 2 * SECOND)  # what became of it before the restart it cannot know
    assert {(Operation.PUT, BLOCK_KEY), (Operation.PROVIDE, NAME)} <= set(node.tasks)
    node.tasks.clear()
    node.handle(KEEP_UP, 400 * SECOND)
    assert (Operation.PROVIDE, NAME) not in node.tasks
    node.handle(KEEP_UP, 600 * SECOND)
    assert {(Operation.PUT, BLOCK_KEY), (Operation.PROVIDE, NAME)} <= set(node.tasks)


def test_a_value_that_is_not_true_any_longer_is_dropped_instead_of_stored_again() -> None:
    node = member(3, 1, republish_s=100.0, expire_s=1000.0)
    hear(node, 1, KademliaStore(1, NAME, b"name:1", SECOND * 500))
    node._validator = None
    node.handle(KEEP_UP, 200 * SECOND)
    assert node.storage.records == 0


def test_who_is_not_among_the_nearest_any_longer_gives_a_value_up_when_they_have_it() -> None:
    nodes = crowd(30)
    far = nodes[nearest(BLOCK_KEY, 30, range(30))[-1]]
    far.storage.keep(Held(BLOCK_KEY, BLOCK, NOBODY, sender=1, expires_us=10**12))
    settle(nodes, [(far.me, e) for e in far.handle(KEEP_UP, 200 * SECOND)], 200 * SECOND)
    assert far.storage.value(BLOCK_KEY) is None
    for peer in nearest(BLOCK_KEY, 4, range(30)):
        assert nodes[peer].storage.value(BLOCK_KEY) is not None


# Whatever peers send.

numbers = st.integers(-3, 50) | st.integers(-(2**70), 2**70)
peer_lists = st.lists(numbers, max_size=100).map(tuple)
keys = st.sampled_from([NAME, BLOCK_KEY, key_of_point(7), b"", b"x" * 33]) | st.binary(max_size=40)
values = st.sampled_from([b"", BLOCK, b"name:3", b"name:x", bytes(5000)]) | st.binary(max_size=20)
messages = st.one_of(
    st.builds(KademliaPing, numbers),
    st.builds(KademliaPong, numbers),
    st.builds(KademliaFind, numbers, keys, st.sampled_from([PEERS, VALUE, PROVIDERS, -1, 2**70])),
    st.builds(KademliaAnswer, numbers, peer_lists, peer_lists, values),
    st.builds(KademliaStore, numbers, keys, values, numbers),
    st.builds(KademliaProvide, numbers, keys),
    st.builds(KademliaStored, numbers, st.booleans()),
    st.builds(KademliaGoodbye),
)
happenings = st.one_of(
    st.builds(Received, st.integers(0, 39), messages),
    st.sampled_from([KEEP_UP, TIME_OUT, Fired("kademlia.join"), Start((1, 2)), Stop()]),
    st.builds(PeerLost, st.integers(-1, 50)),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(happenings, max_size=60))
def test_whatever_peers_send_a_machine_lives_on_within_its_bounds(events: list[Event]) -> None:
    config: dict[str, Any] = {"records_max": 5, "value_bytes_max": 1000, "providers_max": 2, "nearest": 3}
    node = machine(0, (1, 2, 3), **config)
    now_us = 0
    for number, event in enumerate(events):
        now_us += 100_000
        if number == 5:
            node.get(NAME, now_us)
            node.providers(BLOCK_KEY, now_us)
            node.put(BLOCK_KEY, BLOCK, now_us)
        node.handle(event, now_us)
        assert node.storage.records <= 5
        assert all(len(row) <= 3 for row in [*node.buckets.rows, *node.buckets.spare])
        assert 0 not in node.buckets.known
        assert len(node.buckets.heard_us) == sum(map(len, [*node.buckets.rows, *node.buckets.spare]))
        assert node.in_use <= set(range(40))
        for found in node.take_results():
            assert len(found.peers) <= 40
            assert found.value in (b"", BLOCK) or found.key == NAME


def test_messages_are_listed_and_have_kinds_of_their_own() -> None:
    assert len({message.kind for message in MESSAGES}) == len(MESSAGES)
    assert all(message.kind.startswith("kademlia.") for message in MESSAGES)
