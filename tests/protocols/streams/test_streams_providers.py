"""Providing streams, and finding in them what neighbours and replicas lack (S3 §4.5)."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.node.live import FAST, live, take, until, village
from support.protocols.streams_net import CONFIG, TOPIC, Net, chain, event
from vinecast.core.events import Start
from vinecast.core.log.batch_signature import sign_events
from vinecast.core.log.event_record import EventRecord
from vinecast.lab.localnet.attacker import Attacker
from vinecast.peer.streams import durable_runtime
from vinecast.peer.streams import messages as wire
from vinecast.protocols.kademlia import Operation
from vinecast.protocols.streams import Follow, Providers, StreamsConfig, StreamWant, TopicReplicas, Unfollow
from vinecast.protocols.streams.seeking import FOUND_PERIODS, PROVIDERS


def apart(me: int) -> Sequence[int]:
    """0 has the neighbours 1 and 2; nobody else has any."""
    return (1, 2) if me == 0 else ()


def asked(net: Net) -> list[int]:
    """Whom 0 asked for something."""
    return [to for to, _ in net.messages(StreamWant, 0)]


def with_provide(probability: float) -> StreamsConfig:
    return replace(CONFIG, provide=probability)


def test_what_sender_neighbours_and_replicas_lack_is_had_from_a_provider() -> None:
    net = Net(6, with_provide(0.0), links=apart)
    first, second, third = chain(3)
    net.give(5, [first, second])
    net.provided[TOPIC] = [0, 4, 5]
    net.tell(0, TopicReplicas(TOPIC, (3,)))
    net.take(0, third, sender=4)
    net.run(0.5)
    assert net[0].order() == [first.cid, second.cid, third.cid]
    assert asked(net)[0] == 4
    assert sorted(asked(net)[1:4]) == [1, 2, 3]
    assert asked(net)[4:] == [5, 5]  # and the parent of what it sent of whoever sent it
    assert net.looked_up == [(0, TOPIC)]


def test_a_stream_is_provided_once_however_many_events_it_has() -> None:
    net = Net(1, with_provide(1.0))
    net.give(0, chain(300))
    assert net.provided == {TOPIC: [0]}


def test_nobody_provides_who_is_not_to() -> None:
    net = Net(1, with_provide(0.0))
    net.give(0, chain(300))
    net.tell(0, Unfollow(TOPIC))
    net.tell(0, Follow(TOPIC))
    assert net.provided == {}


def test_each_event_is_a_draw() -> None:
    names = [f"topic/{n}" for n in range(400)]
    net = Net(1, with_provide(0.1), follow=map(Follow, names))
    for name in names:
        net.take(0, event(1, topic=name))
    assert 20 < len(net.provided) < 65
    net.provided.clear()
    for name in names:
        net.give(0, chain(20, event(1, topic=name), first=2, topic=name))
    assert 300 < len(net.provided) < 370  # of the 360 that are left some 44 stay without


def test_whoever_comes_back_draws_for_all_that_it_has() -> None:
    net = Net(1, with_provide(0.2))
    net.give(0, chain(100))
    net.provided.clear()
    net.tell(0, Unfollow(TOPIC))
    net.tell(0, Start())
    net.tell(0, Follow(TOPIC))
    assert net.provided == {TOPIC: [0]}


@pytest.mark.parametrize("tries", [1, 2, 3, 12])
@pytest.mark.parametrize("finds", [True, False])
def test_the_search_for_what_nobody_has_ends(finds: bool, tries: int) -> None:
    net = Net(16, replace(CONFIG, tries=tries), links=apart)
    net.finds = finds
    net.provided[TOPIC] = list(range(3, 16))
    net.take(0, event(2, event(1)), sender=1)
    net.run(40)
    repair = net[0].repair
    assert net[0].counts["streams.given up"] == 1
    assert (len(repair.intake.pending), len(repair.seeking.fetcher)) == (0, 0)
    assert len(asked(net)) <= tries + (PROVIDERS if finds else 0)
    assert net.looked_up == [(0, TOPIC)]


def test_providers_are_not_looked_up_all_the_time() -> None:
    net = Net(3, replace(CONFIG, tries=2), links=apart)
    for number in range(10, 60):
        net.take(0, event(number, event(number + 100)), sender=1 + number % 2)
        net.run(0.2)
    assert len(net.looked_up) <= 1 + 10 / FOUND_PERIODS


def test_providers_are_forgotten_after_a_while() -> None:
    net = Net(6, with_provide(0.0), links=apart)
    net.provided[TOPIC] = [5]
    net.take(0, event(2, event(1)), sender=1)
    net.run(3)
    assert 5 in net[0].repair.peers_in_use()
    net.run(FOUND_PERIODS + 8)
    assert 5 not in net[0].repair.peers_in_use()


def test_providers_that_nobody_asked_for_are_harmless() -> None:
    net = Net(2)
    assert net.tell(0, Providers("another", (1,))) == []
    assert net.tell(0, Providers(TOPIC, (0, 1, -1))) == []
    assert net[0].repair.topics[TOPIC].providers == (1,)
    assert net[0].repair.peers_in_use() == {1}


@settings(max_examples=30, deadline=None)
@given(
    having=st.sets(st.integers(1, 9), min_size=1),
    provided=st.sets(st.integers(0, 9)),
    replicas=st.sets(st.integers(1, 9), max_size=3),
    finds=st.booleans(),
)
def test_it_is_found_if_anybody_that_can_be_asked_has_it(
    having: set[int], provided: set[int], replicas: set[int], finds: bool
) -> None:
    net = Net(10, with_provide(0.0), links=apart)
    first, second = chain(2)
    for peer in having:
        net.give(peer, [first])
    net.provided[TOPIC] = sorted(provided)[:PROVIDERS]
    net.finds = finds
    net.tell(0, TopicReplicas(TOPIC, tuple(replicas)))
    net.take(0, second, sender=1)
    net.run(40)
    reachable = {1, 2} | replicas | (set(net.provided[TOPIC]) if finds else set())
    assert (len(net[0].order()) == 2) == bool(having & reachable)
    assert len(net[0].repair.seeking.fetcher) == len(net[0].repair.intake.pending) == 0


def test_a_live_node_finds_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(durable_runtime, "ANSWER_S", 0.3)
        config = replace(FAST, replicas=0, holders=0, provide=1.0)
        async with village(2, sockets=True, config=config) as found:
            provider, reader = found.nodes
            for way in ("_neighbours", "_meet"):  # of all that it could tell of its stream itself
                monkeypatch.setattr(provider._peer.streams.repair, way, lambda *_: [])
            said = await provider.publish_all("news", [b"one", b"two"])
            table = provider._peer.streams.replicas
            await until(lambda: table.table is not None and bool(table.table.own), "it is provided")
            assert table.table is not None
            assert [operation for operation, _ in table.table.own] == [Operation.PROVIDE]
            reading = reader.subscribe("news", "earliest")
            await until(lambda: reader._peer.streams.repair.topics["news"].opened, "nobody told of it")
            assert reader.log("news") == []
            sender = await Attacker("test").connect(reader.address)
            await sender.shake_hands()
            await sender.send(sender.introduction(["news"]))
            record = EventRecord(
                "news", sender.identity.public, 1, 0, b"three", parents=(said[1].cid,), height=3
            )
            (third,) = sign_events("test", [record], sender.identity.sign)
            await until(lambda: reader._peer.peer_table.number_of(sender.identity.id) > 0, "they have met")
            await sender.send(
                wire.encode_stream(wire.CarriedEvents(1, False, ((third.block, third.signature.to_bytes()),)))
            )
            events = await take(reading, 3)
            assert [one.payload for one in events] == [b"one", b"two", b"three"]
            await sender.leave()

    live(main())


@pytest.mark.parametrize("has_room", [True, False])
def test_who_leaves_a_stream_provides_what_it_has_as_long_as_it_has_room(has_room: bool) -> None:
    async def main() -> None:
        async with village(2, config=replace(FAST, replicas=0, holders=0, provide=1.0)) as found:
            node, late = found.nodes
            reading = node.subscribe("news")
            await node.publish("news", b"one")
            replicas, repair = node._peer.streams.replicas, node._peer.streams.repair
            await until(lambda: replicas.table is not None and bool(replicas.table.own), "it is provided")
            if not has_room:
                repair.config = replace(repair.config, others_topics=0)
            await reading.close()
            assert replicas.table is not None
            assert (bool(replicas.table.own), "news" in repair.topics) == (has_room, has_room)
            if has_room:
                (event,) = await take(late.subscribe("news", "earliest"), 1)
                assert event.payload == b"one"

    live(main())
