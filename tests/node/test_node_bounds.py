"""The parts of a node that bound what peers can take from it, one by one."""

import pytest

from support.node.live import live, until, village
from vinecast.core.errors import RemoteError
from vinecast.core.machine import NOBODY
from vinecast.lab.localnet.attacker import Attacker, stranger_card
from vinecast.node.storage.identity_file import make_identity
from vinecast.node.transport.accept_limiter import SHUNNED_MAX, SHUNNED_S, Shunned
from vinecast.peer.identity import verify
from vinecast.peer.limits.misbehaviour import FAULTS_A_CYCLE, GOSSIP_A_CYCLE, TOO_MUCH_GOSSIP, Misbehaviour
from vinecast.peer.table.peer_table import CHECKED_A_TELLER, TOPICS_A_CHECK, TOPICS_EACH, PeerTable
from vinecast.systems.common.wire import Entry


def test_the_shunned_are_few_and_come_back() -> None:
    shunned = Shunned()
    for n in range(SHUNNED_MAX + 1):
        shunned.add(n.to_bytes(32, "big"), float(n))
    assert len(shunned._until) == SHUNNED_MAX
    last = SHUNNED_MAX.to_bytes(32, "big")
    assert shunned.has(last, SHUNNED_MAX + SHUNNED_S - 1)
    assert not shunned.has(last, SHUNNED_MAX + SHUNNED_S)
    assert len(shunned._until) == SHUNNED_MAX - 1


def hear_often(conduct: Misbehaviour, times: int) -> None:
    for _ in range(times):
        conduct.hear(b"a", 6_500_000)


def test_conduct_is_judged_by_the_cycle_and_a_sleeper_forgiven() -> None:
    conduct = Misbehaviour(period_us=1_000_000)
    conduct.begin_cycle(5_000_000)
    conduct.begin_cycle(6_000_000)
    assert [conduct.blame(b"a") for _ in range(FAULTS_A_CYCLE)] == [False] * (FAULTS_A_CYCLE - 1) + [True]
    assert not conduct.blame(b"b")
    hear_often(conduct, GOSSIP_A_CYCLE)
    with pytest.raises(RemoteError, match=TOO_MUCH_GOSSIP):
        hear_often(conduct, GOSSIP_A_CYCLE)
    for _ in range(10 * GOSSIP_A_CYCLE):
        conduct.hear(b"b", 16_000_000)  # this process slept for ten periods
    conduct.begin_cycle(16_000_000)
    for _ in range(10 * GOSSIP_A_CYCLE):
        conduct.hear(b"b", 16_000_001)
    for n in range(1000):
        conduct.is_news(n.to_bytes(2, "big"))
    conduct.begin_cycle(17_000_000)
    conduct.begin_cycle(18_000_000)
    assert not any((conduct._faults, conduct._gossip, conduct._unwanted))


def book_of(peers: int, topics: int) -> PeerTable:
    me = make_identity()
    return PeerTable(me.public, me.sign, verify, "test", peers, topics)


def test_one_teller_cannot_use_up_the_time_for_cards() -> None:
    peer_table = book_of(64, 1024)
    large = [f"{i:04}" for i in range(TOPICS_A_CHECK * 9)]
    for _ in range(2 * CHECKED_A_TELLER // 10):
        peer_table.meet(Entry(stranger_card("test", large), 0, b"", b""), b"flooder")
        peer_table.release()
    assert peer_table.counters["too many new cards"] > 0
    assert peer_table.meet(Entry(stranger_card("test"), 0, b"", b""), b"somebody else") != NOBODY


def test_cards_without_room_for_their_topics_weigh_as_much_as_others() -> None:
    """Topics beyond the room for their numbers have no place in a profile, but their names are kept."""
    peer_table = book_of(4096, 64)
    for i in range(200):
        peer_table.begin_cycle()
        peer_table.release()
        card = stranger_card("test", [f"{i}/{n}" for n in range(100)])
        assert len(peer_table.known()) > 9 or peer_table.meet(Entry(card, 0, b"", b"")) != NOBODY
        peer_table.meet(Entry(card, 0, b"", b""))
    held = sum(len(peer_table.topics_of(number)) for number in peer_table.known())
    assert held <= TOPICS_EACH * 64


def test_profiles_that_come_and_go_and_shrink_leave_their_places_to_others() -> None:
    peer_table = book_of(1024, 64)
    bound = TOPICS_EACH * 64
    for i in range(400):
        peer_table.begin_cycle()
        peer_table.release()
        somebody = Attacker("test")
        for topics in (40, 1):
            card = somebody.card([f"{n}" for n in range(topics)], address="host:1")
            assert peer_table.meet(Entry(card, 0, b"", b"")) != NOBODY
        assert peer_table.profiles.topics.size <= 8 * bound, i


def test_wide_characters_weigh_what_they_take() -> None:
    peer_table = book_of(64, 1024)
    wide = [f"{i:03}" + "\U0001f347" * 60 for i in range(300)]
    with pytest.raises(RemoteError, match="card too large"):
        peer_table.meet(Entry(stranger_card("test", wide), 0, b"", b""))


def test_own_topics_fit_on_a_card() -> None:
    async def main() -> None:
        async with village(2) as found:
            one, other = found.nodes
            added = one._peer.subscribe([f"{i:03}" + "x" * 250 for i in range(300)])
            assert 200 < len(added) < 300
            await until(
                lambda: (
                    len(other._peer.peer_table.topics_of(other._peer.peer_table.number_of(one.id)))
                    == len(added)
                )
            )
            assert not any("card" in reason for reason in other.stats()["counters"])

    live(main())
