"""The peer table: whom a live node knows, by number.

Machines deal in numbers, the wire in cards. The table gives every peer and topic that it meets a number,
keeps their profiles where the rules read them, and turns numbers back into cards. It is bounded: when it is
full, peers that no view of the machine holds any more give up their numbers, and while there are none, nobody
new is met.

A card counts only with its owner's signature, and an older one never replaces a newer one. Since everybody
checks a card before handing it on, whoever hands on a bad one is to blame for it. What a peer is said to have
said about its rings is taken from whoever heard from it last.
"""

import hashlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import GAPS_UNKNOWN, Profiles, Table, place_of
from vinecast.core.content.names import is_filter, read_name
from vinecast.core.errors import InputError, RemoteError
from vinecast.core.machine import NOBODY
from vinecast.peer.address import Address
from vinecast.peer.table.peer_regularity import RegularityTable
from vinecast.peer.table.topic_numbers import TopicNumbers
from vinecast.peer.topics import is_topic
from vinecast.peer.wire.messages import card_text, make_card
from vinecast.systems.common.router import ME
from vinecast.systems.common.wire import AGE_MAX, CARD_BYTES_MAX, Card, CardReference, Entry, names_bytes

TOPICS_EACH = 16
"""Topics of all cards together are at most so many times the different ones (ours)."""
CHECKED_A_CYCLE = 2048
"""Cards whose signatures are checked in one cycle, at most (ours): a few tenths of a second of work."""
CHECKED_A_TELLER = 512
"""Of these, so many that one peer told of (ours): nobody can keep the others from being heard."""
TOPICS_A_CHECK = 64
"""A card counts once more for every so many topics (ours)."""
_NEVER = -(1 << 63)

Verify = Callable[[bytes, bytes, bytes], bool]
"""(public key, text, signature) -> whether it is the key's."""


def _address_in(card: Card) -> Address | None:
    try:
        return Address.parse(card.address) if card.address else None
    except InputError:
        return None


def _unpack_rings(
    coverage: bytes, gaps: bytes, order: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.uint32]]:
    """What an entry says of a peer's rings, in the order of its profile's topics."""
    far = np.frombuffer(gaps, dtype=">u4")[order].astype(np.uint32)
    return np.frombuffer(coverage, dtype=np.uint8)[order], far


def id_of_key(public: bytes) -> bytes:
    """A node's id, from its public key."""
    return hashlib.sha256(b"node:" + public).digest()


class PeerTable:
    """``profiles`` is what the machine reads; ``counters`` tells what was turned away, by reason."""

    def __init__(
        self,
        public: bytes,
        sign: Callable[[bytes], bytes],
        verify: Verify,
        network: str,
        peers: int,
        topics: int,
        slots: int = 0,
        unmet: int = 0,
    ) -> None:
        """slots: of a cycle of recurring behaviour; 0 where regularity does not matter
        unmet: numbers above all others that the system gives to whom it knows by name only"""
        self.profiles = Profiles.live(peers + unmet, topics)
        self.points = self.profiles.ids = np.zeros(peers + unmet, dtype=np.uint64)
        """Where peers are: the first 64 bits of their ids. [peer]"""
        self.on_topics: Callable[[int], object] | None = None
        """Told whenever another peer's topics were replaced."""
        self.has_filters = False
        """Whether cards have filters among their topics."""
        self.regular = RegularityTable(self.profiles, slots) if slots else None
        self.topics = TopicNumbers(topics)
        self.counters: Counter[str] = Counter()
        self.in_use: Callable[[], Iterable[int]] = tuple
        """Whose numbers must stay theirs; whoever runs the node says so."""
        self.cycle = 0
        """Counted by the peer, so that ages of different days can be compared."""
        self._checked = 0
        """Cards whose signatures were checked in this cycle."""
        self._checked_of: Counter[bytes] = Counter()
        """The same, by who told of them."""
        self._topics_held, self._topics_held_max = 0, TOPICS_EACH * topics
        self._held_by = [0] * peers
        self.held: set[int] = set()
        """Numbers met since the last ``release``, which no view holds yet and which nobody may take away."""
        self._public, self._sign, self._verify, self._network = public, sign, verify, network
        self._number: dict[bytes, int] = {}
        self._ids: list[bytes] = [b""] * peers
        self._cards: list[Card | None] = [None] * peers
        self._addresses: list[Address | None] = [None] * peers
        self._order: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)] * peers
        self._told = [_NEVER] * peers
        self._free: array[int] = array("i", range(peers - 1, ME, -1))
        self._take_number(ME, id_of_key(public))
        self.renew("", 0, ())

    # Who is who.

    @property
    def me(self) -> bytes:
        """The node's own id."""
        return self._ids[ME]

    @property
    def card(self) -> Card:
        """The node's own card."""
        card = self._cards[ME]
        assert card is not None
        return card

    def renew(self, address: str, version: int, topics: Iterable[str]) -> None:
        """Write a new card of one's own: listening there, subscribed to these."""
        before = self._cards[ME]
        version = max(version, before.version + 1) if before is not None else version
        names = tuple(sorted(set(topics)))
        pattern = self.regular.own_pattern(ME) if self.regular is not None else b""
        self._cards[ME] = make_card(self._sign, self._network, self._public, address, version, names, pattern)
        self._set_topics(ME, names)

    def take_up(self, topic: int) -> None:
        """The node's own profile has a topic from now on; the number's use is the caller's."""
        self._set_own(np.union1d(self.profiles.topics_of(ME), [topic]))

    def give_up(self, topic: int) -> None:
        """It has it no longer; the number is used once less."""
        self._set_own(np.setdiff1d(self.profiles.topics_of(ME), [topic]))
        self.topics.leave(topic)

    def _set_own(self, topics: NDArray[np.int64]) -> None:
        """Unless the system's machine has done so itself."""
        if not np.array_equal(topics, self.profiles.topics_of(ME)):
            self.profiles.set_topics(ME, topics.astype(np.int32), np.zeros(topics.size, dtype=np.uint8))

    def number_of(self, peer: bytes) -> int:
        """The number of a peer that is known, or NOBODY."""
        return self._number.get(peer, NOBODY)

    def number_of_key(self, public: bytes) -> int:
        """The number of the peer with a public key, or NOBODY."""
        return self.number_of(id_of_key(public))

    def id_of(self, number: int) -> bytes:
        """The id behind a number."""
        return self._ids[number]

    def address_of(self, number: int) -> Address | None:
        """Where a peer says it listens; None when it does not, or says nothing sensible."""
        return self._addresses[number]

    def topics_of(self, number: int) -> tuple[str, ...]:
        """The topics that a peer subscribes to, in order."""
        names = self.names_of(number)
        return tuple([name for name in names if not is_filter(name)]) if self.has_filters else names

    def names_of(self, number: int) -> tuple[str, ...]:
        """All that a peer subscribes to, topics and filters, in order."""
        card = self._cards[number]
        return card.topics if card is not None else ()

    def has(self, number: int, version: int) -> bool:
        """Whether the card of a peer that is held is of a version."""
        card = self._cards[number]
        return card is not None and card.version == version

    def order_of(self, number: int) -> NDArray[np.int64]:
        """For each topic of a peer's profile, in order: which of its card's that is."""
        return self._order[number]

    def known(self) -> list[int]:
        """The numbers of all peers that are known, other than one's own."""
        return sorted(number for number in self._number.values() if number != ME)

    # Meeting others.

    def meet(self, entry: Entry, teller: bytes = b"") -> int:
        """Take in what an entry says, told by some peer; its number, or NOBODY when there is no room for it.

        RemoteError when no honest peer would have told so.
        """
        card = entry.card
        if isinstance(card, CardReference):
            number = self._number.get(card.id, NOBODY)
            held = self._cards[number] if number != NOBODY else None
            if held is None or held.version != card.version:
                self.counters["unknown reference"] += 1
                return NOBODY
        else:
            number = self._meet_card(card, teller)
            held = self._cards[number] if number != NOBODY else None
        if held is not None and entry.coverage and number != ME and held.version == card.version:
            self._hear_of_rings(number, held, entry)
        if number != NOBODY:
            self.held.add(number)
        return number

    def release(self) -> None:
        """Let go of those who were met: the machine has seen them, and keeps whom it likes."""
        self.held.clear()

    def _meet_card(self, card: Card, teller: bytes) -> int:
        peer = id_of_key(card.public)
        number = self._number.get(peer, NOBODY)
        held = self._cards[number] if number != NOBODY else None
        if number == ME or (held is not None and held.version >= card.version):
            return number
        address = _address_in(card)
        if address is None and teller != peer:
            self.counters["nobody knows where it listens"] += 1
            return NOBODY
        if not self._may_check(card, teller):
            self.counters["too many new cards"] += 1
            return NOBODY
        self._check(card)
        more = len(card.topics) - (len(held.topics) if held is not None else 0)
        if not self._has_room(number == NOBODY, more):
            self._make_room()
            if not self._has_room(number == NOBODY, more):
                self.counters["peer table full"] += 1
                return NOBODY
        if number == NOBODY:
            if not self._free:
                self.counters["peer table full"] += 1
                return NOBODY
            number = self._free.pop()
            self._take_number(number, peer)
        self._cards[number], self._addresses[number] = card, address
        if self.regular is not None:
            self.regular.learn(number, card.pattern)
        self._told[number] = _NEVER
        self._set_topics(number, card.topics)
        return number

    def _has_room(self, new: bool, topics: int) -> bool:
        """Whether there is room for a peer with so many more topics."""
        return (not new or bool(self._free)) and self._topics_held + topics <= self._topics_held_max

    def begin_cycle(self) -> None:
        """A cycle begins."""
        self.cycle += 1
        self._checked = 0
        self._checked_of.clear()

    def _may_check(self, card: Card, teller: bytes) -> bool:
        """Whether there is time for one more card in this cycle; if so, it is spent."""
        if self._checked >= CHECKED_A_CYCLE or self._checked_of[teller] >= CHECKED_A_TELLER:
            return False
        cost = 1 + len(card.topics) // TOPICS_A_CHECK
        self._checked += cost
        self._checked_of[teller] += cost
        return True

    def _check(self, card: Card) -> None:
        """RemoteError unless a card is in good form and its owner's own."""
        topics = card.topics
        if names_bytes(topics) > CARD_BYTES_MAX:
            raise RemoteError("card too large")
        if any(a >= b for a, b in pairwise(topics)) or not all(map(self._is_name, topics)):
            raise RemoteError("malformed card")
        text = card_text(self._network, card.public, card.address, card.version, topics, card.pattern)
        if not self._verify(card.public, text, card.signature):
            raise RemoteError("forged card")

    def _is_name(self, name: str) -> bool:
        return is_topic(name) or (self.has_filters and read_name(name) is not None)

    def _hear_of_rings(self, number: int, card: Card, entry: Entry) -> None:
        """Take over coverage and gaps, unless somebody who heard from the peer later said so already."""
        when, count = self.cycle - entry.age, len(card.topics)
        if len(entry.coverage) != count or len(entry.gaps) != 4 * count or when < self._told[number]:
            return
        self._told[number] = when
        order = self._order[number]
        self.profiles.annotate(number, *_unpack_rings(entry.coverage, entry.gaps, order))
        regular_too = len(entry.regular_coverage) == count and len(entry.regular_gaps) == 4 * count
        if self.regular is not None and regular_too:
            told = _unpack_rings(entry.regular_coverage, entry.regular_gaps, order)
            self.regular.shared.annotate(number, *told)

    def _take_number(self, number: int, peer: bytes) -> None:
        self._number[peer] = number
        self._ids[number] = peer
        point = int.from_bytes(peer[:8], "big")
        self.points[number] = point
        self.profiles.place[number] = place_of(point)

    def _set_topics(self, number: int, names: tuple[str, ...]) -> None:
        """Give a peer these topics. Those for which there is no room are left out of its profile."""
        before, wanted = self.profiles.topics_of(number).tolist(), set(names)
        kept = [topic for topic in before if self.topics.names[topic] in wanted]
        for topic in before:
            if self.topics.names[topic] not in wanted:
                self.topics.leave(topic)  # first, to make room
        taken = [self.topics.take(name, mine=number == ME) for name in names]
        for topic in kept:
            self.topics.leave(topic)
        if None in taken:
            self.counters["topics left out"] += taken.count(None)
        found = np.array([-1 if topic is None else topic for topic in taken], dtype=np.int64)
        order = np.argsort(found, kind="stable")[np.count_nonzero(found < 0) :]
        self._topics_held += len(names) - self._held_by[number]
        self._held_by[number] = len(names)
        self._order[number] = order
        topics = found[order].astype(np.int32)
        if number != ME and topics.size < self.profiles.cnt[number]:
            self.profiles.vacate(number)
        self.profiles.set_topics(number, topics, np.zeros(topics.size, dtype=np.uint8))
        if self.regular is not None and number != ME:
            self.regular.reset_rings(number)
        if self.on_topics is not None and number != ME:
            self.on_topics(number)

    def _make_room(self) -> None:
        """Forget those whom no view holds any more."""
        used = {ME, *self.held, *self.in_use()}
        for peer, number in list(self._number.items()):
            if number not in used:
                self.forget(number)
                del self._number[peer]
                self._free.append(number)
        self._free = array("i", sorted(self._free, reverse=True))

    def forget(self, number: int) -> None:
        """Drop a peer's card and topics."""
        self._set_topics(number, ())
        if self.regular is not None:
            self.regular.learn(number, b"")
        self._cards[number] = self._addresses[number] = None
        self._told[number] = _NEVER

    # Telling others.

    def describe(
        self, number: int, age: int, sent: dict[bytes, int] | None = None, rings: bool = True
    ) -> Entry | None:
        """The entry for a peer; a reference where ``sent`` says that the card was sent (and notes it if not).

        None for a peer without a card. rings: whether to say what is known of its rings
        """
        card = self._cards[number]
        if card is None:
            return None
        named: Card | CardReference = card
        if sent is not None:
            peer = self._ids[number]
            if sent.get(peer) == card.version:
                named = CardReference(peer, card.version)
            else:
                sent[peer] = card.version
        if not rings:
            return Entry(named, min(age, AGE_MAX), b"", b"")
        told = self._rings_of(number, len(card.topics), self.profiles.table)
        if self.regular is None:
            return Entry(named, min(age, AGE_MAX), *told)
        regular = self._rings_of(number, len(card.topics), self.regular.shared.table)
        return Entry(named, min(age, AGE_MAX), *told, *regular)

    def _rings_of(self, number: int, count: int, table: Table) -> tuple[bytes, bytes]:
        """What is known of a peer's rings, in the order of its card."""
        if not count:
            return b"", b""
        rows = slice(table.beg[number], table.beg[number] + table.cnt[number])
        coverage, gaps = np.zeros(count, dtype=np.uint8), np.full(count, GAPS_UNKNOWN, dtype=np.uint32)
        order = self._order[number]
        coverage[order], gaps[order] = table.coverage[rows], table.gaps[rows]
        return coverage.tobytes(), gaps.astype(">u4").tobytes()
