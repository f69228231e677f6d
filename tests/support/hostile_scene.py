"""A network of simulated peers, some of which are hostile, while the others publish and read."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from support.node.strangers import REASONS_MAX
from vinecast.core.log.retention import Retention
from vinecast.peer import inputs as given
from vinecast.peer import outputs as asked
from vinecast.peer.config import PeerConfig
from vinecast.peer.receipt import Receipt
from vinecast.sim.peers.disk import DiskConfig
from vinecast.sim.peers.links import LinkConfig
from vinecast.sim.peers.node import SimulatedNode
from vinecast.sim.peers.world import PeerWorld

TOPICS = ("news", "talk")
BEGIN_S, READ_S, PUBLISH_S, END_S, PATIENCE_S = 0.1, 1.0, 4.0, 8.5, 40.0
"""When nodes begin, one after the other, read, begin and end to publish; how long what is due is awaited."""
EVERY_S = 0.4
CONFIG = PeerConfig(peers=64, topics=1024)


@dataclass
class Watch:
    """What happens to honest nodes."""

    handed: dict[int, dict[bytes, int]] = field(default_factory=dict)
    """Node → payload that its readers were handed → how often."""
    answers: dict[tuple[int, int], asked.Answered] = field(default_factory=dict)
    shunned: list[tuple[int, bytes]] = field(default_factory=list)
    raised: list[tuple[int, str, str]] = field(default_factory=list)
    came: Counter[bytes] = field(default_factory=Counter)
    """Peer → frames of its that were handled."""
    inputs: int = 0

    def before(self, node: SimulatedNode, what: given.PeerInput) -> None:
        self.inputs += 1
        if isinstance(what, given.FrameCame):
            self.came[what.peer] += 1

    def after(self, node: SimulatedNode, what: given.PeerInput, outputs: list[asked.PeerOutput]) -> None:
        for output in outputs:
            match output:
                case asked.DeliverEvent(_, signed):
                    found = self.handed.setdefault(node.number, {})
                    found[signed.record.payload] = found.get(signed.record.payload, 0) + 1
                    node.feed(given.EventsTaken(output.subscription, 1, len(signed.block)))
                case asked.Answered(request):
                    self.answers[node.number, request] = output
                case asked.ShunPeer(peer):
                    self.shunned.append((node.number, peer))
                case _:
                    pass

    def failed(self, node: SimulatedNode, what: given.PeerInput, error: Exception) -> None:
        self.raised.append((node.number, repr(what)[:200], repr(error)))


def _open(request: int, number: int, topic: str, start: str) -> given.OpenSubscription:
    return given.OpenSubscription(request, number, topic, start)


class HostileScene:
    """Honest nodes that read two topics and publish on them, and hostile ones that come after them."""

    def __init__(
        self, seed: int, lies: Sequence[Sequence[str]], honest: int = 5, config: PeerConfig = CONFIG
    ) -> None:
        self.watch = Watch()
        self.world = PeerWorld(seed, LinkConfig(), self.watch)
        for told in (*((),) * honest, *lies):
            self.world.add(
                config, lies=told, topics=TOPICS, network="test", disk=DiskConfig(), retention=Retention()
            )
        self.honest, self.hostile = self.world.nodes[:honest], self.world.nodes[honest:]
        self.published: dict[bytes, tuple[int, int, bool]] = {}
        """Payload → node, request, whether it is of a stream."""
        for node in self.world.nodes:
            others = [0] if node.number else []
            self.world.at_s(BEGIN_S * node.number, self.world.start, node.number, others)
        for node in self.honest:
            self.world.at_s(READ_S, self._read, node)
        for number in range(round((END_S - PUBLISH_S) / EVERY_S)):
            self.world.at_s(PUBLISH_S + EVERY_S * number, self._publish, number)

    def _read(self, node: SimulatedNode) -> None:
        start = "earliest" if node.number % 2 else "now"
        for number, topic in enumerate(TOPICS, 1):
            node.ask(partial(_open, number=number, topic=topic, start=start))

    def _publish(self, number: int) -> None:
        node, topic = self.honest[number % len(self.honest)], TOPICS[number // 2 % 2]
        payload, durable = b"event %d" % number, number % 3 > 0
        draft = node.draft(payload)
        request = node.publish(lambda request: given.PublishDrafts(request, topic, (draft,), durable))
        self.published[payload] = node.number, request, durable

    def run(self, waits: bool = True) -> None:
        """Until a moment after the end; ``waits``: and then until all honest nodes have what is due to them,
        if that is not too long."""
        self.world.run(END_S + 2)
        while waits and (self.lacking() or self.without_receipt()) and self.world.now_s < PATIENCE_S:
            self.world.run(self.world.now_s + 1)

    # What came of it.

    def receipt(self, payload: bytes) -> Receipt | None:
        """What a publisher was told."""
        number, request, _ = self.published[payload]
        answer = self.watch.answers.get((number, request))
        if answer is None or answer.error is not None or isinstance(answer.value[0], Exception):
            return None
        found: Receipt = answer.value[0]
        return found

    def lacking(self, durable: bool = True) -> list[tuple[int, bytes]]:
        """Who was not handed what."""
        payloads = [payload for payload, (_, _, kind) in self.published.items() if kind == durable]
        return [
            (node.number, payload)
            for node in self.honest
            for payload in payloads
            if payload not in self.watch.handed.get(node.number, {})
        ]

    def without_receipt(self) -> list[bytes]:
        """Events of streams whose publishers were told nothing, or of an error."""
        return [p for p, (_, _, durable) in self.published.items() if durable and self.receipt(p) is None]

    def blamed(self) -> list[tuple[int, int]]:
        """Honest nodes that shunned an honest one."""
        number_of = {node.setup.identity.id: node.number for node in self.honest}
        return [(who, number_of[whom]) for who, whom in self.watch.shunned if whom in number_of]

    def heard(self) -> int:
        """Frames of hostile nodes that honest ones handled."""
        return sum(self.watch.came[node.setup.identity.id] for node in self.hostile)

    def unbounded(self) -> list[str]:
        """What has grown larger than it may be on an honest node."""
        found = []
        for node in self.honest:
            peer, config = node.peer, node.setup.config
            assert peer is not None
            intake = peer.streams.repair.intake
            sizes = {
                "peers": (len(peer.peer_table.known()), config.peers),
                "topics": (len(peer.peer_table.topics.known()), config.topics),
                "reasons": (len({*peer.counters, *peer.peer_table.counters}), REASONS_MAX),
                "replays": (len(peer.events.replay_window._seen), 4096),
                "waiting": (len(intake.pending), 8192),
                "fetched": (len(peer.streams.repair.seeking.fetcher), 4096),
                "streams": (len(peer.streams.repair.topics), 300),
                "kept": (node.disk.size, 8 * 1024 * 1024),
            }
            found += [
                f"{node.number} {what}: {size} > {most}"
                for what, (size, most) in sizes.items()
                if size > most
            ]
        return found
