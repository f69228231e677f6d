"""What the application asks of Kademlia: to put a value under a key, and get what others put there."""

from functools import partial
from typing import Protocol

from vinecast.core.errors import ClosedError, InputError
from vinecast.core.events import Effect
from vinecast.peer.inputs import AskTable
from vinecast.peer.outputs import Answered, PeerOutput
from vinecast.peer.streams.durable_runtime import DurableRuntime
from vinecast.protocols.kademlia import Found, Kademlia, Operation


class TableHost(Protocol):
    """The peer, as far as it is needed here."""

    streams: DurableRuntime
    out: list[PeerOutput]


class TableRequests:
    """The requests to Kademlia on one node."""

    def __init__(self, host: TableHost) -> None:
        self._host = host
        self._open: dict[int, None] = {}
        """Requests without an answer."""
        self._closed = False

    def ask(self, what: AskTable) -> None:
        """Have Kademlia do something, and answer when it is done."""
        self._open[what.request] = None
        if self._closed:
            self.close()
            return
        settle = partial(self._settle, what.request)

        def begin(table: Kademlia, now_us: int) -> list[Effect]:
            if what.operation is Operation.PUT:
                return table.put(what.key, what.value, now_us)
            return table.get(what.key, now_us)

        replicas = self._host.streams.replicas
        replicas.await_answer(what.operation, what.key, settle)
        try:
            self._host.streams.table.do(begin)
        except InputError as error:
            replicas.forget_answer(what.operation, what.key, settle)
            self._answer(what.request, None, error)

    def _settle(self, request: int, found: Found) -> None:
        self._answer(request, found, None)

    def _answer(self, request: int, found: Found | None, error: InputError | None) -> None:
        if request in self._open:
            del self._open[request]
            self._host.out.append(Answered(request, found, error))

    def cancel(self, request: int) -> None:
        """Nobody waits for the answer any longer."""
        self._open.pop(request, None)

    def close(self) -> None:
        """The node ends: nobody answers any longer."""
        self._closed = True
        for request in list(self._open):
            self._answer(request, None, ClosedError("the node was closed before the others answered"))

    def forget(self, key: bytes) -> None:
        """Have it put a value no longer."""
        table = self._host.streams.replicas.table
        if table is not None:
            table.forget(key)
