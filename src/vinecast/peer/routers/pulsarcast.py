"""PulsarCast on a live node: a tree for every topic, on the Kademlia that streams use too.

A topic's key is the one that its replicas are found by: the root of its tree is the first of them. Nodes
carry topics that they do not subscribe to, so that events are taken for every tree in which the node has a
place, and for any topic while they are on their way to a tree.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from vinecast.core.errors import RemoteError
from vinecast.core.events import Message, Received
from vinecast.core.log.name_record import NameChecker
from vinecast.core.machine import NOBODY
from vinecast.peer.config import PATIENCE_PERIODS, PeerConfig
from vinecast.peer.identity import verify
from vinecast.peer.limits.misbehaviour import BenignRefusal
from vinecast.peer.limits.rate_limit import RateLimit
from vinecast.peer.routers import trees_messages as wire
from vinecast.peer.routers.router import NOT_TOLD, Router, RouterHost
from vinecast.peer.routers.trees_codec import DOWN, TreeCodec
from vinecast.peer.streams.codec import TableCodec
from vinecast.peer.streams.messages import encode_stream
from vinecast.peer.streams.replicas import replica_key, table_config
from vinecast.peer.table.peer_table import ME, TOPICS_EACH, PeerTable
from vinecast.peer.table.relayed_topics import RelayedTopics
from vinecast.peer.wire.codec import Codec
from vinecast.peer.wire.event_encoding import PlainEncoding
from vinecast.peer.wire.messages import TOPICS_MAX, Gossip, SystemFrame
from vinecast.protocols.kademlia import MESSAGES as TABLE_MESSAGES
from vinecast.protocols.kademlia import point_of
from vinecast.protocols.multicast_tree import RecruitingConfig
from vinecast.protocols.multicast_tree.machine import TIMER
from vinecast.systems.durable.carriers import over_tree
from vinecast.systems.pulsarcast.machine import PulsarCast, PulsarCastConfig

ANSWER_PERIODS = 2
"""Periods that a peer may take to say whether it is in a tree, or to be a parent: a link may have to be made
first (ours)."""
CHILD_SHARE = 4
"""One peer can be the child in one in so many of the topics that a node can know (ours)."""
REMEMBERED_MAX = 65_536
"""Events that trees remember having seen, at the most (ours): they forget none before there are as many."""
REQUESTS_IN_HAND = 4 * TOPICS_MAX
"""Messages of trees that a peer may send at once (ours): it may join, and ask about, as many topics as fit on
a card, and answer as often."""


def pulsarcast_config(config: PeerConfig) -> PulsarCastConfig:
    """PulsarCast's settings on such a node."""
    tree = RecruitingConfig(
        period_s=config.period_s,
        patience=PATIENCE_PERIODS,
        timeout_s=ANSWER_PERIODS * config.period_s,
        memory_size=min(config.remembered, REMEMBERED_MAX),
        topics_max=min(config.topics, TOPICS_MAX),
        children_max=TOPICS_EACH * config.topics,
        pending_max=0,
    )
    settle_s = min(PulsarCastConfig().settle_s, config.period_s)
    return PulsarCastConfig(table_config(config.period_s, config.replicas), tree, settle_s)


def make(config: PeerConfig, seed: int, network: str, peer_table: PeerTable, host: RouterHost) -> Router:
    """See ``make_router``."""
    return PulsarCastRouter(config, seed, network, peer_table, host)


class PulsarCastRouter:
    """See ``Router``."""

    first_timer = last_timer = TIMER
    gossips, pulls = False, False

    def __init__(
        self, config: PeerConfig, seed: int, network: str, peer_table: PeerTable, host: RouterHost
    ) -> None:
        peer_table.profiles.topic_ids = peer_table.topics.place(
            lambda topic: point_of(replica_key(network, topic))
        )
        validator = NameChecker(verify, network)
        self.machine = PulsarCast(pulsarcast_config(config), seed, ME, peer_table.profiles, validator)
        self.table, self._tree = self.machine.kademlia, self.machine.tree
        self.carrier = over_tree(self.machine, self._tree)
        self.event_encoding = PlainEncoding(self.carrier.carries)
        self.codec = Codec(peer_table)
        self._host, self._peer_table = host, peer_table
        self._topics = RelayedTopics(peer_table.topics, self._tree.branches.__contains__)
        self._table_codec, self._tree_codec = TableCodec(self.codec), TreeCodec(self.codec, self._topics)
        self._rate_limit = RateLimit(REQUESTS_IN_HAND)
        self._child_max = config.topics // CHILD_SHARE
        self.subscribes, self.keep_topic = self._tree.subscribed, self._topics.keep

    # Peers.

    def knows_nobody(self) -> bool:
        """See ``Router``."""
        return not self.table.buckets.heard_us

    def in_use(self) -> set[int]:
        """See ``Router``."""
        tree = self._tree
        searched = (peer for search in tree.searches.values() for peer in search.refused)
        above = (peer for peers in tree.above.values() for peer in peers)
        return self.table.in_use.union(tree.parents, tree.children, searched, above)

    def partner_of(self, timer: str) -> int:
        """See ``Router``: nobody is waited for."""
        return NOBODY

    def leads_to(self, topic: str, peer: int) -> bool:
        """See ``Router``."""
        number = self._peer_table.topics.number_of(topic)
        if number is None:
            return False
        branch = self._tree.branches.get(number)
        if branch is None:
            return peer == self.machine.next_hop(number)
        return peer == branch.parent or peer in branch.children

    # Topics.

    def is_ready(self, topic: int) -> bool:
        """Whether its parent in the tree has accepted it, or it is the root, as far as it can know."""
        tree, branch = self._tree, self._tree.branches.get(topic)
        if branch is None or not branch.subscribed:
            return False
        if branch.parent != NOBODY:
            return topic not in tree.asking
        looked_around = not self.knows_nobody() and self.machine.has_settled(self._host.now_us())
        return looked_around and topic in tree.roots

    def is_alone(self, topic: int) -> bool:
        """See ``Router``."""
        branch = self._tree.branches.get(topic)
        if branch is None:
            return True
        alone = topic in self._tree.roots or self.knows_nobody()
        return alone and branch.parent == NOBODY and not branch.children

    def neighbours(self, topic: int) -> tuple[int, int]:
        """One of its children, and its parent."""
        branch = self._tree.branches.get(topic)
        if branch is None:
            return NOBODY, NOBODY
        return next(iter(branch.children), NOBODY), branch.parent

    def begin(self, timer: str) -> None:
        """See ``Router``."""
        if timer == TIMER:
            self._topics.sweep()

    # Events.

    def has_seen(self, event: int) -> bool:
        """See ``Router``: what went up a tree may still come down, so that the machine looks itself."""
        return False

    def may_come_again(self, topic: int, event: int) -> bool:
        """See ``Router``."""
        return (topic, event) in self._tree.seen

    def take_topic(self, name: str, form: int, event: int) -> int | None:
        """See ``Router``: those in whose tree it has a place, and any that is on its way to one."""
        number = self._topics.member(name)
        return self._topics.number_of(name) if number is None and form != DOWN else number

    def release(self) -> Mapping[int, int]:
        """See ``Router``."""
        self._topics.release()
        return NOT_TOLD

    def search(self, topic: str) -> bool:
        """See ``Router``: the way to a tree is always known."""
        return False

    # Messages.

    def send_later(self, to: int, message: Message) -> bool:
        """See ``Router``: nothing waits."""
        return False

    def encode(self, to: bytes, message: Message) -> bytes:
        """See ``Router``."""
        if isinstance(message, TABLE_MESSAGES):
            return encode_stream(self._table_codec.pack(to, message))
        return wire.encode_own(self._tree_codec.pack(to, message))

    def read_gossip(self, peer: bytes, frame: Gossip) -> tuple[int, Message]:
        """See ``Router``: it has no gossip layers."""
        raise RemoteError("unknown kind of message")

    def take(self, peer: bytes, frame: SystemFrame) -> None:
        """See ``Router``."""
        inner = wire.decode_own(frame)
        self._rate_limit.note(peer, self._host.now_us())
        sender = self._peer_table.number_of(peer)
        if sender == NOBODY:
            raise BenignRefusal("sender without a card")
        self._peer_table.release()
        refused = isinstance(inner, wire.Join) and self._has_enough(sender)
        try:
            message = None if refused else self._tree_codec.read(peer, inner)
            if message is not None:
                self._host.handle(Received(sender, message))
                return
            self._host.counters["refused: no room for a topic of a tree"] += 1
            if isinstance(inner, wire.Join):
                self._host.send_frame(sender, wire.encode_own(wire.Part(inner.topic)))
        finally:
            self._topics.release()

    def _has_enough(self, child: int) -> bool:
        link = self._tree.children.get(child)
        return link is not None and len(link.topics) >= self._child_max

    # Regularity.

    def recall(self, sessions: Iterable[tuple[int, int]]) -> None:
        """See ``Router``: it does not matter here."""

    def regularity(self) -> dict[str, Any]:
        """See ``Router``."""
        return {}
