"""Kademlia's machine: back to back, what peers may do to it, and what it does for those who ask."""

import hashlib
from typing import Any

import numpy as np
import pytest

from support.protocols.kademlia import (
    BLOCK,
    BLOCK_KEY,
    KEEP_UP,
    KEYS,
    NAME,
    SECOND,
    TIME_OUT,
    TIMEOUT,
    blamed,
    crowd,
    do,
    hear,
    machine,
    member,
    nearest,
    point,
    reply,
    said,
    settle,
)
from vinecast.core.errors import InputError
from vinecast.core.events import Blame, Count, PeerLost, Received, Send, SetTimer, Start, Stop
from vinecast.core.events import TimerFired as Fired
from vinecast.core.machine import NOBODY
from vinecast.protocols.kademlia import (
    Found,
    Kademlia,
    KademliaAnswer,
    KademliaConfig,
    KademliaFind,
    KademliaGoodbye,
    KademliaProvide,
    KademliaStore,
    KademliaStored,
    Operation,
    key_of_point,
)
from vinecast.protocols.kademlia.keeping import FAULTS
from vinecast.protocols.kademlia.messages import PROVIDERS, VALUE

# Joining.


def test_the_first_node_is_alone_and_nearest_to_everything() -> None:
    node = Kademlia(KademliaConfig(), 1, 3, KEYS)
    assert node.next_hop(5) == NOBODY
    assert node.handle(Start(), 0) == [SetTimer("kademlia", 60 * SECOND)]
    assert node.next_hop(5) == 3
    assert node.closest(NAME, 0) == []
    assert node.take_results() == [Found(Operation.CLOSEST, NAME, (3,))]


def test_two_machines_back_to_back_know_each_other() -> None:
    a, b = machine(4), Kademlia(KademliaConfig(), 1, 9, KEYS)
    started = b.handle(Start((4, 9, -1, 99)), 0)
    assert b.contacts == [4]
    settle({4: a, 9: b}, [(9, effect) for effect in started])
    assert a.joined
    assert b.joined
    assert (a.buckets.known, b.buckets.known) == ([9], [4])
    assert b.next_hop(int(KEYS[4])) == 4
    assert b.next_hop(int(KEYS[9])) == 9


def test_who_finds_nobody_tries_again_and_operations_wait_for_that() -> None:
    a, b = machine(4), machine(9, (4,), tries=1)
    assert b.closest(NAME, 0) == []
    gone = b.handle(TIME_OUT, TIMEOUT)
    assert SetTimer("kademlia.join", TIMEOUT) in gone
    b.handle(Fired("kademlia.join"), 2 * TIMEOUT)
    assert SetTimer("kademlia.join", 2 * TIMEOUT) in b.handle(TIME_OUT, 3 * TIMEOUT)  # ever less often
    again = b.handle(Fired("kademlia.join"), 5 * TIMEOUT)
    settle({4: a, 9: b}, [(9, effect) for effect in again])
    assert b.joined
    assert b.take_results() == [Found(Operation.CLOSEST, NAME, nearest(NAME, 4, (4, 9)))]
    assert b.handle(Fired("kademlia.join"), 3 * TIMEOUT) == []


def test_a_restart_joins_again_through_whom_it_knew_and_still_has_what_it_kept() -> None:
    nodes = crowd(10)
    do(nodes, 3, nodes[3].put(BLOCK_KEY, BLOCK, 0))
    holder = nodes[nearest(BLOCK_KEY, 1, range(10))[0]]
    known = set(holder.buckets.known)
    holder.get(key_of_point(1), 0)
    effects = holder.handle(Start((3,)), 10)
    assert not holder.joined
    assert set(holder.contacts) == known | {3}
    assert said(effects, KademliaFind)
    assert not holder.take_results()
    assert list(holder.tasks) == [(Operation.CLOSEST, key_of_point(int(KEYS[holder.me])))]
    assert reply(hear(holder, 1, KademliaFind(1, BLOCK_KEY, VALUE))).value == BLOCK


# Operations.


def test_everybody_finds_the_same_nearest_even_who_is_one_of_them() -> None:
    nodes = crowd(30)
    for me in (0, 7, 29):
        for number in range(20):
            key = hashlib.sha256(bytes([number])).digest()
            found = do(nodes, me, nodes[me].closest(key, 0))
            assert found == Found(Operation.CLOSEST, key, nearest(key, 4, range(30)))


def test_a_block_is_stored_at_the_nearest_and_found_by_all() -> None:
    nodes = crowd(30)
    stored = do(nodes, 2, nodes[2].put(BLOCK_KEY, BLOCK, 0))
    assert sorted(stored.peers) == sorted(nearest(BLOCK_KEY, 4, range(30)))
    for me in range(30):
        found = do(nodes, me, nodes[me].get(BLOCK_KEY, 0))
        assert (found.value, len(found.peers)) == (BLOCK, 1)
    assert do(nodes, 5, nodes[5].get(NAME, 0)) == Found(Operation.GET, NAME, (), b"")


def test_providers_are_found_by_all() -> None:
    nodes = crowd(30)
    for me in (2, 11):
        told = do(nodes, me, nodes[me].provide(BLOCK_KEY, 0))
        assert sorted(told.peers) == sorted(nearest(BLOCK_KEY, 4, range(30)))
    for me in range(30):
        found = do(nodes, me, nodes[me].providers(BLOCK_KEY, 0))
        assert {2, 11} - {me} <= set(found.peers) <= {2, 11}
    nodes[2].forget(BLOCK_KEY)
    assert not nodes[2].own


def test_of_several_values_the_newest_counts_and_those_who_have_an_older_one_get_it() -> None:
    nodes = crowd(30)
    holders = nearest(NAME, 4, range(30))
    for peer, number in zip(holders, (b"1", b"3", b"2"), strict=False):
        assert reply(hear(nodes[peer], 20, KademliaStore(1, NAME, b"name:" + number, SECOND))).taken
    found = do(nodes, 8, nodes[8].get(NAME, 0))
    assert found.value == b"name:3"
    assert found.peers == (holders[1],)
    for peer in holders:
        assert reply(hear(nodes[peer], 20, KademliaFind(1, NAME, VALUE))).value == b"name:3"


def test_an_old_value_never_replaces_a_newer_one() -> None:
    node = member(3, 1)
    assert reply(hear(node, 1, KademliaStore(1, NAME, b"name:5", SECOND))).taken
    effects = hear(node, 2, KademliaStore(2, NAME, b"name:4", SECOND))
    assert effects[0] == Count("kademlia.refused_older")
    assert not reply(effects).taken
    assert reply(hear(node, 2, KademliaStore(3, NAME, b"name:6", SECOND))).taken
    assert reply(hear(node, 1, KademliaFind(1, NAME, VALUE))).value == b"name:6"
    with pytest.raises(InputError):
        (node.put(NAME, b"name:8", 0), node.put(NAME, b"name:7", 0))


def test_a_value_that_is_put_while_an_older_one_is_being_stored_is_stored_too() -> None:
    nodes = crowd(12)
    effects = [(2, effect) for effect in nodes[2].put(NAME, b"name:1", 0)]
    while not (running := nodes[2].tasks[Operation.PUT, NAME]).storing:
        sender, effect = effects.pop(0)
        if isinstance(effect, Send):
            effects += [(effect.to, e) for e in hear(nodes[effect.to], sender, effect.message)]
    assert nodes[2].put(NAME, b"name:2", 0) == []
    settle(nodes, effects)
    assert running.over
    (found,) = nodes[2].take_results()
    assert sorted(found.peers) == sorted(nearest(NAME, 4, range(12)))
    for peer in found.peers:
        assert reply(hear(nodes[peer], 20, KademliaFind(1, NAME, VALUE))).value == b"name:2"


@pytest.mark.parametrize(
    ("store", "reason"),
    [
        (KademliaStore(1, BLOCK_KEY, b"another", SECOND), "values"),
        (KademliaStore(1, NAME, b"unsigned", SECOND), "values"),
        (KademliaStore(1, NAME, b"name:99", SECOND), "values"),
        (KademliaStore(1, BLOCK_KEY, b"", SECOND), "sizes"),
        (KademliaStore(1, BLOCK_KEY, bytes(2000), SECOND), "sizes"),
        (KademliaStore(1, BLOCK_KEY, BLOCK, 0), "sizes"),
        (KademliaStore(1, b"short", BLOCK, SECOND), "keys"),
        (KademliaProvide(1, b"short"), "keys"),
    ],
)
def test_what_is_not_true_is_not_kept(store: Any, reason: str) -> None:
    node = member(3, 1, value_bytes_max=1000)
    effects = hear(node, 1, store)
    refused = Count("kademlia.refused_" + reason)
    assert effects == [refused, Blame(1, FAULTS[reason]), Send(1, KademliaStored(1, False))]
    assert node.storage.records == 0


def test_who_stores_what_was_replaced_is_to_blame_and_changes_nothing() -> None:
    node = member(3, 1, 2)
    hear(node, 1, KademliaStore(1, NAME, b"name:2", SECOND))
    effects = hear(node, 2, KademliaStore(1, NAME, b"name:1", SECOND))
    assert effects == [
        Count("kademlia.refused_older"),
        Blame(2, FAULTS["older"]),
        Send(2, KademliaStored(1, False)),
    ]
    assert reply(hear(node, 1, KademliaFind(1, NAME, VALUE))).value == b"name:2"


def test_nobody_is_to_blame_for_what_is_far_or_finds_no_room() -> None:
    node = member(0, *range(1, 40), nearest=2)
    assert blamed(hear(node, 1, KademliaProvide(1, key_of_point(int(KEYS[39]))))) == []
    full = member(3, 1, records_max=1)
    first, second = sorted((b"1", b"2"), key=lambda value: int(KEYS[3]) ^ point(value))
    for value in (first, second):
        effects = hear(full, 1, KademliaStore(1, hashlib.sha256(value).digest(), value, SECOND))
    assert Count("kademlia.refused_full") in effects
    assert blamed(effects) == []


def test_a_value_is_not_kept_longer_than_it_is_true() -> None:
    node = member(3, 1)
    for now_us in (0, 50 * SECOND):
        assert reply(hear(node, 1, KademliaStore(1, NAME, b"name:7", 1 << 40), now_us)).taken
    node.handle(KEEP_UP, 99 * SECOND)
    assert reply(hear(node, 1, KademliaFind(1, NAME, VALUE), 99 * SECOND)).value == b"name:7"
    node.handle(KEEP_UP, 100 * SECOND)
    assert reply(hear(node, 1, KademliaFind(1, NAME, VALUE), 100 * SECOND)).value == b""


def test_without_a_validator_only_blocks_are_kept() -> None:
    node = Kademlia(KademliaConfig(), 1, 3, KEYS)
    node.handle(Start(), 0)
    assert not reply(hear(node, 1, KademliaStore(1, NAME, b"name:1", SECOND))).taken
    assert reply(hear(node, 1, KademliaStore(1, BLOCK_KEY, BLOCK, SECOND))).taken
    with pytest.raises(InputError):
        node.put(NAME, b"name:1", 0)


def test_what_is_far_from_a_node_is_none_of_its_business() -> None:
    node = member(0, *range(1, 40), nearest=2)
    far = key_of_point(int(KEYS[39]))
    assert node.buckets.count_nearer(int(KEYS[39])) >= 4
    assert Count("kademlia.refused_far") in hear(node, 1, KademliaProvide(1, far))
    assert reply(hear(node, 1, KademliaProvide(1, key_of_point(int(KEYS[0]))))).taken


def test_wrong_bytes_are_counted_and_somebody_else_is_asked() -> None:
    node = member(3, 1, 2, parallel=1, nearest=3)
    (first,) = said(node.get(BLOCK_KEY, 0), KademliaFind)
    number = max(node.requests.open)
    effects = hear(node, first, KademliaAnswer(number, (), (), b"poison"))
    assert Count("kademlia.refused_values") in effects
    assert blamed(effects) == [first]
    (second,) = said(effects, KademliaFind)
    hear(node, second, KademliaAnswer(number + 1, (), (), BLOCK))
    assert node.take_results() == [Found(Operation.GET, BLOCK_KEY, (second,), BLOCK)]


def test_an_answer_counts_once_from_whom_it_was_asked_of_and_if_it_fits() -> None:
    node = member(3, 1, 2, parallel=1, nearest=3)
    (first,) = said(node.closest(NAME, 0), KademliaFind)
    number, other = max(node.requests.open), 3 - first
    assert hear(node, other, KademliaAnswer(number, ())) == [Count("kademlia.late")]
    effects = hear(node, first, KademliaStored(number, True))
    assert Count("kademlia.refused_answers") in effects
    assert blamed(effects) == [first]
    assert first not in node.buckets
    assert said(effects, KademliaFind) == [other]
    hear(node, other, KademliaAnswer(number + 1, (first, -1, 40, 3)))
    assert [set(found.peers) for found in node.take_results()] == [{3, other}]
    assert hear(node, other, KademliaAnswer(number + 1, ())) == [Count("kademlia.late")]


def test_who_is_silent_is_asked_again_and_then_gone() -> None:
    node = member(3, 1, 2, parallel=1, nearest=3)
    (first,) = said(node.closest(NAME, 0), KademliaFind)
    again = node.handle(TIME_OUT, TIMEOUT)
    assert said(again, KademliaFind)[0] == first
    assert len(said(again, KademliaFind)) == 2  # and, since it is slow, somebody else
    hear(node, 3 - first, KademliaAnswer(max(node.requests.open), ()), TIMEOUT)
    assert SetTimer("kademlia.timeout", TIMEOUT) in again
    assert Count("kademlia.silent") in node.handle(TIME_OUT, 2 * TIMEOUT)
    assert first not in node.buckets
    (found,) = node.take_results()
    assert set(found.peers) == {3, 3 - first}


def test_a_peer_that_is_lost_or_says_goodbye_is_not_waited_for() -> None:
    for farewell in (PeerLost(1), Received(1, KademliaGoodbye())):
        node = member(3, 1, nearest=2)
        node.closest(NAME, 0)
        node.handle(farewell, 1)
        assert node.take_results() == [Found(Operation.CLOSEST, NAME, (3,))]
        assert node.buckets.known == []
    assert sorted(said(member(3, 1, 2).handle(Stop(), 0), KademliaGoodbye)) == [1, 2]


def test_storing_goes_on_without_those_who_refuse_or_are_silent() -> None:
    node = member(3, 1, 2, nearest=3, tries=1)
    for find in node.put(BLOCK_KEY, BLOCK, 0):
        if isinstance(find, Send) and isinstance(find.message, KademliaFind):
            last = hear(node, find.to, KademliaAnswer(find.message.number, ()))
    numbers = {
        e.to: e.message.number for e in last if isinstance(e, Send) and isinstance(e.message, KademliaStore)
    }
    assert set(numbers) == {1, 2}
    hear(node, 1, KademliaStored(numbers[1], False))
    assert node.take_results() == []
    node.handle(TIME_OUT, TIMEOUT)
    assert node.take_results() == [Found(Operation.PUT, BLOCK_KEY, (3,))]
    node.forget(BLOCK_KEY)
    assert reply(hear(node, 1, KademliaFind(1, BLOCK_KEY, VALUE))).value == BLOCK  # as one of the nearest


def test_what_is_forgotten_while_it_is_looked_up_is_not_stored() -> None:
    for operation in Operation.PUT, Operation.PROVIDE:
        node = member(3, 1, nearest=3)
        node.put(BLOCK_KEY, BLOCK, 0) if operation is Operation.PUT else node.provide(BLOCK_KEY, 0)
        node.forget(BLOCK_KEY)
        assert hear(node, 1, KademliaAnswer(max(node.requests.open), ())) == []
        assert node.take_results() == [Found(operation, BLOCK_KEY, ())]


def test_the_same_operation_runs_once_and_too_many_are_refused() -> None:
    node = member(3, 1, tasks_max=8)
    assert said(node.closest(NAME, 0), KademliaFind) == [1]
    assert node.closest(NAME, 0) == []
    for number in range(7):
        node.closest(key_of_point(number), 0)
    assert node.get(NAME, 0) == [Count("kademlia.refused_tasks")]
    assert node.take_results() == [Found(Operation.GET, NAME, ())]
    with pytest.raises(InputError):
        node.closest(b"short", 0)


def test_a_node_does_not_put_more_than_it_can_look_after() -> None:
    node = member(3, own_max=2)
    node.provide(NAME, 0)
    node.put(BLOCK_KEY, BLOCK, 0)
    node.provide(NAME, 0)
    with pytest.raises(InputError):
        node.provide(BLOCK_KEY, 0)
    for key, value in ((NAME, b""), (NAME, b"unsigned"), (NAME, bytes(10**6)), (b"short", b"x")):
        with pytest.raises(InputError):
            node.put(key, value, 0)


def test_a_providers_number_that_changed_hands_is_nobodys() -> None:
    keys = KEYS.copy()
    node = Kademlia(KademliaConfig(nearest=4), 1, 3, keys)
    node.handle(Start(), 0)
    for peer in (1, 2):
        hear(node, peer, KademliaProvide(1, NAME))
    keys[2] += np.uint64(1)
    assert reply(hear(node, 1, KademliaFind(1, NAME, PROVIDERS))).providers == (1,)
