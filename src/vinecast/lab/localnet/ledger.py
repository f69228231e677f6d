"""The ledger of a live run of durable streams: what was ordered, published, acknowledged and handed to whom.

All of it goes to the checker of simulated runs (``core/log/checker``). A publisher that is killed before
its receipt may have published or not. So an event counts as published when it was ordered, and its signature
is that of the node that was told to publish it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from vinecast.core.log.batch_signature import SignatureChecker, SignedEvent, read_signed_event
from vinecast.core.log.blocks import cid_of
from vinecast.core.log.checker import StreamChecker
from vinecast.lab.localnet.messages import Consumed, Handed, Safe
from vinecast.peer.identity import node_id_of, verify

NETWORK, TOPIC = "durable", "stream"


@dataclass(slots=True)
class LedgerOutcome:
    """What became of a run."""

    faults: list[str] = field(default_factory=list)
    """Promises that were broken."""
    converged_s: float = 0.0
    """Seconds from the last fault until all streams were equal; of several times, the longest."""
    processes: int = 0
    killed: int = 0
    """With kill −9."""
    published: int = 0
    acknowledged: int = 0
    """Events that as many others hold as the kind of run asks for."""
    delivered: int = 0
    """To consumers, those that came again included."""
    refused: dict[str, int] = field(default_factory=dict)
    """What nodes refused, by reason."""
    noted: dict[str, Any] = field(default_factory=dict)
    """What else there is to tell of this kind of run."""
    trouble: list[str] = field(default_factory=list)
    """What a node could not do."""


def point_of(node_id: bytes) -> int:
    """A node's point on the circle."""
    return int.from_bytes(node_id[:8], "big")


class Ledger:
    """Of one run. ``points`` says where on the circle a node is."""

    def __init__(self, outcome: LedgerOutcome, points: Callable[[int], int]) -> None:
        self.checker = StreamChecker()
        self.ordered = 0
        """Events that nodes were told to publish."""
        self.unanswered: dict[bytes, int] = {}
        """Payloads of those that nothing is known of yet → who was told."""
        self.receipts: dict[bytes, int] = {}
        """Events whose publishers have a receipt → how many others hold them."""
        self._outcome, self._points = outcome, points
        self._signatures = SignatureChecker(verify, NETWORK)
        self._orders: dict[bytes, int] = {}
        self._made: dict[bytes, bytes] = {}
        """Payload → the event."""
        self._handed: dict[int, dict[bytes, int]] = {}
        """Reader → events and their offsets."""

    def order(self, number: int, events: int) -> list[bytes]:
        """What a node is to publish next."""
        payloads = [b"%d of %d" % (self.ordered + i, number) for i in range(events)]
        self.ordered += events
        self._orders.update(dict.fromkeys(payloads, number))
        self.unanswered.update(dict.fromkeys(payloads, number))
        return payloads

    def on_safe(self, safe: Safe) -> None:
        """A publisher has its receipt."""
        signed = self._know(safe.block, safe.signature)
        self.unanswered.pop(signed.record.payload, None)
        self.receipts[signed.cid] = safe.holders
        self.checker.acknowledged(signed.cid, safe.holders)

    def on_gone(self, number: int) -> None:
        """A node is gone: nobody waits for its receipts."""
        self.unanswered = {payload: who for payload, who in self.unanswered.items() if who != number}

    def on_handed(self, handed: Handed) -> int:
        """A consumer was handed events; the offset of the last."""
        offset = 0
        for offset, block, signature in handed.events:
            signed = self._know(block, signature)
            self.checker.delivered(handed.node, signed)
            self._handed.setdefault(handed.node, {})[signed.cid] = offset
            self._outcome.delivered += 1
        return offset

    def on_consumed(self, consumed: Consumed) -> None:
        """A consumer is done with all up to an offset."""
        handed = self._handed.get(consumed.node, {})
        done = [cid for cid, offset in handed.items() if offset <= consumed.offset]
        self.checker.consumed(consumed.node, consumed.topic, done)

    def _know(self, block: bytes, signature: bytes) -> SignedEvent:
        """An event, from anywhere; if it is what an honest node was told to publish, the checker hears so."""
        signed = read_signed_event(block, cid_of(block), signature)
        payload, publisher = signed.record.payload, point_of(node_id_of(signed.record.publisher))
        number = self._orders.get(payload)
        if number is None or publisher != self._points(number) or not self._signatures.holds(signed):
            return signed
        self.checker.published(signed)
        if self._made.setdefault(payload, signed.cid) != signed.cid:
            self._outcome.faults.append(f"{payload!r} was published twice")
        return signed

    # The end.

    def is_equal(self, readers: Sequence[int], enough: int) -> bool:
        """Whether these readers have the same events, and among them all that ``enough`` others hold."""
        sets = [set(self._handed.get(number, ())) for number in readers]
        events = self.checker.events(TOPIC)
        safe = {signed.cid for signed in events if self.checker.holders(signed.cid) >= enough}
        return bool(sets) and all(one == sets[0] for one in sets) and sets[0] >= safe

    def close(self, ends: dict[int, list[bytes]], enough: int) -> None:
        """The run is over; ``ends``: what each reader keeps, in the order that all share."""
        self.checker.finish(TOPIC, ends, enough)
        self._outcome.faults += self.checker.faults
        self._outcome.published = len(self.checker.events(TOPIC))
        self._outcome.acknowledged = sum(holders >= enough for holders in self.receipts.values())
