"""What nodes of Vitis say to each other: heard as it was said, and whatever else comes is refused."""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.node.own_frames import read_own
from vinecast.core.arrays.profiles import place_of
from vinecast.core.errors import RemoteError
from vinecast.core.events import Message
from vinecast.core.machine import NOBODY
from vinecast.node.storage.identity_file import make_identity
from vinecast.peer.codecs.codec import Codec
from vinecast.peer.codecs.frame_codec import NAMES_BYTES, FrameCodec
from vinecast.peer.codecs.joiner import Joiner
from vinecast.peer.codecs.status_codec import StatusCodec
from vinecast.peer.identity import Identity, verify
from vinecast.peer.table.peer_table import PeerTable
from vinecast.peer.wire.messages import system_frame
from vinecast.protocols.cyclon.machine import CyclonAnswer, CyclonRequest
from vinecast.protocols.gateway import Proposed
from vinecast.protocols.relay_path import RelayRequest
from vinecast.protocols.tman import TManAnswer, TManEcho, TManProfile, TManRequest
from vinecast.systems.common.notices import Notice, Pull
from vinecast.systems.common.router import ME
from vinecast.systems.common.wire import TOPICS_MAX, CardReference
from vinecast.systems.vitis import messages as wire
from vinecast.systems.vitis.machine import VitisProfiles
from vinecast.systems.vitis.rules import WEIGHT_MAX
from vinecast.systems.vitis.words import NO_ROOM, UnmetPeers, VitisWords

STRANGERS = 6
LIAR = make_identity()
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
