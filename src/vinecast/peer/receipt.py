"""The receipt: what a publisher is told."""

from dataclasses import dataclass
from typing import Any

from vinecast.core.log.blocks import cid_text


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a publication, as far as the publisher can know."""

    cid: bytes
    """The event's content id."""
    neighbours: int
    """Peers that it was handed to."""
    holders: int = 0
    """Other nodes that said that it is safe with them; 0 for an event outside of streams."""

    @property
    def told(self) -> dict[str, Any]:
        """The receipt for JSON."""
        return {"id": self.id, "neighbours": self.neighbours, "holders": self.holders}

    @property
    def id(self) -> str:
        """The content id as people write it."""
        return cid_text(self.cid)
