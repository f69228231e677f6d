"""Replay: a peer is what it was when a segment of its record began, is handed what it was handed, is answered
what it was answered, and what comes out is compared with what came out then.

Every segment begins anew with its snapshot, so that each stands for itself.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from vinecast.core.config import read
from vinecast.core.errors import InputError
from vinecast.peer.config import PeerConfig
from vinecast.peer.links import LinkLimits
from vinecast.peer.outputs import PeerOutput
from vinecast.peer.peer import Peer
from vinecast.peer.record.entry import RecordEntry, digest_of, digest_of_failure
from vinecast.peer.record.segment import CutOffError, Place, SegmentHeader, SegmentReader, read_header, shown
from vinecast.peer.record.skeleton import Skeleton
from vinecast.peer.record.snapshot import restore
from vinecast.peer.record.tape import DivergedError, Tape, taped_ports
from vinecast.peer.scratch import ScratchPool


@dataclass(frozen=True, slots=True)
class ReplayStep:
    """What came of one entry."""

    entry: RecordEntry
    outputs: Sequence[PeerOutput]
    digest: bytes
    """Of what came out now."""
    trouble: str = ""
    """What went wrong, if the peer raised an error or asked something else than before."""

    @property
    def is_same(self) -> bool:
        """Whether what came out is what came out then, bit for bit."""
        return self.digest == self.entry.digest


class ReplayedPeer:
    """A peer as it was when a segment of its record began."""

    def __init__(self, header: SegmentHeader, snapshot: bytes) -> None:
        """InputError when header or snapshot are none of a peer that can be made here."""
        self._tape = Tape(header.with_payloads, bytes)
        ports = taped_ports(self._tape, ScratchPool())
        config = read(PeerConfig, header.config, "the settings in the record")
        if len(header.limits) != len(LinkLimits._fields):
            raise InputError("the limits in the record are those of another version")
        size, *seconds = header.limits
        try:
            limits = LinkLimits(int(size), *seconds)
            self.peer = Peer(header.public, header.network, header.seed, config, ports, limits)
        except (ArithmeticError, ValueError, TypeError, LookupError) as error:
            raise InputError(f"the header of the record makes no sense ({error})") from None
        restore(Skeleton(self.peer, ports), snapshot)

    @property
    def counted(self) -> Counter[str]:
        """What it has counted so far."""
        return self.peer.counters + self.peer.peer_table.counters

    def step(self, entry: RecordEntry) -> ReplayStep:
        """Hand it what it was handed, at the same time by its clock."""
        tape = self._tape
        tape.begin(entry.answers)
        outputs: Sequence[PeerOutput] = ()
        trouble = ""
        try:
            outputs = self.peer.handle(entry.what, entry.now_us)
            digest = digest_of(outputs, tape.asked, None)
            if not tape.is_over:
                trouble = "it does not ask all that it asked"
        except DivergedError as error:
            trouble = str(error)
            digest = digest_of_failure(error, tape.asked)
        except Exception as error:
            digest = digest_of_failure(error, tape.asked)
            trouble = f"it raises {type(error).__name__}: {error}"
        tape.end()
        return ReplayStep(entry, outputs, digest, trouble)


class ReplayWatcher(Protocol):
    """Who is told of a replay as it goes on."""

    def began(self, header: SegmentHeader) -> None:
        """A segment begins."""

    def stepped(self, place: Place, step: ReplayStep) -> None:
        """An entry was had again."""

    def ended(self, counted: Counter[str]) -> None:
        """A segment is over; what the peer counted in it."""


def replay(
    segments: Iterable[tuple[str, bytes]], code: str | None, watcher: ReplayWatcher
) -> CutOffError | None:
    """Have a record again: the name of each segment, and what is in it. ``code``: the digest of this peer's
    code, if that must be the record's.

    Where the record is cut off, if it is: a run of a node that was killed ends like that. InputError when it
    cannot be had again, when it is damaged, or when something is missing in its middle.
    """
    line, began = _Line(), False
    for name, data in segments:
        try:
            header, _ = read_header(name, data)
            reader = SegmentReader(name, data, line.follow(name, header))
        except CutOffError as error:
            line.cut_off(name, error)
            continue
        _check_code(name, header, code)
        try:
            peer = ReplayedPeer(header, reader.snapshot)
        except InputError as error:
            raise InputError(f"{name}: {shown(str(error))}") from None
        counted = peer.counted
        watcher.began(header)
        began = True
        try:
            for place, entry in reader.entries():
                watcher.stepped(place, peer.step(entry))
        except CutOffError as error:
            line.cut_off(name, error)
        line.last = reader.place.entry
        watcher.ended(peer.counted - counted)
    if line.cut is not None and not began:
        raise line.cut
    return line.cut


class _Line:
    """The segments of a record, one after the other: whether each goes on where the one before ended."""

    def __init__(self) -> None:
        self.cut: CutOffError | None = None
        """Where a segment was cut off, the last that was."""
        self.last = 0
        """The number of the last entry, counted through all runs."""
        self._name = self._life = ""
        self._public = b""
        """The key of the node whose record this is."""
        self._before = 0
        """Entries of earlier runs."""
        self._is_cut = False
        """Whether the segment before is cut off."""
        self._number = -1
        """Of the segment that has to come next; negative where that is not known."""

    def cut_off(self, name: str, cut: CutOffError) -> None:
        """This segment is cut off, and perhaps in its header already."""
        if name != self._name:
            self._name = name
            self._number += self._number >= 0
        self.cut, self._is_cut = cut, True

    def follow(self, name: str, header: SegmentHeader) -> int:
        """A segment comes next; how many entries of earlier runs there are. InputError where something is
        missing between it and the one before, or when it belongs elsewhere."""
        before, life = self._name, header.life
        if before:
            self._check(name, header)
        if life != self._life:
            self._before = self.last
        self._name, self._life, self._number, self._is_cut = name, life, header.number + 1, False
        self._public = header.public
        return self._before

    def _check(self, name: str, header: SegmentHeader) -> None:
        if self._public and header.public != self._public:
            raise InputError(f"{name} is of another node than {self._name}: a record is of one node")
        begins, is_same_run = header.begins_at, header.life == self._life
        if self._is_cut and (is_same_run or begins > 1):
            raise InputError(f"{self.cut}; it goes on in {name}")
        due = 1 + self.last - self._before if is_same_run else 1
        if begins != due:
            is_not = f"begins with entry {begins:,} of its run, and entry {due:,}"
        elif not is_same_run and header.number != self._number >= 0:
            is_not = f"is segment {header.number:,} of the record, and segment {self._number:,}"
        else:
            return
        raise InputError(
            f"{name} does not go on where {self._name} ended: it {is_not} should come then, "
            "so something is missing, or segments have changed places"
        )


def _check_code(name: str, header: SegmentHeader, code: str | None) -> None:
    if code is not None and header.code != code:
        raise InputError(
            f"{name}: recorded by other code (vinecast {shown(header.version)}, {shown(header.code[:12])}) "
            f"than this ({code[:12]}), whose outputs need not be the same: --anyway replays it nevertheless"
        )
