"""Kademlia's messages on a live node: what its table asks for goes out, what peers say of it comes in."""

from collections import deque
from collections.abc import Callable, Iterable

from vinecast.core.events import Effect, Message, PeerLost, Received, Send
from vinecast.peer.codecs.codec import Codec
from vinecast.peer.codecs.frame_codec import FrameCodec
from vinecast.peer.streams import messages as wire
from vinecast.peer.streams.codec import TABLE_FRAME_SPECS
from vinecast.peer.streams.ports import StreamHost
from vinecast.peer.streams.replicas import ReplicaFinder
from vinecast.peer.table.peer_table import PeerTable
from vinecast.peer.wire.messages import StreamFrame, decode
from vinecast.protocols.kademlia import MESSAGES as TABLE_MESSAGES
from vinecast.protocols.kademlia import Kademlia


class TableExchange:
    """Carries messages between the table of one node and its connections. ``cards`` turns numbers into
    cards."""

    def __init__(
        self, host: StreamHost, replicas: ReplicaFinder, peer_table: PeerTable, cards: Codec
    ) -> None:
        self._host, self._replicas, self._peer_table = host, replicas, peer_table
        self._codec = FrameCodec(TABLE_FRAME_SPECS, cards)

    def do(self, begin: Callable[[Kademlia, int], list[Effect]]) -> None:
        """Have Kademlia do something."""
        self.carry_out(self._replicas.ask(begin, self._host.now_us()))

    def take(self, peer: bytes, sender: int, frame: wire.TableFrame) -> None:
        """A message of a peer."""
        now_us = self._host.now_us()
        self._peer_table.release()
        message = self._codec.read(peer, frame)
        assert message is not None, "it names no topic"
        self.carry_out(self._replicas.wake(now_us) + self._replicas.handle(Received(sender, message), now_us))

    def miss(self, peer: int, frame: bytes) -> None:
        """A frame could not be sent to a peer, whatever it held; Kademlia does not wait for an answer to one
        of its own."""
        outer = decode(frame)
        if isinstance(outer, StreamFrame) and isinstance(wire.decode_stream(outer), wire.TABLE_FRAMES):
            self.carry_out(self._replicas.handle(PeerLost(peer), self._host.now_us()))

    def carry_out(self, effects: Iterable[Effect]) -> None:
        """What Kademlia asks for. It does not wait for a peer to whom nothing can be sent: whoever talked to
        this node once may have said nothing of where it listens."""
        left = deque(effects)
        while left:
            match left.popleft():
                case Send(to, message) if isinstance(message, TABLE_MESSAGES):
                    if not self._send(to, message):
                        left.extend(self._replicas.handle(PeerLost(to), self._host.now_us()))
                case effect:
                    self._host.carry_out(effect)

    def _send(self, to: int, message: Message) -> bool:
        frame = self._codec.pack(self._peer_table.id_of(to), message)
        return self._host.send_frame(to, wire.encode_stream(frame))
