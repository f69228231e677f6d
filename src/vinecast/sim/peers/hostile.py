"""Hostile nodes: simulated nodes that lie, each in some of the ways that are known.

A hostile node has an honest peer inside, so that it has a place in the overlay, connections and what others
read; its lies change and withhold what that peer sends, answer in its place, and attack by themselves every
so often. It knows the protocol as an honest node does, and sends real frames; with its key it signs in its
own name only. Nobody observes it: what its application sees is no part of a run.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType

from vinecast.core.errors import InputError
from vinecast.core.machine import SECOND_US
from vinecast.peer import inputs as given
from vinecast.peer import outputs as asked
from vinecast.peer.address import Address
from vinecast.peer.peer import Peer
from vinecast.peer.streams.replicas import replica_key
from vinecast.peer.wire.messages import Leaving, encode
from vinecast.protocols.kademlia import point_of
from vinecast.sim.peers.keys import KeyRing, SimulatedIdentity
from vinecast.sim.peers.lies.cards import CARD_LIES
from vinecast.sim.peers.lies.circles import CIRCLE_LIES
from vinecast.sim.peers.lies.comings import COMING_LIES
from vinecast.sim.peers.lies.events import EVENT_LIES
from vinecast.sim.peers.lies.floods import FLOOD_LIES
from vinecast.sim.peers.lies.liar import Liar, LiarWorld
from vinecast.sim.peers.lies.lie import Lie
from vinecast.sim.peers.lies.nonsense import NONSENSE_LIES
from vinecast.sim.peers.lies.silence import SILENCE_LIES
from vinecast.sim.peers.lies.streams import STREAM_LIES
from vinecast.sim.peers.lies.table import TABLE_LIES
from vinecast.sim.peers.lies.trees import TREE_LIES
from vinecast.sim.peers.lies.walks import WALK_LIES
from vinecast.sim.peers.node import NodeSetup

LIES: Mapping[str, Lie] = MappingProxyType(
    EVENT_LIES
    | STREAM_LIES
    | SILENCE_LIES
    | CARD_LIES
    | NONSENSE_LIES
    | FLOOD_LIES
    | COMING_LIES
    | TABLE_LIES
    | TREE_LIES
    | CIRCLE_LIES
    | WALK_LIES
)
"""All ways of lying, by name. Seeds choose by place: a new one changes what they mean."""
TRIED = 256
"""Identities that are tried to find one near a key (ours): then no honest node is nearer."""
NO_FRAME = encode(Leaving())
"""What the peer inside is told did not go out."""
TAKE_PART_US = SECOND_US
"""Between two looks whether others read what it does not (ours)."""


def lies_of(system: str) -> tuple[str, ...]:
    """The lies that are not garbage in a system."""
    return tuple(name for name, lie in LIES.items() if not lie.systems or system in lie.systems)


def choose_identity(
    keys: KeyRing, number: int, lies: Sequence[str], network: str, topics: Sequence[str]
) -> SimulatedIdentity:
    """Who a hostile node is: where its lies ask for that, somebody nearest to the key of a topic."""
    if unknown := [name for name in lies if name not in LIES]:
        raise InputError(f"there is no lie called {unknown[0]!r}")
    if not topics or not any(LIES[name].near_key for name in lies):
        return keys.identity(number)
    point = point_of(replica_key(network, topics[number % len(topics)]))
    tried = (keys.identity(number + (n << 20)) for n in range(TRIED))
    return min(tried, key=lambda one: point_of(one.id) ^ point)


class HostileNode(Liar):
    """A node that lies in these ways."""

    def __init__(
        self, world: LiarWorld, number: int, setup: NodeSetup, lies: Sequence[str], topics: Sequence[str] = ()
    ) -> None:
        super().__init__(world, number, setup, topics)
        self.lies = {name: LIES[name] for name in lies}

    def start(self, join: tuple[Address, ...]) -> None:
        """The process begins, and lies from then on."""
        if self.is_up:
            return
        self.join = join
        super().start(join)
        self.joined = 0
        for name, lie in self.lies.items():
            if lie.attack is not None:
                self._later(self.draw(lie.every_ms * 1000), partial(self._attack, name))
        self._later(TAKE_PART_US, self._take_part)

    # What it does by itself.

    def _attack(self, name: str) -> None:
        lie = self.lies[name]
        self._later(lie.every_ms * 1000, partial(self._attack, name))
        if not self.paused and lie.attack is not None and self.others():
            self.lying = name
            lie.attack(self)

    def _take_part(self) -> None:
        self._later(TAKE_PART_US, self._take_part)
        if not self.paused:
            self.take_part()

    # What comes, and what the peer inside says.

    def _handle(self, peer: Peer, what: given.PeerInput) -> None:
        if isinstance(what, given.FrameCame) and not self._hears(what.peer, self.read(what.data)):
            return
        if isinstance(what, given.FrameUnsent):
            what = given.FrameUnsent(what.peer, what.things, NO_FRAME)  # it may be none that the peer made
        observer = self._world.observer
        observer.before(self, what)
        try:
            outputs = peer.handle(what, self.clock.now_us(self._world.now_us))
        except Exception as error:
            observer.failed(self, what, error)
            return
        for output in outputs:
            self._carry_out(output)

    def _hears(self, sender: bytes, message: object) -> bool:
        """Whether the peer inside hears of a message."""
        self.remember(sender, message)
        for name, lie in self.lies.items():
            self.lying = name
            if lie.hears is not None and not lie.hears(self, sender, message):
                self.attacks[name] += 1
                return False
        return True

    def _carry_out(self, output: asked.PeerOutput) -> None:
        match output:
            case asked.SendFrame():
                for frame in self._says(output):
                    super()._carry_out(frame)
            case asked.DeliverEvent(subscription, signed):
                self._inbox.append(given.EventsTaken(subscription, 1, len(signed.block)))
            case asked.ShunPeer():
                pass  # it is not offended
            case _:
                super()._carry_out(output)

    def _says(self, output: asked.SendFrame) -> list[asked.SendFrame]:
        """What goes out in the place of a frame."""
        frames = [output]
        for name, lie in self.lies.items():
            if lie.says is None:
                continue
            self.lying = name
            changed = [one for frame in frames for one in lie.says(self, frame)]
            if changed != frames:
                self.attacks[name] += 1
                frames = changed
        return frames
