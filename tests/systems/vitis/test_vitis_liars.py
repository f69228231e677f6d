"""A node of Vitis among liars: whatever they say, it goes on and keeps room for others."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.node.live import live, settled, take, until, village
from support.node.strangers import own, shapes_of
from vinecast.core.events import TimerFired
from vinecast.core.machine import NOBODY
from vinecast.lab.localnet.attacker import Attacker
from vinecast.node.api.node import Node
from vinecast.node.runtime.config import NodeConfig
from vinecast.node.storage.identity_file import make_identity
from vinecast.peer.limits.misbehaviour import TOO_MUCH_GOSSIP
from vinecast.peer.wire.handshake import MISBEHAVED
from vinecast.peer.wire.messages import encode, make_card, system_frame
from vinecast.systems.common.notices import ASKED_MAX
from vinecast.systems.common.wire import TOPICS_MAX, CardReference, Entry
from vinecast.systems.vitis import messages as wire
from vinecast.systems.vitis.messages import NO_ROOM as NO_ROOM_TO_RELAY
from vinecast.systems.vitis.messages import NOT_CARRIED, RELAY_SHARE
from vinecast.systems.vitis.rules import WEIGHT_MAX

VITIS = NodeConfig(period_s=0.1, system="vitis", topics=64, peers=64)

LIAR = make_identity()
CARD = make_card(LIAR.sign, "test", LIAR.public, "127.0.0.1:9", 1, ("news",))


names = st.sampled_from(["news", "talk", "a", "x" * 255, "x" * 256, "#", "", "a//b", "\U0001f347" * 64])
lists = st.lists(names, max_size=4).map(tuple) | names.map(lambda name: (name,) * (TOPICS_MAX + 1))
tolds = st.builds(
    wire.VitisPeerStatus,
    st.sampled_from([CARD, CardReference(LIAR.id, 1), CardReference(bytes(32), 9)]),
    st.integers(0, 65535),
    st.integers(0, TOPICS_MAX * WEIGHT_MAX),
)
peers = st.lists(tolds, max_size=4).map(tuple)
ids = st.lists(st.binary(min_size=32, max_size=32), max_size=3).map(tuple)
rows = st.lists(
    st.builds(wire.ROW.pack, *(st.integers(0, 2) for _ in range(3)), st.integers(0, 255)), max_size=4
).map(b"".join) | st.binary(max_size=20)  # fmt: skip
counts = st.integers(0, 2**63 - 1)
numbers = st.lists(counts, min_size=1, max_size=5).map(tuple)
hops = st.integers(0, 32_000)
frames = st.one_of(
    st.builds(wire.VitisExchange, st.integers(0, 3), counts, tolds, peers),
    st.builds(wire.VitisProfile, st.booleans(), counts, tolds, ids, rows, peers),
    st.builds(wire.Relay, lists),
    st.builds(wire.HaveEvent, names, hops, st.booleans(), numbers),
    st.builds(wire.WantEvent, hops, st.booleans(), numbers),
)
shapes = shapes_of(names)


def check_books(node: Node, config: NodeConfig = VITIS) -> None:
    """Nothing that a stranger can make grow is larger than it may be."""
    peer = node._peer
    system: Any = peer.system
    machine, topics = peer.machine, peer.peer_table.topics
    assert len(topics.known()) <= config.topics
    assert len({*peer.counters, *node._driver.counters}) <= 80
    assert len(system.router._unmet) <= config.peers
    for number in system._relayed._held:
        assert topics.names[number] is not None
    assert machine.notices.peers() <= set(peer.peer_table.known())
    assert machine.peers_in_use() <= set(peer.peer_table.known())
    said = machine.shared.proposals.said
    assert (said.gateway >= 0).all()
    assert (said.gateway < peer.peer_table.profiles.peers).all()


@pytest.mark.parametrize("shape", ["absurd", "any", "cut"])
def test_a_node_takes_whatever_comes_and_goes_on(shape: str) -> None:
    whole = system_frame(
        wire.VitisProfile(False, 1, wire.VitisPeerStatus(CARD, 0, 1), (bytes(32),), bytes(7), ())
    )
    tried = {
        "absurd": frames.map(system_frame),
        "any": (st.tuples(st.integers(-1, 9), names) | shapes).map(own),
        "cut": st.integers(0, len(whole)).map(lambda at: whole[:at]),
    }

    async def main() -> None:
        async with village(2, config=VITIS) as found:
            one, other = found.nodes
            reader = await one.subscribe("news").ready()
            one._peer.peer_table.meet(Entry(CARD, 0, b"", b""), LIAR.id)

            @settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
            @given(tried[shape])
            def swallow(data: bytes) -> None:
                one._peer._misbehaviour.begin_cycle(0)
                one._driver.on_frame(LIAR.id, data)
                for timer in ("cyclon", "tman", "tman.profile", "notices.pull"):
                    one._driver.feed(TimerFired(timer))
                check_books(one)

            swallow()
            while not reader.waiting:  # it may not be the other's neighbour at the moment
                await other.publish("news", b"still there", durable=False)
                await one._driver.next_cycle()
            assert (await anext(reader)).payload == b"still there"

    live(main())


async def attacked(attack: Callable[[Node, Attacker], Any], config: NodeConfig = VITIS) -> None:
    """A network over real sockets, a stranger in it, and what the stranger does."""
    async with village(2, sockets=True, config=config) as found:
        victim, other = found.nodes
        reader, _ = victim.subscribe("news"), other.subscribe("news")
        await settled(found)
        stranger = await Attacker("test").connect(victim.address)
        await stranger.shake_hands(system="vitis")
        await stranger.send(stranger.introduction())
        await until(lambda: stranger.identity.id in victim._driver.transport.connections(), "a link to it")
        await attack(victim, stranger)
        check_books(victim, config)
        await other.publish("news", b"still there")
        assert (await take(reader, 1))[0].payload == b"still there"
        await stranger.leave()


def test_who_asks_to_relay_without_end_takes_no_room_from_others() -> None:
    async def attack(victim: Node, stranger: Attacker) -> None:
        invented = [f"invented/{n}" for n in range(8 * VITIS.topics)]
        await stranger.send(*(system_frame(wire.Relay(tuple(invented[n : n + 64]))) for n in (0, 64, 128)))
        counters = victim._peer.counters
        await until(lambda: counters[NO_ROOM_TO_RELAY] > 0, "refusals")
        for n in range(10):
            await victim.subscribe(f"own/{n}").ready()
        asked = [name for name in victim._peer.peer_table.topics.known() if name.startswith("invented")]
        assert len(asked) <= 3 * VITIS.topics // RELAY_SHARE
        await until(
            lambda: not any(name.startswith("inv") for name in victim._peer.peer_table.topics.known()),
            "what nobody asks for again is forgotten",
        )

    live(attacked(attack))


def test_who_asks_to_relay_too_often_is_shunned() -> None:
    async def attack(victim: Node, stranger: Attacker) -> None:
        request = system_frame(wire.Relay(("news",)))
        for _ in range(64):
            if not await stranger.send(*[request] * 512):
                break
        assert await stranger.refused() == MISBEHAVED
        assert victim._peer.counters["refused: too many requests"] > 0

    live(attacked(attack))


def test_who_gossips_without_end_is_shunned() -> None:
    async def attack(victim: Node, stranger: Attacker) -> None:
        told = wire.VitisPeerStatus(stranger.card(("news",)), 0, 1)
        gossip = system_frame(wire.VitisProfile(False, 1, told, (), b"", ()))
        for _ in range(64):
            if not await stranger.send(*[gossip] * 512):
                break
        assert await stranger.refused() == MISBEHAVED
        assert victim._peer.counters[f"refused: {TOO_MUCH_GOSSIP}"] > 0

    live(attacked(attack, replace(VITIS, period_s=0.3)))


def test_notices_of_events_that_never_come_are_bounded_and_given_up() -> None:
    async def attack(victim: Node, stranger: Attacker) -> None:
        counters, notices = victim._peer.counters, victim._peer.machine.notices
        for begin in range(0, 2 * ASKED_MAX, wire.NUMBERS_MAX):
            events = tuple(range(begin, begin + wire.NUMBERS_MAX))
            await stranger.send(system_frame(wire.HaveEvent("news", 1, False, events)))
        await stranger.answered()
        assert counters["vitis.told too much"] > 0
        assert len(notices._waiting) <= ASKED_MAX
        await stranger.send(system_frame(wire.HaveEvent("nobody's", 1, False, (1, 2))))
        await stranger.answered()
        assert counters[NOT_CARRIED] == 2
        await until(lambda: not notices._waiting, "they are given up")
        assert counters["vitis.pull unanswered"] >= ASKED_MAX

    quick = replace(VITIS.vitis, pull_timeout_s=0.5)
    live(attacked(attack, replace(VITIS, vitis=quick)))


def test_events_that_are_not_here_are_asked_for_in_vain() -> None:
    async def attack(victim: Node, stranger: Attacker) -> None:
        for begin in range(0, 1024, wire.NUMBERS_MAX):
            events = tuple(range(begin, begin + wire.NUMBERS_MAX))
            await stranger.send(system_frame(wire.WantEvent(1, False, events)))
        await stranger.answered()
        assert victim._peer.counters["vitis.asked in vain"] == 1024

    live(attacked(attack))


def test_who_proposes_what_there_is_not_takes_no_topic_away() -> None:
    """A liar's neighbours may take an invented gateway for theirs; among themselves they go on."""

    async def attack(victim: Node, stranger: Attacker) -> None:
        card = stranger.card(("news",))
        named = (bytes(32), hashlib.sha256(b"nobody").digest())
        for cycle in range(4):
            told = wire.VitisPeerStatus(card, 0, 1)
            profile = wire.VitisProfile(False, cycle, told, named, wire.ROW.pack(0, 1, 2, 1), ())
            await stranger.send(system_frame(profile))
            await victim._driver.next_cycle()
        assert stranger.identity.id in {
            victim._peer.peer_table.id_of(peer) for peer in victim._peer.machine.neighbours()
        }

    live(attacked(attack))


def test_other_systems_frames_are_refused() -> None:
    async def main() -> None:
        async with village(2, config=VITIS) as found:
            driver, peer, other = found.nodes[0]._driver, found.nodes[0]._peer, found.nodes[1].id
            await until(lambda: peer.peer_table.number_of(other) != NOBODY, "they have met")
            stranger = Attacker("test")
            driver.on_frame(other, encode(stranger.gossip()))
            assert peer.counters["refused: unknown kind of message"] == 1
            driver.on_frame(other, own([3, "a//b", 1, False, [1]]))
            driver.on_frame(other, own([2, ["a//b"]]))
            assert peer.counters["refused: message about an impossible topic"] == 2
            driver.on_frame(LIAR.id, own([4, 1, False, [1]]))
            assert peer.counters["refused: sender without a card"] == 1

    live(main())
