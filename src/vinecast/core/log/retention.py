"""Retention: how much of a stream is kept. The oldest goes first, by the order that all nodes share, so that
what stays has no holes, and the stream's floor rises to the height of the last that went.

Age is counted from when this node kept an event, by its own clock: the publisher's can say anything. Nothing
goes for its age while one that comes before it is younger. A consumer that is slow does not hold anything
back; what it did not read is counted, and told.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from vinecast.core.config import check, limited


@dataclass(frozen=True, slots=True)
class Retention:
    """How much of a stream is kept; None: without limit."""

    age_s: float | None = limited(None, above=0)
    """How long, in seconds."""
    events: int | None = limited(None, at_least=1)
    """How many."""
    bytes: int | None = limited(None, at_least=1)
    """How much, blocks and signatures together."""

    def __post_init__(self) -> None:
        check(self)


class Aged(NamedTuple):
    """What decides whether an event goes."""

    kept_us: int
    size: int


class Forgotten(NamedTuple):
    """What retention took from a stream."""

    topic: str
    events: int
    bytes: int
    floor: int
    """The stream's floor now."""
    unread: dict[str, int]
    """How many of these events a consumer had not acknowledged, by its name."""


def count_going(oldest: Iterable[Aged], events: int, size: int, retention: Retention, now_us: int) -> int:
    """How many of the oldest go, in the order of the stream, which has so many events and bytes."""
    kept_after_us = None if retention.age_s is None else now_us - round(retention.age_s * 1_000_000)
    going = 0
    for aged in oldest:
        too_many = retention.events is not None and events > retention.events
        too_much = retention.bytes is not None and size > retention.bytes
        too_old = kept_after_us is not None and aged.kept_us < kept_after_us
        if not (too_many or too_much or too_old):
            break
        going += 1
        events -= 1
        size -= aged.size
    return going
