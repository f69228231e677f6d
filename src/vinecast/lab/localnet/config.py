"""What a local network is like; see ``lab/localnet/network``."""

from dataclasses import dataclass, field, replace

from vinecast.core.config import check, limited
from vinecast.core.errors import InputError
from vinecast.node.runtime.config import NodeConfig
from vinecast.node.transport.interface import TransportConfig

WAITING = 50  # ours: where there is too much, few events wait for a reader …
QUEUE_BYTES = 640 * 1024  # … queues are short …
PUBLISH_WAIT_S = 0.01  # … and publishers are soon told


@dataclass(frozen=True, slots=True)
class NetConfig:
    """What a local network is like."""

    nodes: int = limited(25, at_least=1, at_most=2000)
    topics: int = limited(10, at_least=1, at_most=10_000)
    """Different topics: topic/0, topic/1, …"""
    subscriptions: int = limited(4, at_least=1, at_most=1000)
    """Topics that each node subscribes to, drawn at random."""
    period_s: float = limited(0.5, at_least=0.05, at_most=60.0)
    """Seconds between two exchanges of each gossip layer."""
    rate: float = limited(5.0, at_least=0.0, at_most=10_000.0)
    """Events a second, of all nodes together."""
    churn: float = limited(0.0, at_least=0.0, at_most=60.0)
    """The share of the nodes that leave each minute, and come back a few cycles later."""
    kill: float = limited(0.0, at_least=0.0, at_most=0.9)
    """The share of the processes that are killed, all at once, while the others publish; see ``Crash``."""
    hostile: bool = False
    """Whether a stranger attacks some of the nodes; see ``HostileRun``."""
    overload: bool = False
    """Whether a node publishes more than its reader, and then the network, can take; see ``Overload``."""
    process_nodes: int = limited(25, at_least=1, at_most=1000)
    """Nodes that share a process."""
    seed: int = limited(1, at_least=0)
    trace: str = ""
    """The folder into which its nodes write their traces; empty: none."""
    record: str = ""
    """The folder into which its nodes write their records; empty: none."""
    latency_ms: float = limited(0.0, at_least=0.0, at_most=1000.0)
    """What a message takes over a connection in the median, besides what this machine takes."""
    network: str = "local"
    given: NodeConfig = field(default_factory=NodeConfig)
    """What is set for its nodes besides, their system for example."""

    def __post_init__(self) -> None:
        check(self)
        if self.subscriptions > self.topics:
            raise InputError(
                f"a node cannot subscribe to {self.subscriptions} of {self.topics} topics: more --topics"
            )
        if self.hostile + self.overload + bool(self.churn or self.kill) > 1:
            raise InputError("one at a time: --hostile, --overload, or nodes that go (--churn, --kill)")
        if (self.hostile or self.overload) and not self.has_rings:
            raise InputError(f'--hostile and --overload are for "poldercast", not "{self.given.system}"')
        if self.overload and self.nodes < 2:
            raise InputError("--overload takes a publisher and a reader: at least 2 nodes")
        if self.latency_ms and (self.churn or self.kill):
            raise InputError(
                "nodes that come and go are near each other: no --latency with --churn or --kill"
            )
        if self.kill and not 1 <= self.killed < self.processes:
            raise InputError(
                f"a share of {self.kill:g} of {self.processes} processes cannot be killed: "
                f"fewer nodes a process (now {self.process_nodes})"
            )

    @property
    def processes(self) -> int:
        """How many processes the nodes share."""
        return -(-self.nodes // self.process_nodes)

    @property
    def killed(self) -> int:
        """How many of them are killed."""
        return round(self.kill * self.processes)

    @property
    def has_rings(self) -> bool:
        """Whether its topics have rings, which are complete or not."""
        return self.given.system == "poldercast"

    @property
    def node(self) -> NodeConfig:
        """What its nodes are like."""
        plain = replace(self.given, period_s=self.period_s, traced=True)
        if self.trace:
            plain = replace(plain, trace_folder=self.trace)
        if self.record:
            plain = replace(plain, record=plain.record or True, record_folder=self.record)
        if self.overload:
            narrow = TransportConfig(frame_bytes_max=QUEUE_BYTES // 2, queue_bytes_max=QUEUE_BYTES)
            return replace(plain, waiting=WAITING, publish_wait_s=PUBLISH_WAIT_S, transport=narrow)
        return plain
