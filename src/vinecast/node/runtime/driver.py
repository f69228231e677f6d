"""The driver: runs a peer in real time, over real connections.

It is the only place of a node where a peer's inputs come from and its outputs go to. Frames, timers, what the
store says is safe and what the application asks for go in; frames, timers, deliveries and answers come out
and are carried out at once. Nothing here waits, so that neither a slow peer nor a slow reader holds the node
up.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol, assert_never

from vinecast.core.errors import InputError, RemoteError
from vinecast.core.events import SetTimer
from vinecast.core.trace import NamedRecord
from vinecast.node.runtime.capabilities import compile_beside
from vinecast.node.runtime.clock import Clock
from vinecast.node.runtime.requests import OpenRequests
from vinecast.node.storage.store import Store
from vinecast.node.transport.interface import BROKEN, PeerFacts, Transport
from vinecast.peer import inputs as given
from vinecast.peer import outputs as asked
from vinecast.peer.address import Address
from vinecast.peer.links import CROWDED
from vinecast.peer.peer import Peer
from vinecast.peer.runner import PeerRunner

log = logging.getLogger("vinecast.node")

CARD_VERSION = "card version"
"""Under which the store keeps the version of the last card."""


class EventSink(Protocol):
    """A subscription, as far as it is needed here."""

    dropped: int
    """Events that found no room to wait."""

    def offer(self, event: asked.DeliverEvent) -> None:
        """Let an event wait for the reader."""

    def fail(self, error: Exception) -> None:
        """The reader cannot go on."""

    def end(self) -> None:
        """No more events will come."""


class Driver(PeerRunner):
    """Runs the peer of a live node."""

    def __init__(
        self,
        peer: Peer,
        transport: Transport,
        clock: Clock,
        store: Store,
        handle: Callable[[given.PeerInput, int], list[asked.PeerOutput]] | None = None,
    ) -> None:
        """``handle``: instead of the peer's, where a recorder stands between."""
        super().__init__()
        self.peer, self.transport, self.clock, self._store = peer, transport, clock, store
        self._handle = handle or peer.handle
        self.counters: Counter[str] = Counter()
        """What the transport turned away."""
        self.on_traced: Callable[[Sequence[NamedRecord]], object] = lambda records: None
        """Takes the peer's trace records, if it leaves any."""
        self.joined = asyncio.Event()
        """Set when somebody else is known."""
        self.sinks: dict[int, EventSink] = {}
        """The subscriptions by number."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._requests = OpenRequests()
        self._cycles: list[asyncio.Future[None]] = []
        self._dials: set[asyncio.Task[None]] = set()
        self._compiling: asyncio.Future[None] | None = None
        self._running = False

    # Life.

    async def start(
        self, advertise: Address | None, join: tuple[Address, ...], sessions: tuple[tuple[int, int], ...]
    ) -> None:
        """Listen, and begin to look for others. ``advertise``: where others reach the node, if not where it
        listens; ``sessions``: when it was on line before."""
        listens = await self.transport.start(self)
        self._running = True
        remembered = tuple(peer.address for peer in self._store.peers())
        topics = tuple(self._store.subscriptions())
        self.feed(given.NodeBegins(advertise or listens, join, remembered, topics, sessions))

    async def leave(self, patience_s: float) -> None:
        """Say goodbye, let what is queued go out, and close."""
        self.feed(given.NodeEnds())
        self._running = False
        for timer in self._timers.values():
            timer.cancel()
        for dial in self._dials:
            dial.cancel()
        self._timers.clear()
        self._complete_cycle()
        await asyncio.gather(*self._dials, return_exceptions=True)
        await self.transport.drain(patience_s)
        await self.transport.close()

    # Into the peer.

    def _step(self, what: given.PeerInput) -> None:
        for output in self._handle(what, self.clock.now_us()):
            self._carry_out(output)

    def _after_turn(self, action: Callable[[], object]) -> None:
        asyncio.get_running_loop().call_soon(action)

    def _crowded_peers(self) -> frozenset[bytes]:
        return frozenset(self.transport.crowded(CROWDED))

    def request(self, make: Callable[[int], given.PeerCommand]) -> asyncio.Future[Any]:
        """Hand the peer a request, made from its number; its answer. Wait for it with ``answer_of``."""
        number, answer = self._requests.begin()
        self.feed(make(number))
        return answer

    async def ask(self, make: Callable[[int], given.PeerCommand]) -> Any:
        """Hand the peer a request, and wait for its answer."""
        return await self.answer_of(self.request(make))

    async def answer_of(self, answer: asyncio.Future[Any]) -> Any:
        """The answer to a request. Whoever waits for it no longer takes the request back."""
        try:
            return await answer
        except asyncio.CancelledError:
            self.withdraw(answer)
            raise

    def withdraw(self, answer: asyncio.Future[Any]) -> None:
        """Nobody waits for an answer any longer: what has not begun will not."""
        number = self._requests.drop(answer)
        if number is not None:
            self._turn = [one for one in self._turn if one.request != number]
            self.feed(given.CancelRequest(number))

    def publish(self, topic: str, drafts: tuple[given.Draft, ...], durable: bool) -> asyncio.Future[Any]:
        """Publish events together with all others of this turn of the loop."""
        number, answer = self._requests.begin()
        self._publish(given.PublishDrafts(number, topic, drafts, durable))
        return answer

    def on_up(self, peer: bytes, address: Address, facts: PeerFacts) -> None:
        """A connection is up."""
        self.feed(given.LinkUp(peer))

    def on_down(self, peer: bytes, reason: str) -> None:
        """A connection is gone."""
        self.feed(given.LinkDown(peer, reason in BROKEN))

    def on_unreachable(self, peer: bytes) -> None:
        """A peer could not be reached."""
        self.feed(given.PeerUnreachable(peer))

    def on_frame(self, peer: bytes, data: bytes) -> None:
        """A frame of a peer, whatever it holds."""
        self.feed(given.FrameCame(peer, data))

    def on_refused(self, reason: str) -> None:
        """The transport turned something away."""
        self.counters[f"refused: {reason}"] += 1

    # Out of the peer.

    def _carry_out(self, output: asked.PeerOutput) -> None:
        match output:
            case asked.SendFrame(peer, address, frame, things):
                if not self.transport.send(peer, address, frame):
                    self._inbox.append(given.FrameUnsent(peer, things, frame))
            case asked.DeliverEvent(subscription):
                sink = self.sinks.get(subscription)
                if sink is not None:
                    sink.offer(output)
            case SetTimer(name, after_us):
                if self._running:
                    self._set_timer(name, after_us)
            case asked.Answered(request, value, error):
                self._requests.answer(request, value, error)
            case asked.EventDropped(subscription):
                if subscription in self.sinks:
                    self.sinks[subscription].dropped += 1
            case asked.ReadingFailed(subscription, failure):
                if subscription in self.sinks:
                    self.sinks[subscription].fail(failure)
            case asked.CycleEnded():
                self._complete_cycle()
            case asked.DialAddress(address):
                task = asyncio.get_running_loop().create_task(self._dial(address))
                self._dials.add(task)
                task.add_done_callback(self._dials.discard)
            case asked.ShunPeer(peer):
                self.transport.shun(peer)
            case asked.TopicsChanged(taken_up, left):
                for topic in taken_up:
                    self._store.add_subscription(topic)
                for topic in left:
                    self._store.drop_subscription(topic)
            case asked.CompileIndex():
                self._compile()
            case asked.CardRenewed(version):
                self._store.put_meta(CARD_VERSION, version.to_bytes(8, "big"))
            case asked.NetworkJoined():
                self.joined.set()
            case asked.Traced(records):
                self.on_traced(records)
            case _:
                assert_never(output)

    def _drop_timer(self, name: str) -> None:
        earlier = self._timers.pop(name, None)
        if earlier is not None:
            earlier.cancel()

    def _start_timer(self, name: str, after_us: int) -> None:
        self._timers[name] = asyncio.get_running_loop().call_later(after_us / 1e6, self._ring, name)

    def _compile(self) -> None:
        """Have the rules of the index of filters compiled, beside the loop; what fails to is done without."""
        work = compile_beside()
        if work is None:
            self._inbox.append(given.IndexCompiled())
            return
        self._compiling = work
        work.add_done_callback(
            lambda done: None if done.cancelled() or done.exception() else self.feed(given.IndexCompiled())
        )

    async def _dial(self, address: Address) -> None:
        try:
            peer = await self.transport.connect(address)
        except (RemoteError, InputError) as error:
            log.info("could not join at %s: %s", address, error)
            self.feed(given.AddressFailed(address, str(error)))
        else:
            self.feed(given.AddressReached(address, peer))

    # Cycles.

    def _complete_cycle(self) -> None:
        waiting, self._cycles = self._cycles, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def next_cycle(self) -> bool:
        """Wait until all layers had their turn once more; False when the node leaves instead."""
        if not self._running:
            return False
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._cycles.append(future)
        await future
        return self._running
