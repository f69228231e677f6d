"""What Pastry nodes say to each other."""

from dataclasses import dataclass
from typing import ClassVar

from vinecast.protocols.pastry.rules import Peers


@dataclass(frozen=True, slots=True)
class PastryJoin:
    """On its way to the joiner's id. ``number`` is the joiner's, for the answer; ``row`` the first that it
    still needs; ``peers`` what the way has given so far."""

    kind: ClassVar[str] = "pastry.join"
    joiner: int
    number: int
    row: int
    steps: int
    peers: Peers


@dataclass(frozen=True, slots=True)
class PastryWelcome:
    """From the last node on a join's way: what was gathered, and that node's leaf set."""

    kind: ClassVar[str] = "pastry.welcome"
    number: int
    peers: Peers


@dataclass(frozen=True, slots=True)
class PastryAnnounce:
    """Tells a peer that a newcomer is there."""

    kind: ClassVar[str] = "pastry.announce"


@dataclass(frozen=True, slots=True)
class PastryGoodbye:
    """The sender leaves in good order."""

    kind: ClassVar[str] = "pastry.goodbye"


@dataclass(frozen=True, slots=True)
class PastryExchange:
    """The sender's leafs; it would like the receiver's."""

    kind: ClassVar[str] = "pastry.exchange"
    peers: Peers


@dataclass(frozen=True, slots=True)
class PastryAnswer:
    """The leafs of somebody who was asked."""

    kind: ClassVar[str] = "pastry.answer"
    peers: Peers


@dataclass(frozen=True, slots=True)
class PastryProbe:
    """Are you there, and what is in this row of your table?"""

    kind: ClassVar[str] = "pastry.probe"
    row: int


@dataclass(frozen=True, slots=True)
class PastryRow:
    """A row of the sender's table."""

    kind: ClassVar[str] = "pastry.row"
    peers: Peers


@dataclass(frozen=True, slots=True)
class PastryGone:
    """Leafs of the sender that were silent."""

    kind: ClassVar[str] = "pastry.gone"
    peers: Peers


MESSAGES = (
    PastryJoin,
    PastryWelcome,
    PastryAnnounce,
    PastryGoodbye,
    PastryExchange,
    PastryAnswer,
    PastryProbe,
    PastryRow,
    PastryGone,
)
"""What Pastry nodes say to each other, for a system that sorts messages."""
