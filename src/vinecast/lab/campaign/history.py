"""What happened in a run: what was published, who was handed what, and what was said about it.

Facts only; what was promised is judged by ``promises``. Times are seconds since the beginning of the run.
"""

from dataclasses import dataclass, field

from vinecast.core.log.batch_signature import SignedEvent
from vinecast.lab.campaign.plan import PublishStep, ReadStep
from vinecast.peer.topics import Pattern


@dataclass(slots=True)
class PublicationRecord:
    """What became of one publication of the plan."""

    step: PublishStep
    at_s: float
    life: int
    """Of its node."""
    answered_s: float | None = None
    error: str = ""
    """Why it failed as a whole."""
    events: list["PublishedEvent"] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class PublishedEvent:
    """One event that an honest application published."""

    publication: PublicationRecord
    payload: bytes
    cid: bytes = b""
    """Once it is known: from the receipt, or from whoever was handed it."""
    holders: int = -1
    """How many others hold it, as its publisher was told; −1: it was told nothing."""
    error: str = ""
    """Why its publisher was told that it failed."""

    @property
    def topic(self) -> str:
        """Where it was published."""
        return self.publication.step.topic

    @property
    def is_acknowledged(self) -> bool:
        """Whether its publisher was told that it is safe."""
        return self.holders >= 0


@dataclass(slots=True, eq=False)
class Opening:
    """A reader of the plan in one life of its node."""

    read: ReadStep
    life: int
    subscription: int
    opened_s: float
    after: bytes = b""
    """The event that it began after, where it did."""
    was_here: bool = False
    """Whether its node had something of the topic before, or its machine took part in it."""
    has_after: bool = False
    """Whether its node kept the event that it began after."""
    ready_s: float | None = None
    closed_s: float | None = None
    refused: str = ""
    """Why it could not be opened."""
    failed: str = ""
    """Why it could not go on reading from the store, when last told."""
    handed: list[tuple[float, SignedEvent, int]] = field(default_factory=list)
    """When, what, at which position (0: outside of streams), in order."""
    waiting: int = 0
    """Events that it was handed and has not looked at."""
    acknowledged: dict[bytes, bool] = field(default_factory=dict)
    """Event that its consumer acknowledged → whether that was answered."""

    @property
    def is_open(self) -> bool:
        """Whether it reads at the end."""
        return self.closed_s is None and not self.refused


@dataclass(slots=True)
class ReceiptFacts:
    """How things stood when a receipt was given."""

    event: PublishedEvent
    own_is_safe: bool
    """Whether it was synced on the publisher's disk, if it has one."""
    on_disk: int
    """Other nodes that had it on their disks, synced; liars too, if they did."""
    in_memory: int
    """Other nodes without a disk that had it."""
    who: tuple[int, ...]
    """The honest nodes that had it on disk, its publisher among them."""


@dataclass(slots=True)
class LevelFacts:
    """How things stood when a reader's node was told that it has all of a stream."""

    at_s: float
    opening: Opening
    below: int
    """Acknowledged events that it lacked then, which others had whom it could reach: below its floor."""
    above: int
    """And above."""
    told_floor: bool
    """Whether any other node has a floor there."""


@dataclass(slots=True)
class History:
    """All of a run."""

    publications: list[PublicationRecord] = field(default_factory=list)
    openings: list[Opening] = field(default_factory=list)
    receipts: list[ReceiptFacts] = field(default_factory=list)
    raised: list[tuple[float, int, str]] = field(default_factory=list)
    """When, at which node, what: exceptions that came out of a peer."""
    level: list[LevelFacts] = field(default_factory=list)
    """Nodes that were told that they have all of a stream."""
    unsafe: list[tuple[float, Opening, SignedEvent]] = field(default_factory=list)
    """When which reader was handed an event that its node would have lost in a crash."""
    shunned: list[tuple[float, int, int]] = field(default_factory=list)
    """When, who, whom."""
    by_payload: dict[bytes, PublishedEvent] = field(default_factory=dict)
    dropped: dict[int, int] = field(default_factory=dict)
    """Node → events that readers had no room for."""
    inputs: int = 0
    """That peers handled."""


def fits(pattern: str, topic: str) -> bool:
    """Whether a topic is one that a reader asked for."""
    if "#" in pattern or "+" in pattern:
        return topic in Pattern.parse(pattern).choose([topic])
    return pattern == topic
