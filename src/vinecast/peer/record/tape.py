"""The tape: what a peer was answered while it handled an input, by what it was handed (``PeerPorts``).

While a node is recorded, what it asks of its store, its keys and so on goes through ``recorded_ports``, which
note every answer; a peer of ``taped_ports`` is given the same answers in the same order. The questions are
noted as well, for the digest of what came out: what a peer keeps, acknowledges and signs is part of that.

Answers are plain values that MessagePack knows. An error is an answer too.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from vinecast.core import errors
from vinecast.core.errors import InputError
from vinecast.core.log.batch_signature import BatchSignature, SignedEvent
from vinecast.core.log.event_record import decode
from vinecast.core.log.streams import KeptEvent, StreamState
from vinecast.peer.content import Matching
from vinecast.peer.identity import SIGNATURE_BYTES
from vinecast.peer.peer import PeerPorts
from vinecast.peer.scratch import ScratchPool
from vinecast.peer.streams.ports import StreamPlace

(SIGN, VERIFY, CID, LOOK, STATE, TOPICS, HEIGHT, GET, AFTER, IN_ORDER, POSITION, KEEP, FLOOR) = range(1, 14)
(OFFSET, ACK, CONSUMERS, DROP, CROWDED, WEIGHT, ROOM) = range(14, 21)
QUESTIONS = (
    *("", "sign", "verify", "cid_of", "look", "state", "topics", "height_of", "get", "after", "in_order"),
    *("position_of", "keep", "set_floor", "offset", "ack", "consumers", "drop_consumer", "is_crowded"),
    *("weight", "make_room"),
)
"""What a peer asks, by number."""

T = TypeVar("T")


class DivergedError(Exception):
    """A peer asks something else than it asked when it was recorded."""


class Tape:
    """What was asked and answered while one input was handled."""

    def __init__(self, with_payloads: bool, strip: Callable[[bytes], bytes]) -> None:
        """``strip``: makes a block of one with its payload."""
        self.with_payloads, self.strip = with_payloads, strip
        self.runs = False
        """Whether an input is handled: what others ask meanwhile is not the peer's."""
        self.answers: list[Any] = []
        """Question, answer, question, answer …"""
        self.asked: list[Any] = []
        self._next = 0

    def begin(self, answers: Sequence[Any] = ()) -> None:
        """An input is about to be handled. ``answers``: those that it gets, where it is had again."""
        self.runs, self.answers, self.asked, self._next = True, list(answers), [], 0

    def end(self) -> None:
        """It is handled."""
        self.runs = False

    def note(self, question: int, answer: Any, *asked: Any) -> None:
        """The peer asked something, and was answered."""
        if self.runs:
            self.answers += (question, answer)
            self.asked.append((question, *asked))

    def fail(self, question: int, error: InputError, *asked: Any) -> None:
        """The peer asked something that has no answer."""
        if self.runs:
            self.answers += (-question, [type(error).__name__, str(error)])
            self.asked.append((question, *asked))

    def answer(self, question: int, *asked: Any) -> Any:
        """What the peer was answered when it asked this. DivergedError when it asked something else."""
        if not self.runs:
            raise errors.Bug("a peer of a tape was asked while it handles nothing")
        self.asked.append((question, *asked))
        at, self._next = self._next, self._next + 2
        if at + 1 >= len(self.answers) or self.answers[at] not in (question, -question):
            then = _name_of(self.answers[at]) if at + 1 < len(self.answers) else "nothing more"
            raise DivergedError(f"it asks {QUESTIONS[question]} where it asked {then}")
        answer = self.answers[at + 1]
        if self.answers[at] < 0:
            raise _error_of(*answer)
        return answer

    @property
    def is_over(self) -> bool:
        """Whether all answers were given."""
        return self._next >= len(self.answers)


def _name_of(question: Any) -> str:
    known = isinstance(question, int) and 0 < abs(question) < len(QUESTIONS)
    return QUESTIONS[abs(question)] if known else "something unknown"


def _error_of(name: str, text: str) -> InputError:
    kind = vars(errors).get(name)
    if isinstance(kind, type) and issubclass(kind, InputError) and "__init__" not in vars(kind):
        return kind(text)
    return InputError(text)


# What is recorded.


class RecordedStore:
    """A store of streams whose answers are noted."""

    def __init__(self, store: StreamPlace, tape: Tape) -> None:
        self._store, self._tape = store, tape

    @property
    def counters(self) -> Counter[str]:
        """See ``StreamPlace``: for those who look from outside."""
        return self._store.counters

    @property
    def is_crowded(self) -> bool:
        found = self._store.is_crowded
        self._tape.note(CROWDED, found)
        return found

    async def durable(self) -> None:
        """See ``StreamPlace``: no peer waits."""
        await self._store.durable()

    def state(self, topic: str) -> StreamState:
        return self._ask(STATE, self._store.state, topic)

    def topics(self) -> list[str]:
        return self._ask(TOPICS, self._store.topics)

    def height_of(self, topic: str, cid: bytes) -> int:
        return self._ask(HEIGHT, self._store.height_of, topic, cid)

    def position_of(self, cid: bytes) -> int:
        return self._ask(POSITION, self._store.position_of, cid)

    def weight(self, topic: str) -> int:
        return self._ask(WEIGHT, self._store.weight, topic)

    def offset(self, consumer: str, topic: str) -> int:
        return self._ask(OFFSET, self._store.offset, consumer, topic)

    def consumers(self, topic: str) -> dict[str, int]:
        return self._ask(CONSUMERS, self._store.consumers, topic)

    def ack(self, consumer: str, topic: str, position: int) -> None:
        self._ask(ACK, self._store.ack, consumer, topic, position)

    def drop_consumer(self, consumer: str, topic: str) -> None:
        self._ask(DROP, self._store.drop_consumer, consumer, topic)

    def set_floor(self, topic: str, floor: int) -> None:
        self._ask(FLOOR, self._store.set_floor, topic, floor)

    def make_room(self) -> None:
        self._ask(ROOM, self._store.make_room)

    def _ask(self, question: int, ask: Callable[..., T], *asked: Any) -> T:
        try:
            found = ask(*asked)
        except InputError as error:
            self._tape.fail(question, error, *asked)
            raise
        self._tape.note(question, found, *asked)
        return found

    def keep(self, events: Sequence[SignedEvent], now_us: int) -> None:
        try:
            self._store.keep(events, now_us)
        except InputError as error:
            self._tape.fail(KEEP, error, *_kept(events, now_us))
            raise
        self._tape.note(KEEP, None, *_kept(events, now_us))

    def get(self, cid: bytes) -> SignedEvent | None:
        try:
            found = self._store.get(cid)
        except InputError as error:
            self._tape.fail(GET, error, cid)
            raise
        self._tape.note(GET, None if found is None else _packed(self._tape, found), cid)
        return found

    def after(self, topic: str, position: int, count: int) -> list[KeptEvent]:
        return self._read(AFTER, self._store.after, topic, position, count)

    def in_order(self, topic: str, after: tuple[int, bytes], count: int) -> list[KeptEvent]:
        return self._read(IN_ORDER, self._store.in_order, topic, after, count)

    def _read(self, question: int, read: Callable[..., list[KeptEvent]], *asked: Any) -> list[KeptEvent]:
        try:
            found = read(*asked)
        except InputError as error:
            self._tape.fail(question, error, *asked)
            raise
        if self._tape.runs:
            tape = self._tape
            tape.note(question, [(one.position, *_packed(tape, one.signed)) for one in found], *asked)
        return found


def _kept(events: Sequence[SignedEvent], now_us: int) -> tuple[Any, ...]:
    return [signed.cid for signed in events], now_us


def _packed(tape: Tape, signed: SignedEvent) -> tuple[bytes, bytes, bytes]:
    block = signed.block if tape.with_payloads else tape.strip(signed.block)
    return signed.cid, block, signed.signature.to_bytes()


def recorded_ports(ports: PeerPorts, tape: Tape) -> PeerPorts:
    """The ports of a peer whose answers are noted."""

    def sign(text: bytes) -> bytes:
        signature = ports.sign(text)
        tape.note(SIGN, signature, text)
        return signature

    def verify(public: bytes, text: bytes, signature: bytes) -> bool:
        holds = ports.verify(public, text, signature)
        tape.note(VERIFY, holds, public, text, signature)
        return holds

    def cid_of(block: bytes) -> bytes:
        cid = ports.cid_of(block)
        tape.note(CID, cid)
        return cid

    def look(find: Callable[[bytes], Matching], payload: bytes) -> Matching:
        found = ports.look(find, payload)
        tape.note(LOOK, found)
        return found

    plain = ports._replace(store=RecordedStore(ports.store, tape), sign=sign, verify=verify)
    return plain if tape.with_payloads else plain._replace(cid_of=cid_of, look=look)


# What is had again.


class TapedStore:
    """A store of streams that answers as one did before."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self.counters: Counter[str] = Counter()

    @property
    def is_crowded(self) -> bool:
        return bool(self._tape.answer(CROWDED))

    async def durable(self) -> None:
        """See ``StreamPlace``: no peer waits."""

    def state(self, topic: str) -> StreamState:
        heads, first, last, floor = self._tape.answer(STATE, topic)
        return StreamState(tuple(heads), first, last, floor)

    def topics(self) -> list[str]:
        return list(self._tape.answer(TOPICS))

    def height_of(self, topic: str, cid: bytes) -> int:
        return int(self._tape.answer(HEIGHT, topic, cid))

    def position_of(self, cid: bytes) -> int:
        return int(self._tape.answer(POSITION, cid))

    def weight(self, topic: str) -> int:
        return int(self._tape.answer(WEIGHT, topic))

    def offset(self, consumer: str, topic: str) -> int:
        return int(self._tape.answer(OFFSET, consumer, topic))

    def consumers(self, topic: str) -> dict[str, int]:
        return dict(self._tape.answer(CONSUMERS, topic))

    def ack(self, consumer: str, topic: str, position: int) -> None:
        self._tape.answer(ACK, consumer, topic, position)

    def drop_consumer(self, consumer: str, topic: str) -> None:
        self._tape.answer(DROP, consumer, topic)

    def set_floor(self, topic: str, floor: int) -> None:
        self._tape.answer(FLOOR, topic, floor)

    def make_room(self) -> None:
        self._tape.answer(ROOM)

    def keep(self, events: Sequence[SignedEvent], now_us: int) -> None:
        self._tape.answer(KEEP, *_kept(events, now_us))

    def get(self, cid: bytes) -> SignedEvent | None:
        found = self._tape.answer(GET, cid)
        return None if found is None else _unpacked(*found)

    def after(self, topic: str, position: int, count: int) -> list[KeptEvent]:
        found = self._tape.answer(AFTER, topic, position, count)
        return [KeptEvent(at, _unpacked(*packed)) for at, *packed in found]

    def in_order(self, topic: str, after: tuple[int, bytes], count: int) -> list[KeptEvent]:
        found = self._tape.answer(IN_ORDER, topic, after, count)
        return [KeptEvent(at, _unpacked(*packed)) for at, *packed in found]


def _unpacked(cid: bytes, block: bytes, signature: bytes) -> SignedEvent:
    return SignedEvent(decode(block), block, cid, BatchSignature.from_bytes(signature))


def taped_ports(tape: Tape, scratch: ScratchPool) -> PeerPorts:
    """The ports of a peer that is had again. While it is made it may sign, which nobody sees."""

    def sign(text: bytes) -> bytes:
        return bytes(tape.answer(SIGN, text)) if tape.runs else bytes(SIGNATURE_BYTES)

    def verify(public: bytes, text: bytes, signature: bytes) -> bool:
        return bool(tape.answer(VERIFY, public, text, signature))

    def cid_of(block: bytes) -> bytes:
        return bytes(tape.answer(CID))

    def look(find: Callable[[bytes], Matching], payload: bytes) -> Matching:
        found = tape.answer(LOOK)
        return None if found is None else tuple(found)

    plain = PeerPorts(TapedStore(tape), sign, verify, scratch)
    return plain if tape.with_payloads else plain._replace(cid_of=cid_of, look=look)
