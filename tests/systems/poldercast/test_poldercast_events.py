"""PolderCast's events: shortcuts, stand-bys, the memory of recent events, and whatever others may send."""

import pytest

from support.systems.conformance import Trial, filter_sets
from support.systems.conformance_systems import POLDERCAST, poldercast_config
from support.systems.poldercast_node import PEERS, TOPICS, make_node, meet_on_rings, ring_message, sends
from vinecast.core.events import Count, Deliver, Observe, Publish, Received, Send
from vinecast.core.machine import NOBODY
from vinecast.core.trace import TraceKind
from vinecast.protocols.rings import RingsAnswer
from vinecast.protocols.vicinity import VicinityRequest
from vinecast.sim.workload.subscriptions import pattern
from vinecast.systems.poldercast.config import SHORTCUTS
from vinecast.systems.poldercast.machine import PolderCast, PolderCastEvent

# Shortcuts.


@pytest.mark.parametrize("shortcuts", [kind for kind in SHORTCUTS if kind != "mixed"])
def test_shortcuts_come_from_the_views_that_were_chosen(shortcuts: str) -> None:
    node = make_node(5, contacts=(0, 1, 2), fanout=10, shortcuts=shortcuts)
    meet_on_rings(node, [4, 6])
    node.vicinity.peers[:4] = [2, 8, 9, 6]
    effects = node.handle(Publish(0, 7), 0)
    assert effects[:2] == [Observe(TraceKind.PUBLISHED, 0, 7), Deliver(0, 7, 0)]
    views = {"cyclon": {0, 1, 2}, "vicinity": {2, 8, 9}, "both": {0, 1, 2, 8, 9}}
    targets = [send.to for send in sends(effects)]
    assert targets[:2] == [4, 6]
    assert set(targets[2:]) == views[shortcuts]
    assert len(targets) == 2 + len(views[shortcuts])
    assert {send.message for send in sends(effects)} == {PolderCastEvent(0, 7, 1)}


def test_mixed_shortcuts_come_from_one_view_or_the_other() -> None:
    """Who stands in both is taken with either; events differ in which it is, and so do nodes."""
    chosen: dict[int, list[frozenset[int]]] = {3: [], 7: []}
    for me, by_event in chosen.items():
        node = make_node(me, contacts=(0, 1, 2), fanout=10, shortcuts="mixed")
        node.vicinity.peers[:3] = [2, 8, 9]
        for event in range(40):
            by_event.append(frozenset(send.to for send in sends(node.handle(Publish(0, event), 0))))
        assert set(by_event) == {frozenset({0, 1, 2}), frozenset({2, 8, 9})}
    assert chosen[3] != chosen[7]


def test_every_copy_along_the_ring_names_who_stands_by() -> None:
    node = make_node(5, contacts=(0, 9), fanout=3)
    meet_on_rings(node, [4, 3, 6, 7])
    expected = {9: {4: 3, 6: 7}, 4: {6: 7}, 7: {4: 3, 6: NOBODY}}
    for event, (sender, along) in enumerate(expected.items()):
        sent = sends(node.handle(Received(sender, PolderCastEvent(0, event, 1)), 0))
        assert {send.to: send.otherwise for send in sent if send.to in (4, 6)} == along
        assert {send.otherwise for send in sent if send.to not in (4, 6)} == {NOBODY}
    published = sends(node.handle(Publish(0, 8), 0))
    assert [(send.to, send.otherwise) for send in published[:2]] == [(4, 3), (6, 7)]


def test_nobody_stands_by_where_that_is_switched_off() -> None:
    node = make_node(5, stand_by=False)
    meet_on_rings(node, [4, 3, 6, 7])
    assert sends(node.handle(Publish(0, 8), 0)) == [Send(peer, PolderCastEvent(0, 8, 1)) for peer in (4, 6)]


@pytest.mark.parametrize("stand_by", [True, False])
def test_stand_bys_carry_events_past_single_failures(stand_by: bool) -> None:
    """Everybody wants one topic; two nodes that are no neighbours crash, and nobody has noticed yet."""
    config = poldercast_config(fanout=1, stand_by=stand_by)
    trial = Trial(POLDERCAST, filter_sets([[0]] * PEERS, 1), 3, config=config)
    trial.settle()
    ring = [0]
    while len(ring) < PEERS:
        machine = trial.engine.machines[ring[-1]]
        assert isinstance(machine, PolderCast)
        ring.append(int(machine.rings.peers[0, machine.rings.peers.shape[1] // 2]))
    assert len(set(ring)) == PEERS
    for dead in (ring[3], ring[8]):
        trial.engine.crash(dead, trial.engine.now_us)
    trial.engine.command(0, trial.engine.now_us, Publish(0, 99))
    trial.engine.run(trial.engine.now_us + 150_000)
    reached = {node for node, _, event in trial.delivered if event == 99}
    cut_off = set() if stand_by else set(ring[4:8])
    assert reached == set(range(PEERS)) - {ring[3], ring[8]} - cut_off


def test_only_subscribers_are_shortcuts() -> None:
    lists = [[0] if peer % 2 else [1] for peer in range(PEERS)]
    node = make_node(5, lists, contacts=tuple(p for p in range(PEERS) if p != 5), fanout=12)
    assert {send.to for send in sends(node.handle(Publish(0, 7), 0))} == {1, 3, 7, 9, 11}


@pytest.mark.parametrize("fanout", [1, 2, 3, 5])
def test_an_event_is_forwarded_along_the_ring_and_as_often_as_the_fanout_says(fanout: int) -> None:
    node = make_node(5, contacts=(0, 1, 2, 8, 9), fanout=fanout)
    meet_on_rings(node, [4, 6])
    for number, (sender, along) in enumerate([(4, [6]), (6, [4]), (9, [4, 6])]):
        effects = node.handle(Received(sender, PolderCastEvent(0, number, 3)), 0)
        assert effects[0] == Observe(TraceKind.RECEIVED_FIRST, 0, number, sender, 3)
        assert effects[1] == Deliver(0, number, 3)
        targets = [send.to for send in sends(effects)]
        assert targets[: len(along)] == along
        assert len(set(targets)) == len(targets) == max(fanout, len(along))
        assert sender not in targets
        again = node.handle(Received(6, PolderCastEvent(0, number, 9)), 0)
        assert again == [Observe(TraceKind.RECEIVED_AGAIN, 0, number, 6, 9)]


# Memory.


def test_a_full_memory_of_recent_events_turns_further_ones_away() -> None:
    node = make_node(5, remembered=3, remember_s=2.0)
    meet_on_rings(node, [4, 6])
    for number, at_us in enumerate((0, 1_000_000, 1_000_000)):
        assert sends(node.handle(Received(4, PolderCastEvent(0, number, 1)), at_us))
    assert node.handle(Received(4, PolderCastEvent(0, 3, 1)), 1_999_999) == [
        Observe(TraceKind.DROPPED, 0, 3, 4, 1, "memory full"),
        Count("poldercast.memory full"),
    ]
    assert node.handle(Publish(0, 4), 1_999_999) == [
        Observe(TraceKind.PUBLISHED, 0, 4),
        Observe(TraceKind.DROPPED, 0, 4, reason="memory full"),
        Count("poldercast.memory full"),
    ]
    again = node.handle(Received(6, PolderCastEvent(0, 0, 2)), 1_999_999)
    assert again == [Observe(TraceKind.RECEIVED_AGAIN, 0, 0, 6, 2)]  # what is known is still known
    assert sends(node.handle(Received(4, PolderCastEvent(0, 3, 1)), 2_000_000))  # in the place of event 0
    assert node.handle(Received(4, PolderCastEvent(0, 5, 1)), 2_000_000)[-1] == Count(
        "poldercast.memory full"
    )
    assert sends(node.handle(Publish(0, 5), 3_000_000))


def test_publishing_an_event_again_needs_no_room_and_makes_it_recent() -> None:
    node = make_node(5, remembered=2, remember_s=1.0)
    meet_on_rings(node, [4, 6])
    for number, at_us in ((0, 0), (1, 500_000), (0, 900_000), (2, 1_500_000)):
        assert sends(node.handle(Publish(0, number), at_us))
    again = node.handle(Received(4, PolderCastEvent(0, 0, 1)), 1_500_000)
    assert again == [Observe(TraceKind.RECEIVED_AGAIN, 0, 0, 4, 1)]  # event 1 was the earlier


def test_an_event_is_delivered_once_however_many_are_on_their_way() -> None:
    """Beyond what is remembered events are lost, not delivered twice, and nothing circulates."""
    config = poldercast_config(fanout=4, remembered=3)
    trial = Trial(POLDERCAST, pattern("random", 3, 20, topics=4, subscriptions=3), 3, config=config)
    trial.settle()
    for number in range(40):
        trial.publish(number % 20, number % 4)
    trial.run(1)
    assert max(trial.delivered.values()) == 1
    assert len(trial.carried) <= 4 * (len(trial.delivered) + 40)
    assert {record.reason for record in trial.dropped} == {"memory full"}
    assert sum(trial.engine.counters["poldercast.memory full"]) == len(trial.dropped)


# What others may send.


def test_an_event_for_somebody_else_is_counted_and_goes_no_further() -> None:
    node = make_node(5, contacts=(4, 6))
    for event, topic in enumerate((1, TOPICS, -1, 10**9)):
        effects = node.handle(Received(4, PolderCastEvent(topic, event, 1)), 0)
        assert effects == [
            Observe(TraceKind.RECEIVED_FIRST, topic, event, 4, 1),
            Count("poldercast.not subscribed"),
        ]


def test_a_second_copy_is_traced_as_such_even_by_somebody_who_is_not_interested() -> None:
    node = make_node(5, contacts=(4, 6))
    node.handle(Received(4, PolderCastEvent(1, 7, 1)), 0)
    again = node.handle(Received(6, PolderCastEvent(1, 7, 1)), 0)
    assert again[0] == Observe(TraceKind.RECEIVED_AGAIN, 1, 7, 6, 1)


def test_no_number_of_an_event_raises_out_of_the_node() -> None:
    node = make_node(5, contacts=(4, 6))
    for number in (1, 2**63 - 1, 2**63, 2**64):
        assert node.handle(Received(4, PolderCastEvent(0, number, 1)), 0)


def test_own_events_that_come_back_are_copies() -> None:
    subscriber, stranger = (
        make_node(5, contacts=(4,)),
        make_node(5, [[1] if p == 5 else [0] for p in range(PEERS)], (4,)),
    )
    for node in (subscriber, stranger):
        assert [send.to for send in sends(node.handle(Publish(0, 7), 0))] in ([4], [])
        again = node.handle(Received(4, PolderCastEvent(0, 7, 2)), 0)
        assert again == [Observe(TraceKind.RECEIVED_AGAIN, 0, 7, 4, 2)]


def test_a_stranger_hands_its_event_to_a_subscriber_in_any_view() -> None:
    lists = [[0], [1], [1], [0], [0], [1], [1], [1], [1], [1], [1], [1]]
    node = make_node(5, lists, contacts=(1, 2))
    assert node.handle(Publish(0, 7), 0) == [
        Observe(TraceKind.PUBLISHED, 0, 7),
        Observe(TraceKind.DROPPED, 0, 7, reason="no subscriber known"),
    ]
    node.vicinity.peers[0] = 3
    assert node.handle(Publish(0, 8), 0)[1:] == [Send(3, PolderCastEvent(0, 8, 0))]
    other = make_node(5, lists, contacts=(1, 4))
    assert other.handle(Publish(0, 8), 0)[1:] == [Send(4, PolderCastEvent(0, 8, 0))]


def test_messages_reach_the_layer_that_they_are_for() -> None:
    node = make_node(5)
    late = node.handle(Received(4, RingsAnswer(*ring_message(9, [6]))), 0)
    assert late == [Count("rings.late")]
    answers = sends(node.handle(Received(4, VicinityRequest(*ring_message(1, [6]))), 0))
    assert [send.message.kind for send in answers] == ["vicinity.answer"]
    assert node.rings.peers.tolist() == [[NOBODY] * 4]
    assert {4, 6} <= set(node.vicinity.peers.tolist())
