"""Topic names and the patterns over them.

A name is a path (``sports/tennis``). A pattern is a path too, in which a whole segment may be a wildcard, as
in MQTT: ``+`` stands for exactly one segment, ``#`` at the end for any number of them, none included, so that
``sports/#`` covers ``sports`` itself.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from vinecast.core.errors import BadNameError
from vinecast.core.log.event_record import topic_fault

ONE, REST = "+", "#"
"""The wildcards: any one segment, and all the rest."""


def is_topic(name: str) -> bool:
    """Whether this can be the name of a topic."""
    return not topic_fault(name)


def check_topic(name: str) -> str:
    """The name, or a BadNameError that says why it cannot be a topic's."""
    if not isinstance(name, str):
        raise BadNameError(f"a topic is a string, not {type(name).__name__}")
    if fault := topic_fault(name):
        raise BadNameError(f"{fault}, not {name[:80]!r}")
    return name


@dataclass(frozen=True, slots=True)
class Pattern:
    """What a subscription asks for: one topic, or all that fit."""

    segments: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "Pattern":
        """The pattern of a text, or a BadNameError that says what is wrong with it."""
        if not isinstance(text, str):
            raise BadNameError(f"a topic is a string, not {type(text).__name__}")
        segments = tuple(text.split("/"))
        if REST in segments[:-1]:
            raise BadNameError(f"'#' stands only at the end of a topic pattern, not as in {text[:80]!r}")
        plain = "/".join("-" if segment in (ONE, REST) else segment for segment in segments)
        if ONE in plain or REST in plain:
            raise BadNameError(
                f"a wildcard takes a whole segment of a topic pattern, not as in {text[:80]!r}"
            )
        if fault := topic_fault(plain):
            raise BadNameError(f"{fault}, not {text[:80]!r}")
        return cls(segments)

    @property
    def is_plain(self) -> bool:
        """Whether it names exactly one topic."""
        return ONE not in self.segments and REST not in self.segments

    def matches(self, name: str) -> bool:
        """Whether a topic of this name is meant."""
        names = name.split("/")
        wanted = self.segments
        if wanted[-1] == REST:
            wanted = wanted[:-1]
            if len(names) < len(wanted):
                return False
        elif len(names) != len(wanted):
            return False
        return all(want in (ONE, has) for want, has in zip(wanted, names, strict=False))

    def choose(self, names: Iterable[str]) -> list[str]:
        """Those of the names that are meant, in their order."""
        return [name for name in names if self.matches(name)]

    def __str__(self) -> str:
        return "/".join(self.segments)
