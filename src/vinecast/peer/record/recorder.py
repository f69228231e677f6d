"""A peer that is recorded: it does what any other does, and each input becomes an entry."""

from collections.abc import Callable

from vinecast.peer.inputs import PeerInput
from vinecast.peer.outputs import PeerOutput
from vinecast.peer.peer import Peer, PeerPorts
from vinecast.peer.record.entry import RecordEntry, digest_of, digest_of_failure, write_entry
from vinecast.peer.record.payloads import PayloadStripper
from vinecast.peer.record.skeleton import Skeleton
from vinecast.peer.record.snapshot import take_snapshot
from vinecast.peer.record.tape import Tape, recorded_ports


class RecordedPeer:
    """Hands inputs to a peer, and entries to whoever keeps them. ``make``: makes the peer from its ports;
    ``note``: takes the bytes of an entry; ``failed``: is told that one could not be made. What goes wrong
    with the record is none of the peer's business."""

    def __init__(
        self,
        make: Callable[[PeerPorts], Peer],
        ports: PeerPorts,
        with_payloads: bool,
        note: Callable[[bytes], object],
        failed: Callable[[Exception], object],
    ) -> None:
        self._stripper = None if with_payloads else PayloadStripper()
        self._tape = Tape(with_payloads, bytes if self._stripper is None else self._stripper.block)
        wrapped = recorded_ports(ports, self._tape)
        self.peer = make(wrapped)
        self._skeleton = Skeleton(self.peer, wrapped)
        self._note, self._failed = note, failed
        self._with_payloads = with_payloads
        self.runs = True

    def stop(self) -> None:
        """Record no more; the peer goes on."""
        self.runs = False

    def resume(self) -> None:
        """Record again, from a snapshot on."""
        self.runs = True

    def snapshot(self) -> bytes:
        """What is in the peer now, between two inputs."""
        return take_snapshot(self._skeleton, self._with_payloads)

    def handle(self, what: PeerInput, now_us: int) -> list[PeerOutput]:
        """See ``Peer``."""
        if not self.runs:
            return self.peer.handle(what, now_us)
        tape, stripper = self._tape, self._stripper
        if stripper is not None:
            stripper.clear()
        tape.begin()
        try:
            outputs = self.peer.handle(what, now_us)
        except Exception as error:
            tape.end()
            raised = error
            self._keep(lambda: RecordEntry(what, now_us, tape.answers, digest_of_failure(raised, tape.asked)))
            raise
        tape.end()
        self._keep(lambda: RecordEntry(what, now_us, tape.answers, digest_of(outputs, tape.asked, stripper)))
        return outputs

    def _keep(self, make: Callable[[], RecordEntry]) -> None:
        try:
            self._note(write_entry(make(), self._stripper))
        except Exception as error:
            self.runs = False
            self._failed(error)
