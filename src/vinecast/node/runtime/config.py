"""The settings of a live node."""

from dataclasses import dataclass, field

from vinecast.core.config import limited
from vinecast.core.errors import InputError
from vinecast.core.log.batch_signature import BATCH_SIGNATURE_BYTES_MAX
from vinecast.core.log.event_record import BLOCK_BYTES_MAX
from vinecast.core.log.retention import Retention
from vinecast.node.storage.store import StoreConfig
from vinecast.node.storage.streams_store import StreamStoreConfig
from vinecast.node.transport.interface import TransportConfig
from vinecast.peer.config import PeerConfig

STREAM_BYTES = 1 << 30
"""Of one topic's stream on one node, if nothing else is set (ours)."""
EVENT_BYTES_MAX = BLOCK_BYTES_MAX + BATCH_SIGNATURE_BYTES_MAX + 64
"""The largest frame that an event can need."""


WITHOUT_PAYLOADS = "headers"
"""What ``record`` is for a record without payloads."""


@dataclass(frozen=True, slots=True)
class NodeConfig(PeerConfig):
    """What can be set of a node: its peer's settings, how much it keeps, and how it is connected."""

    retention: Retention = field(default_factory=lambda: Retention(bytes=STREAM_BYTES))
    """How much of the stream of each topic is kept."""
    trace_folder: str = ""
    """Where the node writes down what it publishes, sends, receives, delivers and drops; empty: nowhere."""
    trace_bytes: int = limited(256 * 1024 * 1024, at_least=1024 * 1024, at_most=1 << 50)
    """How much of that is kept, the latest of it."""
    transport: TransportConfig = field(default_factory=TransportConfig)
    store: StoreConfig = field(default_factory=StoreConfig)
    streams: StreamStoreConfig = field(default_factory=StreamStoreConfig)
    record: bool | str = False
    """Whether all that the node's machine is handed is recorded, so that what happened can be had again
    (``vinecast replay``); "headers" for a record without the payloads of events."""
    record_folder: str = ""
    """Where the record is kept, if not in ``record`` in the node's folder."""
    record_bytes: int = limited(256 * 1024 * 1024, at_least=1024 * 1024, at_most=1 << 50)
    """What the record takes on disk, at the most; the oldest goes."""

    def __post_init__(self) -> None:
        PeerConfig.__post_init__(self)  # super() does not work in a dataclass with slots
        if self.record not in (False, True, WITHOUT_PAYLOADS):
            raise InputError(f'record must be true, false or "{WITHOUT_PAYLOADS}", not "{self.record}"')
        if self.transport.frame_bytes_max < EVENT_BYTES_MAX:
            raise InputError(
                f"transport.frame_bytes_max must have room for an event: {EVENT_BYTES_MAX:,} bytes"
            )
