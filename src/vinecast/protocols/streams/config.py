"""Bounds and times of gap repair."""

from dataclasses import dataclass

from vinecast.core.config import check, limited
from vinecast.core.machine import SECOND_US

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class StreamsConfig:
    """All values are ours: S3 §4.5 gives none."""

    period_s: float = limited(1.0, at_least=0.01, at_most=3600.0)
    """Seconds between two exchanges of heads with one neighbour of every topic."""
    topics_a_period: int = limited(256, at_least=1, at_most=8192)
    """Topics that heads are exchanged for in one period, in turn."""
    answer_s: float = limited(0.5, at_least=0.001, at_most=60.0)
    """Seconds after which a question counts as unanswered; doubled when all were asked in vain, up to four
    times that."""
    tries: int = limited(12, at_least=1, at_most=64)
    """How often an event is asked for, each time of another peer as long as there are any, before it is taken
    to have never existed."""
    fetches: int = limited(4096, at_least=16, at_most=1_000_000)
    """Events that are looked for at one time."""
    window: int = limited(1024, at_least=1, at_most=65536)
    """Of these, how many one peer is asked for."""
    asked: int = limited(256, at_least=1, at_most=4096)
    """Events in one question."""
    listed: int = limited(1024, at_least=1, at_most=4096)
    """Content ids in one list."""
    pending: int = limited(4096, at_least=1, at_most=1_000_000)
    """Events of one topic that wait for parents; half as many from one sender."""
    pending_bytes: int = limited(8 * MIB, at_least=1024, at_most=1024 * MIB)
    """The same in bytes."""
    walk: int = limited(4, at_least=0, at_most=4096)
    """So many events of a topic may wait while parents are asked for one by one; then a peer is asked for a
    list."""
    near: int = limited(8, at_least=0, at_most=4096)
    """How far below the highest kept event a list begins at first."""
    batch_bytes: int = limited(MIB // 16, at_least=1024, at_most=MIB)
    """Of events in one message, unless a single one is larger."""
    push_s: float = limited(0.05, at_least=0.0, at_most=60.0)
    """Seconds for which events are gathered before they go to replicas."""
    own: int = limited(4096, at_least=1, at_most=1_000_000)
    """Events of its own of which a node knows who has acknowledged them, the latest."""
    served_bytes: int = limited(32 * MIB, at_least=1024, at_most=1024 * MIB)
    """Bytes that one peer is sent a period on its asking."""
    provide: float = limited(0.1, at_least=0.0, at_most=1.0)
    """The probability with which a node provides a stream from then on, when it keeps an event of it: p of S3
    §4.5."""
    others_topics: int = limited(256, at_least=0, at_most=65536)
    """Topics that are kept for others."""
    others_bytes: int = limited(1024 * MIB, at_least=0, at_most=1 << 50)
    """Bytes that are kept for others, in all."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def period_us(self) -> int:
        """A period in microseconds."""
        return round(self.period_s * SECOND_US)

    @property
    def answer_us(self) -> int:
        """The time for an answer in microseconds."""
        return round(self.answer_s * SECOND_US)

    @property
    def push_us(self) -> int:
        """The time for gathering in microseconds."""
        return round(self.push_s * SECOND_US)
