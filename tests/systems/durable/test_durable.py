"""Durable streams over a carrier: what is passed on, delivered, refused."""

from collections.abc import Callable
from typing import Any

import pytest

from support.flooding import Flood, Flooder
from support.protocols.streams_net import FormChecker, chain, event
from vinecast.core.events import Blame, Count, Observe, Received, Send, Start, Subscribe
from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.log.memory import MemoryStreams
from vinecast.core.log.streams import Keep, Kept
from vinecast.core.trace import TraceKind
from vinecast.protocols.streams import (
    Follow,
    Hand,
    StreamAck,
    StreamEvents,
    StreamPush,
    StreamsConfig,
    StreamWant,
    Unfollow,
)
from vinecast.systems.durable.machine import Carrier, Durable, DurableEvent, PublishSigned, Routed

TOPIC = "topic/0"


def make(
    neighbours: list[int] | None = None,
    number_of: Callable[[str], int | None] = lambda name: 0 if name == TOPIC else None,
    **rest: Any,
) -> Durable:
    """A durable node that floods what it is told to neighbours."""
    peers = [1, 2, 3] if neighbours is None else neighbours
    carrier = Carrier(Flooder(peers), (Flood,), lambda topic, now: peers, **rest)
    durable = Durable(StreamsConfig(), 1, 0, carrier, MemoryStreams(), FormChecker(), number_of)
    durable.handle(Start(), 0)
    durable.handle(Follow(TOPIC), 0)
    durable.repair.topics[TOPIC].opened = True
    return durable


def bring(durable: Durable, signed: SignedEvent, sender: int = 1, ack: Any = False, **rest: Any) -> list[Any]:
    carried = Flood(rest.get("topic", 0), rest.get("number", signed.number), rest.get("hops", 1))
    return run(durable, Received(sender, DurableEvent(carried, signed, ack)))


def run(durable: Durable, what: Any) -> list[Any]:
    """Handle something, and keep what is to be kept, not safely yet."""
    effects = durable.handle(what, 0)
    for effect in effects:
        if isinstance(effect, Keep):
            disk = durable.repair.streams
            assert isinstance(disk, MemoryStreams)
            disk.keep(effect.events, 0)
    return effects


def sent(effects: list[Any], kind: type[Any] = DurableEvent) -> list[tuple[int, Any]]:
    return [(e.to, e.message) for e in effects if isinstance(e, Send) and isinstance(e.message, kind)]


def test_an_event_is_passed_on_when_it_has_its_place() -> None:
    durable = make()
    first, second = chain(2, topic=TOPIC)
    effects = bring(durable, second, sender=1, hops=5)
    assert sent(effects) == []
    assert sent(effects, StreamWant) == [(1, StreamWant(TOPIC, (first.cid,)))]
    effects = bring(durable, first, sender=2, hops=1)
    assert effects[0] == Keep((first, second))
    passed = [(to, message.signed.cid, message.hops) for to, message in sent(effects)]
    assert passed == [(1, first.cid, 2), (3, first.cid, 2), (2, second.cid, 6), (3, second.cid, 6)]
    assert not any(isinstance(effect, Hand) for effect in effects)
    assert run(durable, Kept((first.cid, second.cid))) == [Hand(first, 1), Hand(second, 5)]


@pytest.mark.parametrize(("number", "passed"), [(7, [(1, 7), (3, 7), (2, 7), (3, 7)]), (None, [])])
def test_an_event_that_waited_goes_by_the_number_that_its_topic_has_now(
    number: int | None, passed: list[tuple[int, int]]
) -> None:
    numbers = {TOPIC: 0}
    durable = make(number_of=numbers.get)
    first, second = chain(2, topic=TOPIC)
    bring(durable, second, sender=1, hops=5)
    if number is None:
        del numbers[TOPIC]
        effects = run(durable, Received(1, StreamEvents(TOPIC, (first,))))
    else:
        numbers[TOPIC] = number
        effects = bring(durable, first, sender=2, hops=1, topic=number)
    assert effects[0] == Keep((first, second))
    assert [(to, message.topic) for to, message in sent(effects)] == passed


def test_where_events_are_routed_by_content_nobody_waits_for_a_relays_own_stream() -> None:
    durable = make(by_content=True)
    first, second = chain(2, topic=TOPIC)
    effects = bring(durable, second, sender=1, hops=5)
    assert [(to, message.signed.cid, message.hops) for to, message in sent(effects)] == [
        (2, second.cid, 6), (3, second.cid, 6)
    ]  # fmt: skip
    assert [effect for effect in effects if isinstance(effect, Routed)] == [Routed(second, 5)]
    effects = bring(durable, first, sender=2, hops=1)
    assert {message.signed.cid for _, message in sent(effects)} == {first.cid}
    assert run(durable, Kept((first.cid, second.cid))) == [Hand(first, 1), Hand(second, 5)]


def test_what_was_fetched_is_not_passed_on() -> None:
    durable = make()
    first, second = chain(2, topic=TOPIC)
    bring(durable, second, sender=1)
    effects = run(durable, Received(1, StreamEvents(TOPIC, (first,))))
    assert [message.signed.cid for _, message in sent(effects)] == [second.cid, second.cid]
    assert run(durable, Kept((first.cid,))) == [Hand(first, -1)]


def test_own_events_ask_for_acknowledgement_and_others_do_not() -> None:
    durable = make()
    own = event(1, topic=TOPIC)
    effects = run(durable, PublishSigned(own))
    assert [(to, message.ack) for to, message in sent(effects)] == [(1, True), (2, True), (3, True)]
    other = event(2, topic=TOPIC)
    effects = bring(durable, other, ack=True)
    assert [message.ack for _, message in sent(effects)] == [False, False]
    assert sent(effects, StreamAck) == []
    assert sent(run(durable, Kept((own.cid, other.cid))), StreamAck) == [(1, StreamAck((other.cid,)))]


def test_the_next_event_follows_the_heads() -> None:
    durable = make()
    assert durable.place(TOPIC) == ((), 1)
    first = event(1, topic=TOPIC)
    bring(durable, first)
    assert durable.place(TOPIC) == ((first.cid,), 2)


FORGED = event(1, topic=TOPIC)._replace(signature=event(2, topic=TOPIC).signature)
OTHER_BYTES = event(1, topic=TOPIC)._replace(block=event(2, topic=TOPIC).block)
OTHER_RECORD = event(1, topic=TOPIC)._replace(record=event(2, topic=TOPIC).record)


@pytest.mark.parametrize(
    ("signed", "rest", "reason"),
    [
        (FORGED, {}, "forged event"),
        (OTHER_BYTES, {}, "wrong bytes"),
        (OTHER_RECORD, {}, "wrong record"),
        (event(1, topic=TOPIC), {"number": 7}, "event under a false name"),
        (event(1, topic=TOPIC), {"topic": 1}, "event under a false name"),
    ],
)
def test_what_is_wrong_goes_nowhere(signed: SignedEvent, rest: dict[str, int], reason: str) -> None:
    durable = make()
    assert bring(durable, signed, **rest) == [Count(f"durable.refused {reason}"), Blame(1, reason)]
    if not rest:
        effects = run(durable, Received(1, StreamEvents(TOPIC, (signed,))))
        assert effects == [Count(f"durable.refused {reason}"), Blame(1, reason)]
    assert durable.place(TOPIC) == ((), 1)
    bring(durable, event(1, topic=TOPIC))
    assert durable.place(TOPIC) == ((event(1, topic=TOPIC).cid,), 2)


def test_wrong_bytes_for_what_was_asked_are_asked_of_others() -> None:
    durable = make()
    first, second = chain(2, topic=TOPIC)
    bring(durable, second, sender=1)
    lie = event(9, topic=TOPIC)._replace(cid=first.cid)
    effects = run(durable, Received(1, StreamEvents(TOPIC, (lie,))))
    assert Blame(1, "wrong bytes") in effects
    assert [to for to, _ in sent(effects, StreamWant)] != [1]
    assert len(sent(effects, StreamWant)) == 1
    assert not any(isinstance(effect, Keep) for effect in effects)


def test_events_outside_streams_go_straight_through() -> None:
    durable = make()
    durable.handle(Subscribe(0), 0)
    plain = event(1, height=0, topic=TOPIC)
    effects = bring(durable, plain, hops=3)
    assert [to for to, _ in sent(effects)] == [2, 3]
    assert Hand(plain, 3) in effects
    own = event(2, height=0, topic=TOPIC)
    effects = run(durable, PublishSigned(own))
    assert [to for to, _ in sent(effects)] == [1, 2, 3]
    assert not any(isinstance(effect, Keep) for effect in effects)


def test_what_comes_again_concerns_the_carrier_while_it_travels() -> None:
    durable = make()
    first = event(1, topic=TOPIC)
    bring(durable, first)
    again = bring(durable, first, sender=2)
    assert again == [Observe(TraceKind.RECEIVED_AGAIN, 0, first.number, 2, 1)]
    durable._travelling.clear()
    assert bring(durable, first, sender=2) == again
    assert sent(again) == []


def test_what_its_publisher_pushed_is_still_passed_on_when_it_comes_along_the_carrier() -> None:
    durable = make()
    first = event(1, topic=TOPIC)
    assert sent(run(durable, Received(1, StreamPush(TOPIC, (first,))))) == []
    assert [to for to, _ in sent(bring(durable, first, sender=2))] == [1, 3]
    assert sent(bring(durable, first, sender=3)) == []
    assert sent(run(durable, Received(1, StreamPush(TOPIC, (first,))))) == []


def test_a_topic_that_is_left_is_relayed_but_not_kept() -> None:
    durable = make()
    durable.handle(Unfollow(TOPIC), 0)
    effects = bring(durable, event(1, topic=TOPIC))
    assert len(sent(effects)) == 2
    assert not any(isinstance(effect, Keep) for effect in effects)


def test_who_fetched_what_it_had_asked_for_asks_no_more() -> None:
    came: list[int] = []
    durable = make(came=lambda event, now_us: came.append(event))
    first = event(1, topic=TOPIC)
    bring(durable, first)
    bring(durable, first, sender=2)
    assert came == []  # it travels
    durable._travelling.clear()
    bring(durable, first, sender=2)
    assert came == [first.number]
