"""What happened in a record, in numbers: inputs, what became of events, who came and went."""

from collections import Counter
from typing import Any

from vinecast.peer import inputs as given
from vinecast.peer import outputs as asked
from vinecast.peer.record.replay import ReplayStep
from vinecast.peer.record.segment import Place, SegmentHeader

_REASONS = ("refused", "dropped", "events dropped")
"""How the names of counters begin that say why something was not done."""


class ReplaySummary:
    """Counts what a replay shows (``ReplayWatcher``)."""

    def __init__(self) -> None:
        self.header: SegmentHeader | None = None
        """Of the first segment."""
        self.segments = self.entries = self.published = self.delivered = self.lost_readers = 0
        self.lives: dict[str, None] = {}
        """The runs of the node."""
        self.inputs: Counter[str] = Counter()
        self.outputs: Counter[str] = Counter()
        self.turned_away: Counter[str] = Counter()
        """Why something was refused or dropped."""
        self.up: Counter[bytes] = Counter()
        """Peer → connections to it."""
        self.lost: Counter[bytes] = Counter()
        """Peer → connections that broke, or could not be made."""
        self.shunned: dict[bytes, None] = {}
        self.began_us = self.ended_us = 0
        self.different = 0
        self.first_difference: tuple[Place, ReplayStep] | None = None

    def began(self, header: SegmentHeader) -> None:
        """A segment begins."""
        self.header = self.header or header
        self.segments += 1
        self.lives[header.life] = None

    def stepped(self, place: Place, step: ReplayStep) -> None:
        """An entry was had again."""
        self.entries += 1
        self.began_us = self.began_us or step.entry.now_us
        self.ended_us = step.entry.now_us
        self._note_input(step.entry.what)
        for output in step.outputs:
            self._note_output(output)
        if not step.is_same:
            self.different += 1
            self.first_difference = self.first_difference or (place, step)

    def ended(self, counted: Counter[str]) -> None:
        """A segment is over."""
        reasons = {name: count for name, count in counted.items() if name.startswith(_REASONS)}
        self.turned_away.update(reasons)

    def _note_input(self, what: given.PeerInput) -> None:
        self.inputs[type(what).__name__] += 1
        match what:
            case given.PublishTurn(requests):
                self.published += sum(len(one.drafts) for one in requests)
            case given.LinkUp(peer):
                self.up[peer] += 1
            case given.LinkDown(peer, broken) if broken:
                self.lost[peer] += 1
            case given.PeerUnreachable(peer):
                self.lost[peer] += 1

    def _note_output(self, output: asked.PeerOutput) -> None:
        self.outputs[type(output).__name__] += 1
        match output:
            case asked.DeliverEvent():
                self.delivered += 1
            case asked.ShunPeer(peer):
                self.shunned[peer] = None

    @property
    def seconds(self) -> float:
        """From the first input to the last."""
        return (self.ended_us - self.began_us) / 1e6

    def as_dict(self) -> dict[str, Any]:
        """The summary for JSON."""
        header = self.header
        return {
            "key": header.public.hex() if header else "",
            "network": header.network if header else "",
            "payloads": bool(header and header.with_payloads),
            "segments": self.segments,
            "runs": len(self.lives),
            "entries": self.entries,
            "began_us": self.began_us,
            "seconds": self.seconds,
            "inputs": dict(sorted(self.inputs.items())),
            "outputs": dict(sorted(self.outputs.items())),
            "published": self.published,
            "delivered": self.delivered,
            "turned_away": dict(sorted(self.turned_away.items())),
            "peers_up": {peer.hex(): count for peer, count in self.up.items()},
            "peers_lost": {peer.hex(): count for peer, count in self.lost.items()},
            "shunned": [peer.hex() for peer in self.shunned],
            "same": not self.different,
            "different": self.different,
        }
