"""The ways of events: which of its system's messages an event travels in, as a number on its frame.

All of a system's messages that carry events have the fields topic, event and hops; what else they say, if
anything, is in the number and in the event itself.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from vinecast.core.events import Message
from vinecast.core.log.batch_signature import SignedEvent

UNKNOWN_FORM = "events in a message of another system"


class EventEncoding(Protocol):
    """A system's."""

    @property
    def count(self) -> int:
        """Ways have numbers below this one."""
        ...

    def form_of(self, message: Message) -> int | None:
        """The way of a message; None if it carries no event."""
        ...

    def read(self, form: int, topic: int, signed: SignedEvent, hops: int) -> Any:
        """The message of an event that came this way. RemoteError if there is none such."""
        ...


class PlainEncoding:
    """Where a message says nothing but topic, event and hops: its way is its place among its system's."""

    def __init__(self, carries: Sequence[type[Any]]) -> None:
        self._carries = carries
        self._forms: dict[type[Any], int] = {message: form for form, message in enumerate(carries)}

    @property
    def count(self) -> int:
        """See ``EventEncoding``."""
        return len(self._carries)

    def form_of(self, message: Message) -> int | None:
        """See ``EventEncoding``."""
        return self._forms.get(type(message))

    def read(self, form: int, topic: int, signed: SignedEvent, hops: int) -> Any:
        """See ``EventEncoding``."""
        return self._carries[form](topic, signed.number, hops)
