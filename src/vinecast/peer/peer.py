"""The peer: a whole node as one machine.

    handle(input, now_us) -> list[PeerOutput]

It owns the node's router, its durable streams, Kademlia and the search for replicas, subscriptions and their
cursors, content, the peer table, limits and misbehaviour, and the codecs. Frames, timers and commands go in
(``peer/inputs``); frames, timers, deliveries and answers come out (``peer/outputs``). It reads no clock, no
socket and no entropy: a live node's runtime and the simulator run the same object.

Handed in are a seed, what signs and verifies, and the store of streams. The store is no output: what is kept
can be read back at once, as the machine needs it to go on; what is *safe* is an input (docs/decisions/0015).
A store that cannot be read raises InputError: whoever is to be told is told where it asked, and all else that
the input asked for is left undone and counted, here.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, assert_never

from vinecast.core.errors import InputError, RemoteError
from vinecast.core.events import PeerFound, PeerLost, Start, Stop, TimerFired
from vinecast.core.log.batch_signature import Sign, SignatureChecker, Verify
from vinecast.core.log.blocks import ContentId, cid_of
from vinecast.core.machine import NOBODY, SECOND_US
from vinecast.peer import inputs as given
from vinecast.peer.bootstrap import BOOTSTRAP_TIMER, Bootstrap
from vinecast.peer.config import PeerConfig
from vinecast.peer.content import Look, look_inside
from vinecast.peer.exchange_timers import ExchangeTimers
from vinecast.peer.limits.misbehaviour import BenignRefusal, Misbehaviour
from vinecast.peer.links import LinkLimits, Links
from vinecast.peer.membership import TopicMembership
from vinecast.peer.outputs import CardRenewed, CycleEnded, NetworkJoined, PeerOutput, ShunPeer, Traced
from vinecast.peer.publisher import PUBLISH_TIMERS, PeerPublisher
from vinecast.peer.routing import Routing
from vinecast.peer.scratch import ScratchPool
from vinecast.peer.streams.durable_runtime import TIMERS as STREAM_TIMERS
from vinecast.peer.streams.durable_runtime import DurableRuntime
from vinecast.peer.streams.ports import StreamPlace, StreamsSettings
from vinecast.peer.subscriptions import READ_TIMER, PeerSubscriptions
from vinecast.peer.table.peer_table import PeerTable
from vinecast.peer.table_requests import TableRequests
from vinecast.peer.tracing import GONE, Tracing
from vinecast.peer.volatile_events import VolatileEvents
from vinecast.peer.wire.messages import (
    EventFrame,
    Frame,
    Gossip,
    Introduction,
    Leaving,
    StreamFrame,
    SystemFrame,
    decode,
    encode,
)
from vinecast.systems.common.notices import Pull
from vinecast.systems.common.router import ME

UNWANTED = "refused: event on a topic that is not subscribed to"


class PeerPorts(NamedTuple):
    """What a peer is handed by whoever runs it. Beside its inputs it knows what these answer, and nothing
    else: with the inputs and the answers a run can be had once more (``peer/record``)."""

    store: StreamPlace
    sign: Sign
    verify: Verify
    scratch: ScratchPool
    """Working memory."""
    cid_of: ContentId = cid_of
    look: Look = look_inside


class Peer(TopicMembership):
    """One node, without the world around it."""

    def __init__(
        self,
        public: bytes,
        network: str,
        seed: int,
        config: PeerConfig,
        ports: PeerPorts,
        limits: LinkLimits,
        card_version: int = 0,
    ) -> None:
        """``card_version``: of the last card, before a restart."""
        super().__init__(Links(limits))
        self.config, self.network = config, network
        self.verify, self.scratch = ports.verify, ports.scratch
        self.cid_of, self.look = ports.cid_of, ports.look
        period_us = round(config.period_s * SECOND_US)
        self.has_joined = False
        """Whether somebody else is, or was, known."""
        self._version = card_version
        self.peer_table = PeerTable(
            public,
            ports.sign,
            ports.verify,
            network,
            config.peers,
            config.topics,
            config.slotting.slots if config.slotting is not None else 0,
            config.unmet,
        )
        self.peer_table.in_use = self._in_use
        self.system = Routing(config, seed, network, self.peer_table, self)
        self.machine: Any = self.system.machine
        """What decides whom an event goes to; for those who look inside."""
        self.tracing = Tracing(self.peer_table.me, self.system) if config.traced else None
        self._misbehaviour = Misbehaviour(period_us)
        self.subscriptions = PeerSubscriptions(self, config.waiting, config.alone_cycles)
        checker = SignatureChecker(ports.verify, network)
        self.events = VolatileEvents(self, self.system, self.peer_table, checker, self.subscriptions.take)
        self.streams = DurableRuntime(
            StreamsSettings(network, config.period_s, config.replicas, config.provide),
            seed,
            self,
            self.system,
            self.peer_table,
            checker,
            ports.store,
            self.subscriptions.read,
        )
        self.publishing = PeerPublisher(self, public, ports.sign)
        self.bootstrap = Bootstrap(self, seed)
        self._table_requests = TableRequests(self)
        self._followed, self._wanted = set(), set()
        self._running = False
        self._has_news = False
        """Whether the node's card is another since it was last told to those with a connection."""
        self._exchanges = ExchangeTimers(period_us, self.system.router.partner_of, self._has_link)

    def handle(self, what: given.PeerInput, now_us: int) -> list[PeerOutput]:
        """Take one input at the given time; what is to be done about it, in order."""
        self._now_us = now_us
        if self.tracing is not None:
            self.tracing.now_us = now_us
        try:
            self._handle(what)
        except InputError:
            self.note_unreadable()
        if self.tracing is not None and self.tracing.records:
            self.out.append(Traced(self.tracing.take()))
        out, self.out = self.out, []
        return out

    def _handle(self, what: given.PeerInput) -> None:
        match what:
            case given.FrameCame(peer, data):
                self._take_frame(peer, data)
            case TimerFired(name):
                self._fire(name)
            case given.EventsStored(cids):
                self.streams.kept(cids)
            case given.PublishTurn(requests):
                self.publishing.publish(requests)
            case given.EventsTaken(subscription, events, size):
                self.subscriptions.took(subscription, events, size)
            case given.IndexCompiled():
                self._note_compiled()
            case given.QueuesCrowded(peers):
                self.links.crowded = peers
            case given.LinkUp(peer):
                self.system.codec.forget_connection(peer)
                self.links.rise(peer)
                self._introduce_myself(peer)
            case given.LinkDown(peer, broken):
                self._lose_link(peer, broken)
            case given.PeerUnreachable(peer):
                self.links.fail(peer, self._now_us)
                self._miss(peer)
            case given.FrameUnsent():
                self._note_unsent(what)
            case given.AddressReached(address, peer):
                self.bootstrap.reached(address, peer)
            case given.AddressFailed(address, reason):
                self.bootstrap.failed(address, reason)
            case given.NodeBegins():
                self._begin(what)
            case given.NodeEnds():
                self._end()
            case given.StoreCloses():
                self.publishing.close()
                self.subscriptions.close()
                self.streams.stop()
            case given.AskTable():
                self._table_requests.ask(what)
            case given.ForgetValue(key):
                self._table_requests.forget(key)
            case (
                given.OpenSubscription()
                | given.CloseSubscription()
                | given.LeaveTopic()
                | given.AckPosition()
                | given.AwaitReady()
                | given.AwaitLevel()
            ):
                self.subscriptions.handle(what)
            case given.CancelRequest(request):
                self.publishing.cancel(request)
                self.subscriptions.readiness.cancel(request)
                self._table_requests.cancel(request)
            case _:
                assert_never(what)

    # Life.

    def _begin(self, what: given.NodeBegins) -> None:
        self.system.recall(what.sessions)
        self.address = what.address
        self._renew(())
        self._running = True
        if self.tracing is not None:
            self.tracing.begin()
        self.streams.handle(Start(()))
        self.subscribe(what.topics)
        self.streams.resume()
        self.bootstrap.begin(what.join, what.remembered)

    def _end(self) -> None:
        """Say goodbye."""
        if self._running:
            self.handle_event(Stop())
            self.streams.leave()
            goodbye = encode(Leaving())
            for peer in self.links.up:
                self._send_at_once(peer, None, goodbye)
            if self.tracing is not None:
                self.tracing.end()
        self._running = False
        self.publishing.end()
        self.subscriptions.readiness.close()
        self._table_requests.close()

    def _in_use(self) -> Iterable[int]:
        return self.system.router.in_use().union(self.connected(), self.streams.in_use())

    def _renew(self, topics: Iterable[str]) -> None:
        """Write a new card."""
        self._version = max(self._now_us, self._version + 1)
        self.peer_table.renew(str(self.address), self._version, topics)
        self.out.append(CardRenewed(self._version))
        self._has_news = True

    def join(self) -> None:
        """Somebody else is known."""
        if not self.has_joined:
            self.has_joined = True
            self.out.append(NetworkJoined())

    # Connections.

    def _lose_link(self, peer: bytes, broken: bool) -> None:
        """A connection is gone. They are made again when they are needed, so that mostly says nothing about
        the peer; but one that broke asks for a look: whoever died is missed sooner if it is not waited
        for."""
        self.system.codec.forget_connection(peer)
        self.links.fall(peer)
        self.bootstrap.lost(peer)
        number = self.peer_table.number_of(peer)
        if broken and self._running and number != NOBODY and number in self.system.router.in_use():
            self._introduce_myself(peer, self.peer_table.address_of(number))

    def _miss(self, peer: bytes) -> None:
        """A peer could not be reached, or is not to be."""
        number = self.peer_table.number_of(peer)
        if number != NOBODY and self._running:
            self._lose(number)

    def _lose(self, number: int) -> None:
        """A peer is gone: nobody waits for its answer."""
        self._exchanges.lose(number)
        self.streams.handle(PeerLost(number))

    def _note_unsent(self, what: given.FrameUnsent) -> None:
        """A frame did not go out. Kademlia does not wait for its answer."""
        self._leave_unsent(what.peer, what.frame, what.things)
        if self.publishing.has_in_hand:
            self.publishing.note_unsent(self.system.events_in(what.frame))
        number = self.peer_table.number_of(what.peer)
        if number != NOBODY and self._running:
            self.streams.table.miss(number, what.frame)

    def _has_link(self, number: int) -> bool:
        return self.peer_table.id_of(number) in self.links.up

    def connected(self) -> set[int]:
        """The peers that there are connections to."""
        return set(map(self.peer_table.number_of, self.links.up)) - {NOBODY}

    # Frames.

    def _take_frame(self, peer: bytes, data: bytes) -> None:
        """A frame of a peer, whatever it holds."""
        tracing = self.tracing
        if not self._running:
            if tracing is not None:
                tracing.refuse_frame(peer, data, GONE)
            return
        try:
            self._take(peer, decode(data))
        except RemoteError as error:
            self.counters[f"refused: {error}"] += 1
            if tracing is not None:
                tracing.refuse_frame(peer, data, str(error))
            if not isinstance(error, BenignRefusal):
                self.blame(peer)
        finally:
            if tracing is not None:
                tracing.close_frame()

    def blame(self, peer: bytes) -> None:
        """A peer did what no honest node does."""
        if self._misbehaviour.blame(peer):
            self.out.append(ShunPeer(peer))
            self._miss(peer)

    def _take(self, peer: bytes, frame: Frame) -> None:
        match frame:
            case EventFrame():
                self.events.take(peer, frame)
            case StreamFrame():
                self.streams.take(peer, frame)
            case Gossip():
                self.system.take_gossip(peer, frame)
                self.join()
            case SystemFrame():
                self.system.take(peer, frame)
            case Introduction():
                self._meet(peer, frame)
            case Leaving():
                number = self.peer_table.number_of(peer)
                if number != NOBODY:
                    self._lose(number)
            case _:
                assert_never(frame)

    def _meet(self, peer: bytes, frame: Introduction) -> None:
        """Somebody introduces itself; a node that knows nobody begins with it."""
        self.hear(peer)
        self.peer_table.release()
        number = self.peer_table.meet(frame.sender, peer)
        if number == NOBODY:
            raise BenignRefusal("no room for its card")
        if self.peer_table.id_of(number) != peer:
            raise RemoteError("speaks for another peer")
        if self.system.knows_nobody() and number != ME:
            self.streams.handle(Start((number,)))
        self.streams.meet(number)
        self.join()
        self.bootstrap.met(peer)

    def hear(self, peer: bytes) -> None:
        """A peer gossips. RemoteError when that is more than anybody has to listen to."""
        self._misbehaviour.hear(peer, self._now_us)

    def welcome(self, peer: bytes) -> bool:
        """Gossip with a peer that was called on; False while it has not introduced itself."""
        number = self.peer_table.number_of(peer)
        if number != NOBODY and self._running:
            self.handle_event(PeerFound(number))
        return number != NOBODY

    def refuse_topic(self, peer: bytes) -> None:
        """A peer sent an event on a topic that is not subscribed to; RemoteError when it ought to know."""
        if self._misbehaviour.is_news(peer):
            self._introduce_myself(peer)
        self.counters[UNWANTED] += 1
        if self.tracing is not None:
            self.tracing.refuse_one(UNWANTED)

    # In and out of the machines.

    def count_others(self) -> int:
        """How many other nodes there are, as far as is known; 0 while it has lost all of them."""
        alone = self.system.knows_nobody() and not self.links.up
        return 0 if alone else len(self.peer_table.known())

    def expected_others(self) -> int:
        """How many other nodes there are; one while the first of those it was told of is being called on."""
        count = self.count_others()
        return count if count or self.has_joined else int(self.bootstrap.expects_one)

    def is_joining(self) -> bool:
        """Whether nobody was met yet, and somebody may be there whom the node was told of."""
        return not self.has_joined and self.bootstrap.expects_one

    def expects_others(self) -> bool:
        """Whether there is anybody to meet."""
        return bool(self.bootstrap.addresses or self.peer_table.known())

    def answer(self, sender: int, pulls: Sequence[Pull]) -> None:
        """Let the machine answer a peer that asks for events by number: those of streams are kept apart."""
        others = self.events.answer(sender, pulls)
        if others:
            self.streams.answer(sender, others)

    # Timers.

    def _fire(self, name: str) -> None:
        if not self._running:
            return
        if name in PUBLISH_TIMERS:
            self.publishing.fire(name)
        elif name == READ_TIMER:
            self.subscriptions.fire()
        elif name == BOOTSTRAP_TIMER:
            self.bootstrap.fire()
        elif not self._exchanges.begins(name, self._now_us):
            self.counters["exchanges held back"] += 1
            self.set_timer(name, self._exchanges.look_us)
        elif name in STREAM_TIMERS:
            self.streams.fire(name)
        else:
            self._begin_exchange(name)

    def _begin_exchange(self, name: str) -> None:
        """A gossip layer begins its next exchange, and with the first layer a cycle begins."""
        if name == self.system.row.first_timer:
            self._begin_cycle()
        self.system.begin(name)
        self.handle_event(TimerFired(name))
        self.system.release()
        regular = self.peer_table.regular
        if regular is not None and regular.own_pattern(ME) != self.peer_table.card.pattern:
            self._renew(self.peer_table.names_of(ME))
        if name == self.system.row.last_timer:
            self.subscriptions.end_cycle()
            self.bootstrap.end_cycle()
            self.out.append(CycleEnded())

    def _begin_cycle(self) -> None:
        self.peer_table.begin_cycle()
        self._misbehaviour.begin_cycle(self._now_us)
        if self._has_news and not self.system.row.gossips:
            for peer in self.links.up:
                self._introduce_myself(peer)
        self._has_news = False
