"""The peer book and the codec: numbers stay one to one with peers, and forgeries stay out, whatever comes."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vinecast.core.errors import RemoteError
from vinecast.core.machine import NOBODY
from vinecast.node.storage.identity_file import make_identity
from vinecast.peer.codecs.codec import Codec
from vinecast.peer.identity import verify
from vinecast.peer.limits.replay_window import ReplayWindow
from vinecast.peer.table.peer_table import CHECKED_A_CYCLE, TOPICS_EACH, PeerTable
from vinecast.peer.wire.messages import EventFrame, Gossip, decode, encode, make_card
from vinecast.protocols.cyclon.machine import CyclonRequest
from vinecast.protocols.rings import RingsAnswer
from vinecast.systems.common.router import ME
from vinecast.systems.common.wire import Card, CardReference, Entry
from vinecast.systems.registry import live_system

NETWORK = "test"
PEOPLE = [make_identity() for _ in range(12)]


def book_of(owner: int = 0, peers: int = 8, topics: int = 20, in_use: Iterable[int] = ()) -> PeerTable:
    me = PEOPLE[owner]
    peer_table = PeerTable(me.public, me.sign, verify, NETWORK, peers, topics)
    peer_table.in_use = lambda: in_use
    return peer_table


def card_of(who: int, version: int = 1, topics: tuple[str, ...] = ("a",), network: str = NETWORK) -> Card:
    person = PEOPLE[who]
    return make_card(person.sign, network, person.public, f"host:{who}", version, topics)


def entry_of(card: Card | CardReference, age: int = 0, covered: int | None = None) -> Entry:
    if covered is None or not isinstance(card, Card):
        return Entry(card, age, b"", b"")
    count = len(card.topics)
    return Entry(card, age, bytes([covered] * count), covered.to_bytes(4, "big") * count)


def test_a_card_gives_a_peer_a_number_and_a_profile() -> None:
    peer_table = book_of()
    number = peer_table.meet(entry_of(card_of(1, topics=("a", "b"))))
    assert number not in (ME, NOBODY)
    assert peer_table.id_of(number) == PEOPLE[1].id
    assert str(peer_table.address_of(number)) == "host:1"
    assert peer_table.topics_of(number) == ("a", "b")
    assert peer_table.profiles.topics_of(number).size == 2
    assert peer_table.meet(entry_of(card_of(1, topics=("a", "b")))) == number


@pytest.mark.parametrize(
    ("card", "reason"),
    [
        (card_of(1, network="another"), "forged card"),
        (Card(PEOPLE[1].public, "host:1", 1, ("a",), bytes(64)), "forged card"),
        (card_of(1, topics=("b", "a")), "malformed card"),
        (card_of(1, topics=("a", "a")), "malformed card"),
        (card_of(1, topics=("a/#",)), "malformed card"),
    ],
)
def test_what_is_not_its_owners_word_is_turned_away(card: Card, reason: str) -> None:
    peer_table = book_of()
    with pytest.raises(RemoteError, match=reason):
        peer_table.meet(entry_of(card))
    assert peer_table.known() == []


def test_an_older_card_changes_nothing_and_a_newer_one_everything() -> None:
    peer_table = book_of()
    number = peer_table.meet(entry_of(card_of(1, version=5, topics=("a",))))
    assert peer_table.meet(entry_of(card_of(1, version=4, topics=("b", "c")))) == number
    assert peer_table.topics_of(number) == ("a",)
    assert peer_table.meet(entry_of(card_of(1, version=6, topics=("b", "c")))) == number
    assert peer_table.topics_of(number) == ("b", "c")
    assert peer_table.topics.known() == ["b", "c"]


def test_nobody_can_say_who_i_am() -> None:
    peer_table = book_of()
    peer_table.renew("here:1", 1, ["mine"])
    assert peer_table.meet(entry_of(card_of(0, version=99, topics=("theirs",)))) == ME
    assert peer_table.topics_of(ME) == ("mine",)


def test_what_is_said_about_rings_is_taken_from_who_heard_last() -> None:
    peer_table = book_of()
    peer_table.cycle = 10
    card = card_of(1, topics=("a", "b"))
    number = peer_table.meet(entry_of(card, age=3, covered=2))
    row = peer_table.profiles.beg[number]
    assert peer_table.profiles.coverage[row] == 2
    peer_table.meet(entry_of(card, age=5, covered=1))
    assert peer_table.profiles.coverage[row] == 2
    peer_table.meet(entry_of(card, age=0, covered=4))
    assert peer_table.profiles.coverage[row] == 4


def test_a_full_book_forgets_only_those_whom_nobody_holds() -> None:
    used: set[int] = set()
    peer_table = book_of(peers=4, in_use=used)
    numbers = [peer_table.meet(entry_of(card_of(who))) for who in (1, 2, 3)]
    assert peer_table.meet(entry_of(card_of(4))) == NOBODY  # all of them were met just now
    peer_table.release()
    used.update(numbers[:2])
    assert peer_table.meet(entry_of(card_of(4))) == numbers[2]
    assert peer_table.number_of(PEOPLE[3].id) == NOBODY
    assert [peer_table.number_of(PEOPLE[who].id) for who in (1, 2)] == numbers[:2]
    assert peer_table.counters["peer table full"] == 1


def test_topics_without_room_are_left_out_and_own_ones_have_room_of_their_own() -> None:
    peer_table = book_of(topics=4)
    number = peer_table.meet(entry_of(card_of(1, topics=("a", "b", "c", "d")), covered=3))
    assert peer_table.profiles.topics_of(number).size == 3
    assert peer_table.counters["topics left out"] == 1
    peer_table.renew("here:1", 1, ["mine"])
    assert peer_table.topics.number_of("mine") is not None
    peer_table.meet(entry_of(card_of(1, version=2, topics=("x", "y"))))
    assert peer_table.topics.known() == ["mine", "x", "y"]


def test_a_card_that_is_too_large_and_too_many_cards_are_turned_away() -> None:
    peer_table = book_of(peers=12)
    huge = card_of(1, topics=tuple(sorted(f"{i:04}" + "x" * 250 for i in range(300))))
    with pytest.raises(RemoteError, match="card too large"):
        peer_table.meet(entry_of(huge))
    peer_table._checked = CHECKED_A_CYCLE - 1
    assert peer_table.meet(entry_of(card_of(2))) != NOBODY
    assert peer_table.meet(entry_of(card_of(3))) == NOBODY
    assert peer_table.counters["too many new cards"] == 1
    peer_table.begin_cycle()
    assert peer_table.meet(entry_of(card_of(3))) != NOBODY


def test_all_profiles_together_have_a_bounded_number_of_topics() -> None:
    peer_table = book_of(peers=12, topics=4)
    names = ("a", "b", "c")
    while peer_table._topics_held + len(names) <= TOPICS_EACH * 4:
        peer_table._topics_held += len(names)  # as if others had them
    assert peer_table.meet(entry_of(card_of(1, topics=names))) == NOBODY
    assert peer_table.counters["peer table full"] == 1


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 11),
            st.integers(0, 3),
            st.sets(st.sampled_from("abcdefgh"), max_size=4),
            st.integers(0, 5),
        ),
        max_size=40,
    )
)
def test_numbers_stay_one_to_one_whatever_comes(entries: list[tuple[int, int, set[str], int]]) -> None:
    used: set[int] = set()
    peer_table = book_of(peers=6, topics=8, in_use=used)
    for who, version, topics, age in entries:
        number = peer_table.meet(entry_of(card_of(who, version, tuple(sorted(topics))), age, covered=1))
        if age == 0:
            peer_table.release()
        if number != NOBODY and age == 1:
            used.add(number)
        known = peer_table.known()
        assert len(known) == len({peer_table.id_of(peer) for peer in known}) <= 5
        for peer in (ME, *known):
            names = [peer_table.topics.names[topic] for topic in peer_table.profiles.topics_of(peer).tolist()]
            assert set(names) <= set(peer_table.topics_of(peer))
            assert (np.diff(peer_table.profiles.topics_of(peer)) > 0).all()


def test_topics_that_nobody_has_any_more_give_up_their_numbers() -> None:
    peer_table = book_of(topics=4)
    for round_ in range(10):
        peer_table.renew("here:1", round_, [f"mine {round_}"])
        peer_table.meet(entry_of(card_of(1, version=round_, topics=("shared", f"theirs {round_}"))))
        assert peer_table.topics.known() == [f"mine {round_}", "shared", f"theirs {round_}"]
    assert peer_table.counters["topics left out"] == 0


@given(st.lists(st.integers(0, 60), max_size=120), st.integers(1, 12))
def test_a_sequence_number_is_new_once(numbers: list[int], window: int) -> None:
    memory, seen, highest = ReplayWindow(window=window), set[int](), -1
    for number in numbers:
        expected = number not in seen and highest - number < window
        assert memory.is_new(b"publisher", number) == expected
        seen.add(number)
        highest = max(highest, number)


def test_publishers_heard_of_last_are_remembered() -> None:
    memory = ReplayWindow(publishers_max=2)
    assert all(memory.is_new(bytes([who]), 1) for who in range(3))
    assert memory.is_new(bytes([0]), 1)  # forgotten
    assert not memory.is_new(bytes([2]), 1)


# The codec.


GOSSIP = {message.kind: message for message in live_system("poldercast_regular").gossip}


def pair() -> tuple[PeerTable, Codec, PeerTable, Codec]:
    one, other = book_of(0), book_of(1)
    one.renew("host:0", 1, ["a"])
    other.renew("host:1", 1, ["a", "b"])
    return one, Codec(one, 10, GOSSIP), other, Codec(other, 10, GOSSIP)


def test_a_message_arrives_with_the_same_peers_under_other_numbers() -> None:
    one, pack, other, unpack = pair()
    other.meet(entry_of(card_of(5)))  # so that numbers differ
    peers = [one.meet(entry_of(card_of(who))) for who in (2, 3)]
    sent = CyclonRequest(7, np.array([ME, *peers], np.int32), np.array([0, 1, 2], np.uint16))
    for _ in range(2):  # the second time by reference
        frame = decode(encode(pack.pack(PEOPLE[1].id, sent)))
        assert isinstance(frame, Gossip)
        sender, message = unpack.unpack(PEOPLE[0].id, frame)
        assert isinstance(message, CyclonRequest)
        assert other.id_of(sender) == PEOPLE[0].id
        assert [other.id_of(number) for number in message.peers.tolist()] == [PEOPLE[i].id for i in (0, 2, 3)]
        assert message.ages.tolist() == [0, 1, 2]
        assert message.cycle == 7
    assert isinstance(frame, Gossip)
    assert all(isinstance(entry.card, CardReference) for entry in frame.entries)


def test_a_frame_has_room_for_the_cards_in_it() -> None:
    one, pack, _, _ = pair()
    many = tuple(sorted(f"{i:03}" + "x" * 200 for i in range(300)))
    peers = [one.meet(entry_of(card_of(who, topics=many))) for who in range(2, 9)]
    peers = [peer for peer in peers if peer != NOBODY]
    message = RingsAnswer(1, np.array(peers * 10, np.int32)[:40], np.zeros(40, np.uint16)[: len(peers * 10)])
    pack._sent.clear()
    assert len(encode(pack.pack(b"p" * 32, message))) < 512 * 1024


def test_a_card_is_sent_again_after_the_link_went_down() -> None:
    _, pack, _, _ = pair()
    message = RingsAnswer(1, np.zeros(0, np.int32), np.zeros(0, np.uint16))
    first, second = pack.pack(b"p" * 32, message), pack.pack(b"p" * 32, message)
    assert isinstance(first.sender.card, Card)
    assert isinstance(second.sender.card, CardReference)
    pack.forget_connection(b"p" * 32)
    assert pack.pack(b"p" * 32, message) == first


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (Gossip("nonsense", 1, entry_of(card_of(0)), ()), "unknown kind"),
        (Gossip("cyclon.request", 1, entry_of(card_of(2)), ()), "speaks for another"),
        (Gossip("cyclon.request", 1, entry_of(CardReference(b"x" * 32, 1)), ()), "without a card"),
    ],
)
def test_a_frame_that_breaks_the_rules_is_refused(frame: Gossip, reason: str) -> None:
    _, _, _, unpack = pair()
    with pytest.raises(RemoteError, match=reason):
        unpack.unpack(PEOPLE[0].id, frame)


@settings(max_examples=300)
@given(st.binary(max_size=300))
def test_any_bytes_are_a_frame_or_refused(data: bytes) -> None:
    try:
        frame = decode(data)
    except RemoteError:
        return
    assert encode(frame)


@settings(max_examples=200)
@given(st.integers(0, 2**31), st.integers(0, 255))
def test_a_frame_with_one_byte_changed_is_a_frame_or_refused(place: int, value: int) -> None:
    frames = (
        encode(Gossip("rings.request", 3, entry_of(card_of(1), 2, 1), (entry_of(card_of(2), 9, 1),))),
        encode(EventFrame(3, ((b"block", b"seal"),) * 3)),
    )
    for whole in frames:
        data = bytearray(whole)
        data[place % len(data)] = value
        try:
            frame = decode(bytes(data))
        except RemoteError:
            continue
        if isinstance(frame, Gossip):
            _, _, peer_table, unpack = pair()
            with_reason = False
            try:
                unpack.unpack(PEOPLE[1].id, frame)
            except RemoteError:
                with_reason = True
            assert with_reason or len(peer_table.known()) <= 3
