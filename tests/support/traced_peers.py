"""A small network of whole peers, simulated, and the trace that it leaves."""

from dataclasses import dataclass, field
from functools import partial

from vinecast.core.log.retention import Retention
from vinecast.core.trace import NamedRecord, TraceKind
from vinecast.peer import inputs as given
from vinecast.peer.config import PeerConfig
from vinecast.peer.outputs import DeliverEvent, PeerOutput, SendFrame, Traced
from vinecast.peer.wire.frames import HEAD_BYTES
from vinecast.sim.peers.disk import DiskConfig
from vinecast.sim.peers.links import LinkConfig
from vinecast.sim.peers.node import SimulatedNode
from vinecast.sim.peers.world import PeerWorld, Unobserved

NODES, TOPICS, EVENTS = 6, ("a", "b", "c"), 24
SETTLED_S, EVERY_S, REST_S, LEAVE_S = 12.0, 0.1, 4.0, 1.0


@dataclass
class TracedRun(Unobserved):
    """What came out of all peers of a run."""

    records: list[NamedRecord] = field(default_factory=list)
    handed: int = 0
    """Events that were handed to readers."""
    frames: int = 0
    sent_bytes: int = 0
    ids: list[bytes] = field(default_factory=list)

    def after(self, node: SimulatedNode, what: given.PeerInput, outputs: list[PeerOutput]) -> None:
        for output in outputs:
            if isinstance(output, Traced):
                assert output is outputs[-1]
                self.records += output.records
            elif isinstance(output, DeliverEvent):
                self.handed += 1
            elif isinstance(output, SendFrame):
                self.frames += 1
                self.sent_bytes += len(output.frame) + HEAD_BYTES

    def of(self, *kinds: TraceKind) -> list[NamedRecord]:
        """The records of these kinds."""
        return [record for record in self.records if record.kind in kinds]


def topics_of(node: int) -> list[str]:
    """What a node subscribes to: two topics of three, so that others relay the third."""
    return [topic for number, topic in enumerate(TOPICS) if (node + number) % 3]


def run_traced(system: str, traced: bool = True, seed: int = 1, events: int = EVENTS) -> TracedRun:
    """Nodes come up, publish, half of it on streams, and leave in good order."""
    run = TracedRun()
    world = PeerWorld(seed, LinkConfig(), run)
    config = PeerConfig(system=system, period_s=0.5, traced=traced)
    for _ in range(NODES):
        world.add(config, network="test", disk=DiskConfig(), retention=Retention(bytes=1 << 30))
    run.ids = [node.setup.identity.id for node in world.nodes]

    def begin(number: int) -> None:
        world.start(number, range(max(0, number - 2), number))
        for subscription, topic in enumerate(topics_of(number)):
            read = partial(given.OpenSubscription, subscription=subscription + 1, topic=topic, start="now")
            world.nodes[number].ask(read)

    def publish(event: int) -> None:
        node = world.nodes[event % NODES]
        drafts = (node.draft(b"event %d" % event),)
        topic, durable = TOPICS[event % len(TOPICS)], event % 2 == 0
        node.publish(lambda request: given.PublishDrafts(request, topic, drafts, durable))

    for number in range(NODES):
        world.at_s(0.1 * number, begin, number)
    for event in range(events):
        world.at_s(SETTLED_S + EVERY_S * event, publish, event)
    end_s = SETTLED_S + EVERY_S * events + REST_S
    for number in range(NODES):
        world.at_s(end_s + 0.1 * number, world.nodes[number].leave)
    world.run(end_s + LEAVE_S)
    return run
