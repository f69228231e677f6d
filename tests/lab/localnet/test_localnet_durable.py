"""Durable streams on real processes that are killed; and the books of such a run, told by hand."""

from collections.abc import Callable

import pytest

from vinecast.core.log.batch_signature import SignedEvent, sign_events
from vinecast.core.log.event_record import EventRecord
from vinecast.lab.localnet.durable import DurableRun, LiveSize
from vinecast.lab.localnet.durable_attacks import KINDS as ATTACKS
from vinecast.lab.localnet.durable_kinds import KINDS, SIZES, run_live
from vinecast.lab.localnet.ledger import NETWORK, TOPIC, Ledger, LedgerOutcome, point_of
from vinecast.lab.localnet.messages import Consumed, CutConnections, Handed, Safe, StartNode, Up
from vinecast.node.runtime.loop import run
from vinecast.node.storage.identity_file import make_identity
from vinecast.peer.identity import Identity

TINY = LiveSize(nodes=5, events=16, kills=1, replicas=3, holders=2)


@pytest.fixture
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SIZES, "small", TINY)


@pytest.mark.usefixtures("_tiny")
@pytest.mark.parametrize("claim", KINDS)
def test_nothing_is_lost_whoever_is_killed(claim: str) -> None:
    outcome = run_live(claim, "small", 1)
    assert outcome.faults == []
    assert outcome.trouble == []
    assert outcome.killed >= 1
    assert outcome.acknowledged >= 10
    assert outcome.delivered >= outcome.acknowledged
    if claim == "PU-6":
        assert outcome.noted["names_replaced"] == 0
        assert outcome.noted["tried"] >= len(ATTACKS)
        for reason in (
            "durable.refused forged event",
            "streams.refused wrong height",
            "streams.refused event that was not asked for",
            "streams.refused impossible heads",
            "kademlia.refused_values",
            "kademlia.refused_older",
        ):
            assert outcome.refused.get(reason, 0) > 0, reason


def test_a_node_that_cannot_start_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    start = DurableRun.start

    async def nowhere(self: DurableRun, number: int, reads: bool = True, join: object = None) -> None:
        if number:
            await self.ask(StartNode(number, [], ["no address"]), Up)
        await start(self, number, reads, [])

    monkeypatch.setattr(DurableRun, "start", nowhere)
    monkeypatch.setitem(SIZES, "small", TINY)
    assert "no address" in run_live("PU-1", "small", 1).faults[0]


def test_the_dead_hear_nothing_and_their_receipts_are_not_awaited() -> None:
    async def main() -> None:
        async with DurableRun(TINY, 1, holders=1) as found:
            await found.start_all([0, 1])
            await found.publish(0, 3)
            await found.kill(0)
            await found.tell(CutConnections(0))
            await found.publish_on([0, 1], 2)
            assert found.ledger.unanswered == {}
            found.mark()
            await found.converge(enough=1)
            outcome = await found.finish(enough=1)
            assert outcome.faults == []
            assert (outcome.killed, outcome.processes) == (1, 2)

    run(main())


# The books.


class Scene:
    """Books of two readers, and a publisher whose events are made here."""

    def __init__(self) -> None:
        self.identity, self.outcome = make_identity(), LedgerOutcome()
        self.ledger = Ledger(self.outcome, lambda number: point_of(self.identity.id))
        self._last: list[SignedEvent] = []

    def make(self, payload: bytes, signer: Identity | None = None) -> SignedEvent:
        parents, height = tuple(one.cid for one in self._last), len(self._last)
        record = EventRecord(TOPIC, self.identity.public, 1, 0, payload, parents=parents, height=height + 1)
        (signed,) = sign_events(NETWORK, [record], (signer or self.identity).sign)
        return signed

    def publish(self, holders: int = 3) -> SignedEvent:
        (payload,) = self.ledger.order(0, 1)
        signed = self.make(payload)
        self._last = [signed]
        self.ledger.on_safe(Safe(0, signed.block, signed.signature.to_bytes(), holders, []))
        return signed

    def hand(self, reader: int, *events: SignedEvent) -> int:
        told = [(at, one.block, one.signature.to_bytes()) for at, one in enumerate(events, 1)]
        return self.ledger.on_handed(Handed(reader, TOPIC, told))

    def close(self, *ends: list[SignedEvent]) -> list[str]:
        kept = {reader: [one.cid for one in events] for reader, events in enumerate(ends, 1)}
        self.ledger.close(kept, enough=3)
        return self.outcome.faults


def test_books_that_are_right() -> None:
    scene = Scene()
    event = scene.publish()
    assert scene.ledger.unanswered == {}
    for reader in (1, 2):
        assert not scene.ledger.is_equal([1, 2], 3)
        assert scene.hand(reader, event) == 1
        scene.ledger.on_consumed(Consumed(reader, TOPIC, 1))
    assert scene.ledger.is_equal([1, 2], 3)
    assert scene.close([event], [event]) == []
    assert (scene.outcome.published, scene.outcome.acknowledged, scene.outcome.delivered) == (1, 1, 2)


def test_an_event_without_a_receipt_counts_when_somebody_has_it() -> None:
    scene = Scene()
    (payload,) = scene.ledger.order(0, 1)
    assert scene.ledger.unanswered == {payload: 0}
    scene.ledger.on_gone(0)
    assert scene.ledger.unanswered == {}
    event = scene.make(payload)
    scene.hand(1, event)
    assert not scene.ledger.is_equal([1, 2], 0)
    assert scene.ledger.is_equal([1], 0)
    assert scene.close([event]) == []
    assert (scene.outcome.published, scene.outcome.acknowledged) == (1, 0)


def lost(scene: Scene) -> list[str]:
    event = scene.publish()
    scene.hand(1, event)
    assert not scene.ledger.is_equal([1, 2], 3)
    return scene.close([event], [])


def came_again(scene: Scene) -> list[str]:
    event = scene.publish()
    scene.hand(1, event)
    scene.ledger.on_consumed(Consumed(1, TOPIC, 1))
    scene.hand(1, event)
    return scene.close([event])


def forged(scene: Scene) -> list[str]:
    (payload,) = scene.ledger.order(0, 1)
    event = scene.make(payload, make_identity())
    scene.hand(1, event)
    return scene.close([event])


def not_ordered(scene: Scene) -> list[str]:
    event = scene.make(b"of nobody")
    scene.hand(1, event)
    return scene.close([event])


def twice(scene: Scene) -> list[str]:
    first = scene.publish()
    again = scene.make(first.record.payload)
    scene.hand(1, first, again)
    return scene.close([first, again])


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (lost, "which 3 nodes acknowledged"),
        (came_again, "again, which it had acknowledged"),
        (forged, "which nobody published"),
        (not_ordered, "which nobody published"),
        (twice, "was published twice"),
    ],
)
def test_books_that_are_wrong(wrong: Callable[[Scene], list[str]], fault: str) -> None:
    assert any(fault in told for told in wrong(Scene()))
