"""What nodes of Vitis say to each other: heard as it was said, and whatever else comes is refused."""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.live import live, settled, take, until, village
from support.own_frames import read_own
from support.strangers import own, shapes_of
from vinecast.core.arrays.profiles import place_of
from vinecast.core.errors import RemoteError
from vinecast.core.events import Message
from vinecast.core.machine import NOBODY
from vinecast.lab.localnet.attacker import Attacker
from vinecast.node.api.node import Node
from vinecast.node.runtime.config import NodeConfig
from vinecast.node.storage.identity_file import make_identity
from vinecast.peer.codecs.codec import Codec
from vinecast.peer.codecs.frame_codec import NAMES_BYTES, FrameCodec
from vinecast.peer.codecs.joiner import Joiner
from vinecast.peer.codecs.status_codec import StatusCodec
from vinecast.peer.identity import Identity, verify
from vinecast.peer.limits.misbehaviour import TOO_MUCH_GOSSIP
from vinecast.peer.table.peer_table import PeerTable
from vinecast.peer.wire.handshake import MISBEHAVED
from vinecast.peer.wire.messages import encode, make_card, system_frame
from vinecast.protocols.cyclon.machine import CyclonAnswer, CyclonRequest
from vinecast.protocols.gateway import Proposed
from vinecast.protocols.relay_path import RelayRequest
from vinecast.protocols.tman import TManAnswer, TManEcho, TManProfile, TManRequest
from vinecast.systems.common.notices import ASKED_MAX, Notice, Pull
from vinecast.systems.common.router import ME
from vinecast.systems.common.wire import TOPICS_MAX, CardReference, Entry
from vinecast.systems.vitis import messages as wire
from vinecast.systems.vitis.machine import VitisProfiles
from vinecast.systems.vitis.messages import NO_ROOM as NO_ROOM_TO_RELAY
from vinecast.systems.vitis.messages import NOT_CARRIED, RELAY_SHARE
from vinecast.systems.vitis.rules import WEIGHT_MAX
from vinecast.systems.vitis.words import NO_ROOM, UnmetPeers, VitisWords

VITIS = NodeConfig(period_s=0.1, system="vitis", topics=64, peers=64)
STRANGERS = 6
LIAR = make_identity()
CARD = make_card(LIAR.sign, "test", LIAR.public, "127.0.0.1:9", 1, ("news",))
TOPICS = ("a", "b", "c", "d", "news")


class Side:
    """One node, as far as its codec is concerned."""

    def __init__(self, number: int, topics: Sequence[str] = TOPICS) -> None:
        self.identity = Identity(hashlib.sha256(b"%d" % number).digest())
        public, sign = self.identity.public, self.identity.sign
        self.peer_table = peer_table = PeerTable(public, sign, verify, "test", 64, 64, unmet=STRANGERS)
        for name in ("something else", "x", "y")[:number]:
            peer_table.topics.take(name)  # the same topic has other numbers there
        peer_table.renew("127.0.0.1:9", 1, topics)
        self.shared = VitisProfiles(peer_table.profiles, np.zeros(64, dtype=np.int32))
        self.strangers, self.counters = UnmetPeers(peer_table, 64), Counter[str]()
        mine = set(peer_table.profiles.topics_of(ME).tolist())
        self.words = VitisWords(peer_table, self.shared, self.strangers, mine.__contains__, self.counters)
        self.codec = StatusCodec(Codec(peer_table), peer_table, self.words)

    @property
    def id(self) -> bytes:
        return self.identity.id

    def meets(self, other: "Side") -> int:
        entry = other.peer_table.describe(ME, 0)
        assert entry is not None
        return self.peer_table.meet(entry, other.id)

    def tell(self, other: "Side", message: Message) -> tuple[int, Any]:
        """What another one makes of a message of this one."""
        inner = heard(system_frame(self.codec.pack(other.id, message)))
        assert isinstance(inner, wire.VitisExchange | wire.VitisProfile)
        return other.codec.read(self.id, inner)


def heard(data: bytes) -> Any:
    return read_own(data, wire.FRAMES, wire.VitisExchange, wire.VitisProfile)


def joiner_over(peer_table: PeerTable, send: Callable[[int, bytes, int], bool]) -> Joiner:
    codec = FrameCodec(wire.FRAMES, Codec(peer_table), lambda number: peer_table.topics.names[number] or "")
    return Joiner(send, codec)


@given(
    st.sampled_from([CyclonRequest, CyclonAnswer, TManRequest, TManAnswer]),
    st.integers(0, 2**63 - 1),
    st.lists(st.tuples(st.integers(0, 65535), st.integers(0, TOPICS_MAX * WEIGHT_MAX)), max_size=4),
)
@settings(max_examples=40, deadline=None)
def test_an_exchange_is_heard_as_it_was_said(
    kind: type[Any], cycle: int, told: list[tuple[int, int]]
) -> None:
    here, there = Side(0), Side(1)
    here.shared.weights.total[ME] = 77
    others = [Side(5 + n, TOPICS[:n]) for n in range(len(told))]
    numbers = [here.meets(other) for other in others]
    for number, (_, weight) in zip(numbers, told, strict=True):
        here.shared.weights.total[number] = weight
    ages = [age for age, _ in told]
    message = kind(cycle, np.array([ME, *numbers], np.int32), np.array([0, *ages], np.uint16))
    for _ in range(2):  # the second time, cards are not sent again
        sender, got = here.tell(there, message)
        assert there.peer_table.id_of(sender) == here.id
        assert type(got) is kind
        assert got.cycle == cycle
        assert got.ages.tolist() == [0, *ages]
        heard = [there.peer_table.id_of(number) for number in got.peers.tolist()]
        assert heard == [here.id, *(other.id for other in others)]
        totals = there.shared.weights.total
        assert totals[sender] == 77
        for n, (number, (_, weight)) in enumerate(zip(got.peers.tolist()[1:], told, strict=True)):
            assert totals[number] == max(weight, n)  # nobody's topics weigh nothing


proposals = st.lists(
    st.tuples(st.sampled_from(TOPICS), st.integers(0, 4), st.integers(0, 4), st.integers(1, 255)),
    max_size=5,
    unique_by=lambda row: row[0],
)


@given(proposals, st.booleans())
@settings(max_examples=60, deadline=None)
def test_proposals_are_heard_as_they_were_said(
    rows: list[tuple[str, int, int, int]], is_answer: bool
) -> None:
    """Gateways and parents: one whom both know, the receiver, and three whom nobody knows."""
    here, there = Side(0), Side(1, ("b", "c", "news", "not there"))
    known = Side(2)
    named = [known.id, there.id, *(hashlib.sha256(b"stranger %d" % n).digest() for n in range(3))]
    here.meets(known), here.meets(there), there.meets(known)
    numbers = [here.strangers.number_of(peer) for peer in named]
    own = here.peer_table.profiles.topics_of(ME).tolist()
    count = len(own)
    proposed = Proposed(np.zeros(count, np.int32), np.zeros(count, np.int32), np.zeros(count, np.uint8))
    for topic, gateway, parent, hops in rows:
        at = own.index(here.peer_table.topics.number_of(topic))
        proposed.gateway[at], proposed.parent[at] = numbers[gateway], numbers[parent]
        proposed.hops[at] = hops
    here.shared.proposals.say(ME, proposed)
    one = np.zeros(1, np.int32), np.zeros(1, np.uint16)
    sender, got = here.tell(there, (TManEcho if is_answer else TManProfile)(3, *one))
    assert got.peers.tolist() == [sender]
    said, profiles = there.shared.proposals.said, there.peer_table.profiles
    wanted = {topic: rest for topic, *rest in rows}
    for at, number in enumerate(profiles.topics_of(sender).tolist(), int(profiles.beg[sender])):
        topic = there.peer_table.topics.names[number]
        assert topic is not None
        if topic not in wanted or topic not in there.peer_table.topics_of(ME):
            assert (said.gateway[at], said.parent[at], said.hops[at]) == (sender, sender, 0)
            continue
        gateway, parent, hops = wanted[topic]
        assert there.strangers.id_of(int(said.gateway[at])) == named[gateway]
        assert there.strangers.id_of(int(said.parent[at])) == named[parent]
        assert profiles.place[said.gateway[at]] == place_of(int.from_bytes(named[gateway][:8], "big"))
        assert said.hops[at] == hops


def test_who_is_introduced_is_met() -> None:
    here, there, third = Side(0), Side(1), Side(2)
    here.meets(there)
    number = here.meets(third)
    peers, ages = np.array([ME, number], np.int32), np.array([0, 7], np.uint16)
    _, got = here.tell(there, TManEcho(1, peers, ages))
    assert [there.peer_table.id_of(peer) for peer in got.peers.tolist()] == [here.id, third.id]
    assert got.ages.tolist() == [0, 7]


def test_what_topics_weigh_is_believed_from_whoever_heard_last() -> None:
    here, there, third = Side(0), Side(1), Side(2)
    here.meets(there)
    number = here.meets(third)
    for age, weight, believed in ((5, 50, 50), (7, 70, 50), (2, 20, 20), (2, 3, len(TOPICS))):
        here.shared.weights.total[number] = weight
        peers, ages = np.array([number], np.int32), np.array([age], np.uint16)
        _, got = here.tell(there, TManRequest(1, peers, ages))
        assert there.shared.weights.total[int(got.peers[0])] == believed
    third.peer_table.renew("127.0.0.1:9", 2, ("a",))
    there.meets(third)
    assert there.shared.weights.total[there.peer_table.number_of(third.id)] == 1  # other topics, unheard of


def test_strangers_have_room_for_so_many() -> None:
    here, there = Side(0), Side(1)
    here.meets(there)
    sender = there.meets(here)
    named = tuple(hashlib.sha256(b"%d" % n).digest() for n in range(STRANGERS + 2))
    own = here.peer_table.describe(ME, 0)
    assert own is not None
    told = wire.VitisPeerStatus(own.card, 0, 5)
    for first in range(0, STRANGERS + 2, 2):
        rows = b"".join(wire.ROW.pack(at, first + 1, first + 2, 1) for at in range(len(TOPICS)))
        there.codec.read(here.id, wire.VitisProfile(False, 1, told, named, rows, ()))
    assert len(there.strangers) == STRANGERS
    assert there.counters[NO_ROOM] == 2 * len(TOPICS)
    said, profiles = there.shared.proposals.said, there.peer_table.profiles
    begin = int(profiles.beg[sender])
    assert set(said.gateway[begin : begin + len(TOPICS)].tolist()) == {sender}  # the last were not taken
    kept = there.strangers.number_of(named[0])
    there.strangers.sweep([kept])
    assert len(there.strangers) == 1
    assert there.strangers.id_of(kept) == named[0]
    assert there.strangers.number_of(named[-1]) != NOBODY


def test_a_stranger_is_forgotten_with_all_who_propose_it() -> None:
    here, there = Side(0), Side(1)
    here.meets(there)
    sender = there.meets(here)
    named = tuple(hashlib.sha256(b"%d" % n).digest() for n in range(STRANGERS))
    told = wire.VitisPeerStatus(CardReference(here.id, 1), 0, 5)
    rows = b"".join(wire.ROW.pack(at, at + 1, at + 2, 1) for at in range(len(TOPICS)))
    said, begin = there.shared.proposals.said, int(there.peer_table.profiles.beg[sender])
    profile = wire.VitisProfile(False, 1, told, named, rows, ())
    there.codec.read(here.id, profile)
    proposed = said.gateway[begin : begin + len(TOPICS)].tolist()
    there.words.forget_unmet([sender], [*proposed, *said.parent.tolist()])
    assert len(there.strangers) == STRANGERS  # a neighbour proposes them
    there.words.forget_unmet([], [])
    assert len(there.strangers) == 0
    assert set(said.gateway[begin : begin + len(TOPICS)].tolist()) == {sender}
    there.codec.read(here.id, profile)
    there.codec.read(here.id, wire.VitisProfile(False, 1, told, (), b"", ()))
    assert set(said.gateway[begin : begin + len(TOPICS)].tolist()) == {sender}
    with pytest.raises(RemoteError):
        there.codec.read(here.id, wire.VitisProfile(False, 1, told, (), b"x", ()))


@pytest.mark.parametrize(
    ("named", "rows"),
    [
        ((), wire.ROW.pack(0, 1, 0, 1)),
        ((), wire.ROW.pack(0, 0, 1, 1)),
        ((), wire.ROW.pack(len(TOPICS), 0, 0, 1)),
        ((bytes(32),), wire.ROW.pack(0, 1, 65535, 1)),
        ((), b"x"),
    ],
)
def test_proposals_of_nobody_are_refused(named: tuple[bytes, ...], rows: bytes) -> None:
    here, there = Side(0), Side(1)
    there.meets(here)
    told = wire.VitisPeerStatus(CardReference(here.id, 1), 0, 5)
    with pytest.raises(RemoteError, match="proposal"):
        there.codec.read(here.id, wire.VitisProfile(False, 1, told, named, rows, ()))


def test_nobody_speaks_for_others() -> None:
    here, there = Side(0), Side(1)
    there.meets(here)
    told = wire.VitisPeerStatus(CardReference(here.id, 1), 0, 5)
    with pytest.raises(RemoteError, match="another peer"):
        there.codec.read(LIAR.id, wire.VitisExchange(0, 1, told, ()))
    unknown = wire.VitisPeerStatus(CardReference(LIAR.id, 1), 0, 5)
    with pytest.raises(RemoteError, match="without a card"):
        there.codec.read(LIAR.id, wire.VitisExchange(0, 1, unknown, ()))


def test_small_messages_share_frames() -> None:
    peer_table = Side(0).peer_table
    sent: list[tuple[int, Any, int]] = []

    def send(to: int, data: bytes, things: int) -> bool:
        sent.append((to, heard(data), things))
        return to != 9

    box, many = joiner_over(peer_table, send), wire.NUMBERS_MAX + 1
    a, b = (peer_table.topics.number_of(name) for name in ("a", "b"))
    assert a is not None
    assert b is not None
    for number in range(many):
        assert box.put(1, Notice(a, number, 2, False))
    assert box.put(9, Notice(a, 0, 2, False))
    assert box.put(1, Notice(b, 0, 2, True))
    assert box.put(1, Pull(a, 5, 1, False))
    assert box.put(1, Pull(b, 6, 1, False))
    assert box.put(2, RelayRequest((a, b)))
    assert not box.put(1, TManProfile(1, np.zeros(0, np.int32), np.zeros(0, np.uint16)))
    told = box.flush()
    assert sent == [
        (1, wire.WantEvent(1, False, (5, 6)), 2),
        (1, wire.HaveEvent("a", 2, False, tuple(range(many - 1))), many - 1),
        (1, wire.HaveEvent("a", 2, False, (many - 1,)), 1),
        (9, wire.HaveEvent("a", 2, False, (0,)), 1),
        (1, wire.HaveEvent("b", 2, True, (0,)), 1),
        (2, wire.Relay(("a", "b")), 2),
    ]
    assert told[0] == 2  # of two events on two topics with the same number, one each; 9 was not reached
    assert told[1] == 1
    assert not box.flush()
    names = [f"{n:05}" + "x" * 200 for n in range(NAMES_BYTES // 100)]
    peer_table = PeerTable(LIAR.public, LIAR.sign, verify, "test", 64, 4096)
    box = joiner_over(peer_table, send)
    many_topics = [peer_table.topics.take(name) or 0 for name in names]
    sent.clear()
    box.put(1, RelayRequest(tuple(many_topics)))
    box.flush()
    assert len(sent) == 3
    assert [name for _, relay, _ in sent for name in relay.topics] == names


# A node among liars.

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
    driver = node._driver
    system: Any = driver.system
    machine, topics = driver.machine, driver.peer_table.topics
    assert len(topics.known()) <= config.topics
    assert len(driver.counters) <= 80
    assert len(system.router._unmet) <= config.peers
    for number in system._relayed._held:
        assert topics.names[number] is not None
    assert machine.notices.peers() <= set(driver.peer_table.known())
    assert machine.peers_in_use() <= set(driver.peer_table.known())
    said = machine.shared.proposals.said
    assert (said.gateway >= 0).all()
    assert (said.gateway < driver.peer_table.profiles.peers).all()


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
            one._driver.peer_table.meet(Entry(CARD, 0, b"", b""), LIAR.id)

            @settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
            @given(tried[shape])
            def swallow(data: bytes) -> None:
                one._driver._misbehaviour.begin_cycle(0)
                one._driver.on_frame(LIAR.id, data)
                for timer in ("cyclon", "tman", "tman.profile", "notices.pull"):
                    one._driver.cycles.ring(timer)
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
        counters = victim._driver.counters
        await until(lambda: counters[NO_ROOM_TO_RELAY] > 0, "refusals")
        for n in range(10):
            await victim.subscribe(f"own/{n}").ready()
        asked = [name for name in victim._driver.peer_table.topics.known() if name.startswith("invented")]
        assert len(asked) <= 3 * VITIS.topics // RELAY_SHARE
        await until(
            lambda: not any(name.startswith("inv") for name in victim._driver.peer_table.topics.known()),
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
        assert victim._driver.counters["refused: too many requests"] > 0

    live(attacked(attack))


def test_who_gossips_without_end_is_shunned() -> None:
    async def attack(victim: Node, stranger: Attacker) -> None:
        told = wire.VitisPeerStatus(stranger.card(("news",)), 0, 1)
        gossip = system_frame(wire.VitisProfile(False, 1, told, (), b"", ()))
        for _ in range(64):
            if not await stranger.send(*[gossip] * 512):
                break
        assert await stranger.refused() == MISBEHAVED
        assert victim._driver.counters[f"refused: {TOO_MUCH_GOSSIP}"] > 0

    live(attacked(attack, replace(VITIS, period_s=0.3)))


def test_notices_of_events_that_never_come_are_bounded_and_given_up() -> None:
    async def attack(victim: Node, stranger: Attacker) -> None:
        counters, notices = victim._driver.counters, victim._driver.machine.notices
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
        assert victim._driver.counters["vitis.asked in vain"] == 1024

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
            victim._driver.peer_table.id_of(peer) for peer in victim._driver.machine.neighbours()
        }

    live(attacked(attack))


def test_other_systems_frames_are_refused() -> None:
    async def main() -> None:
        async with village(2, config=VITIS) as found:
            driver, peer = found.nodes[0]._driver, found.nodes[1].id
            await until(lambda: driver.peer_table.number_of(peer) != NOBODY, "they have met")
            stranger = Attacker("test")
            driver.on_frame(peer, encode(stranger.gossip()))
            assert driver.counters["refused: unknown kind of message"] == 1
            driver.on_frame(peer, own([3, "a//b", 1, False, [1]]))
            driver.on_frame(peer, own([2, ["a//b"]]))
            assert driver.counters["refused: message about an impossible topic"] == 2
            driver.on_frame(LIAR.id, own([4, 1, False, [1]]))
            assert driver.counters["refused: sender without a card"] == 1

    live(main())
