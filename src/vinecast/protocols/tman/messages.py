"""What T-Man's nodes say to each other. An entry is a peer, its profile, and how old that is."""

from dataclasses import dataclass
from typing import ClassVar

from vinecast.core.arrays.view import Ages, Peers


@dataclass(frozen=True, slots=True)
class TManRequest:
    """All the initiator knows, itself included. The answer repeats ``cycle``."""

    kind: ClassVar[str] = "tman.request"
    cycle: int
    peers: Peers
    ages: Ages


@dataclass(frozen=True, slots=True)
class TManAnswer:
    """All the partner knows, itself included."""

    kind: ClassVar[str] = "tman.answer"
    cycle: int
    peers: Peers
    ages: Ages


@dataclass(frozen=True, slots=True)
class TManProfile:
    """The sender's own profile, to a neighbour of its table (S2 Algorithm 6). The echo repeats ``cycle``."""

    kind: ClassVar[str] = "tman.profile"
    cycle: int
    peers: Peers
    ages: Ages


@dataclass(frozen=True, slots=True)
class TManEcho:
    """The neighbour's own profile in return (S2 §3.5: "receives back a response"), and introductions."""

    kind: ClassVar[str] = "tman.echo"
    cycle: int
    peers: Peers
    ages: Ages
