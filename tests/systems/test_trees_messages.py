"""What nodes of trees say to each other: heard as it was said, and whatever else comes is refused."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.node.live import live, settled, until, village
from support.node.own_frames import read_own
from support.node.strangers import own, shapes_of
from vinecast.core.errors import RemoteError
from vinecast.core.events import TimerFired
from vinecast.lab.localnet.attacker import Attacker
from vinecast.node.api.node import Node
from vinecast.node.runtime.config import NodeConfig
from vinecast.node.storage.identity_file import make_identity
from vinecast.peer.codecs.codec import Codec
from vinecast.peer.codecs.frame_codec import FrameCodec
from vinecast.peer.identity import Identity, verify
from vinecast.peer.table.peer_table import PeerTable
from vinecast.peer.table.relayed_topics import RelayedTopics
from vinecast.peer.table.topic_numbers import TopicNumbers
from vinecast.peer.volatile_events import UNKNOWN_FORM
from vinecast.peer.wire.handshake import MISBEHAVED
from vinecast.peer.wire.messages import FORM_MAX, EventFrame, encode, make_card, system_frame
from vinecast.protocols.multicast_tree import (
    MulticastTree,
    TreeAbove,
    TreeAccept,
    TreeAlive,
    TreeConfig,
    TreeHeartbeat,
    TreeJoin,
    TreeMember,
    TreePart,
    TreeSearch,
)
from vinecast.systems.common.wire import TOPICS_MAX, Entry
from vinecast.systems.pulsarcast import messages as wire
from vinecast.systems.pulsarcast.router import CHILD_SHARE, REQUESTS_IN_HAND

TREES = NodeConfig(period_s=0.1, system="pulsarcast", topics=64)
LIAR = make_identity()
CARD = make_card(LIAR.sign, "test", LIAR.public, "127.0.0.1:9", 1, ("news",))


class NoWay:
    """A routing that knows nobody."""

    def next_hop(self, topic: int) -> int:
        return -1

    def suspect(self, peer: int) -> None: ...


def book_of(identity: Identity) -> PeerTable:
    return PeerTable(identity.public, identity.sign, verify, "test", 64, 64)


def codec_over(peer_table: PeerTable) -> tuple[FrameCodec, RelayedTopics]:
    topics = RelayedTopics(peer_table.topics, lambda number: False)
    return FrameCodec(wire.FRAMES, Codec(peer_table), topics.name_of, topics.number_of), topics


def test_what_is_said_is_what_is_heard() -> None:
    one, other = make_identity(), make_identity()
    here, there = book_of(one), book_of(other)
    here.topics.take("something else")  # the same topic has another number there
    (speaks, said), (listens, heard) = codec_over(here), codec_over(there)
    third = here.meet(Entry(CARD, 0, b"", b""))
    news, talk = said.number_of("news"), said.number_of("talk")
    assert news is not None
    assert talk is not None
    for message in (
        TreeJoin(news), TreeAccept(talk), TreePart(news), TreeSearch(talk), TreeMember(news, True),
        TreeMember(talk, False), TreeHeartbeat((news, talk)), TreeHeartbeat(()), TreeAlive((talk,)),
        TreeAbove(news, (third,)),
    ):  # fmt: skip
        frame = read_own(system_frame(speaks.pack(other.id, message)), wire.FRAMES)
        got: Any = listens.read(one.id, frame)
        assert type(got) is type(message)
        for field in message.__dataclass_fields__:
            told, taken = getattr(message, field), getattr(got, field)
            match field:
                case "topic":
                    assert there.topics.names[taken] == here.topics.names[told]
                case "topics" | "refused":
                    assert [there.topics.names[t] for t in taken] == [here.topics.names[t] for t in told]
                case "peers":
                    assert [there.id_of(peer) for peer in taken] == [LIAR.id]
                case _:
                    assert taken == told
    heard.release()
    assert there.topics.number_of("talk") is None  # nobody has it, and there is no tree


def test_numbers_live_as_long_as_somebody_needs_them() -> None:
    topics = TopicNumbers(64)
    tree = MulticastTree(TreeConfig(), 0, NoWay())
    held = RelayedTopics(topics, tree.branches.__contains__)
    number = held.number_of("news")
    assert number is not None
    tree._subscribe(number, 0)
    held.release()
    assert (topics.number_of("news"), held.member("news")) == (number, number)
    held.keep(number)
    held.sweep()
    assert topics._uses[number] == 1
    tree._unsubscribe(number)
    assert held.member("news") is None
    held.sweep()
    assert topics.number_of("news") is None


def test_impossible_topics_and_others_than_trees() -> None:
    codec, _ = codec_over(book_of(LIAR))
    for frame in (wire.Join("a//b"), wire.Heartbeat(("#",)), wire.Above("", ())):
        with pytest.raises(RemoteError, match="impossible topic"):
            codec.read(b"", frame)
    with pytest.raises(KeyError):
        codec.pack(b"", EventFrame(0, ()))  # type: ignore[arg-type]


# A node among liars.

names = st.sampled_from(["news", "talk", "a", "x" * 255, "x" * 256, "#", "", "a//b", "\U0001f347" * 64])
lists = st.lists(names, max_size=4).map(tuple) | names.map(lambda name: (name,) * (TOPICS_MAX + 1))
entries = st.lists(st.just(Entry(CARD, 0, b"", b"")), max_size=3).map(tuple)
frames = st.one_of(
    *(st.builds(kind, names) for kind in (wire.Join, wire.Accept, wire.Part, wire.SearchTree)),
    st.builds(wire.Heartbeat, lists),
    st.builds(wire.Alive, lists),
    st.builds(wire.MemberOfTree, names, st.booleans()),
    st.builds(wire.Above, names, entries),
)
shapes = shapes_of(names)


def check_books(node: Node) -> None:
    """Nothing that a stranger can make grow is larger than it may be."""
    peer = node._peer
    tree, topics = peer.machine.tree, peer.peer_table.topics
    assert len(topics.known()) <= TREES.topics
    assert len({*peer.counters, *node._driver.counters}) <= 80
    for number in tree.branches:
        assert topics.names[number] is not None
    assert all(len(link.topics) <= TREES.topics // CHILD_SHARE for link in tree.children.values())
    assert {*tree.parents, *tree.children} <= set(peer.peer_table.known())


@pytest.mark.parametrize("shape", ["absurd", "any", "cut"])
def test_a_node_takes_whatever_comes_and_goes_on(shape: str) -> None:
    whole = own([7, "news", []])
    tried = {
        "absurd": frames.map(system_frame),
        "any": (st.tuples(st.integers(-1, 9), names) | shapes).map(own),
        "cut": st.integers(0, len(whole)).map(lambda at: whole[:at]),
    }

    async def main() -> None:
        async with village(2, config=TREES) as found:
            one, other = found.nodes
            reader = await one.subscribe("news").ready()
            one._peer.peer_table.meet(Entry(CARD, 0, b"", b""), LIAR.id)

            @settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
            @given(tried[shape])
            def swallow(data: bytes) -> None:
                one._peer._misbehaviour.begin_cycle(0)
                one._driver.on_frame(LIAR.id, data)
                one._driver.feed(TimerFired("tree"))
                check_books(one)

            swallow()
            while not reader.waiting:  # it may have believed that the liar is its parent
                await other.publish("news", b"still there", durable=False)
                await one._driver.next_cycle()
            assert (await anext(reader)).payload == b"still there"

    live(main())


async def attacked(attack: Callable[[Node, Attacker], Any], **rest: Any) -> None:
    """A network of trees over real sockets, a stranger in it, and what the stranger does."""
    async with village(2, sockets=True, config=TREES) as found:
        victim, other = found.nodes
        reader, _ = victim.subscribe("news"), other.subscribe("news")
        await settled(found)
        stranger = await Attacker("test", **rest).connect(victim.address)
        await stranger.shake_hands(system="pulsarcast")
        await stranger.send(stranger.introduction())
        await until(lambda: stranger.identity.id in victim._driver.transport.connections(), "a link to it")
        await attack(victim, stranger)
        check_books(victim)
        await other.publish("news", b"still there")
        assert (await anext(reader)).payload == b"still there"
        await stranger.leave()


def test_who_joins_without_end_is_told_no_and_takes_no_room_from_others() -> None:
    async def attack(victim: Node, stranger: Attacker) -> None:
        joins = [system_frame(wire.Join(f"invented/{n}")) for n in range(2 * TREES.topics)]
        await stranger.send(*joins)
        counters = victim._peer.counters
        await until(lambda: counters["refused: no room for a topic of a tree"] > 0, "refusals")
        for n in range(10):
            await victim.subscribe(f"own/{n}").ready()

    live(attacked(attack))


def test_who_asks_without_end_is_shunned() -> None:
    async def attack(victim: Node, stranger: Attacker) -> None:
        question = system_frame(wire.SearchTree("news"))
        for _ in range(2 * REQUESTS_IN_HAND // 512):
            if not await stranger.send(*[question] * 512):
                break
        assert await stranger.refused() == MISBEHAVED
        assert victim._peer.counters["refused: too many requests"] > 0

    live(attacked(attack))


def test_events_in_ways_that_there_are_not_are_refused() -> None:
    async def main() -> None:
        async with village(2) as found:
            driver, counters = found.nodes[0]._driver, found.nodes[0]._peer.counters
            for way in (1, FORM_MAX):
                driver.on_frame(found.nodes[1].id, encode(EventFrame(0, ((b"x", b"y"),), way)))
            assert counters[f"refused: {UNKNOWN_FORM}"] == 2
            driver.on_frame(found.nodes[1].id, system_frame(wire.Join("news")))
            assert counters["refused: malformed message (ValidationError)"] == 1

    live(main())
