"""Gap repair: every node that follows a stream ends with all of its events (S3 §4.5: "a simple negative
ACK").

An event names its parents. Whoever lacks one asks for it: whoever sent the event, then the topic's neighbours
and replicas, then those who provide its stream. Once a period neighbours compare heads, so that a gap at the
end of a stream shows too; whoever lacks much goes through a peer's stream in order. An event is kept, passed
on and delivered only after its parents.
"""

from vinecast.protocols.streams.config import StreamsConfig
from vinecast.protocols.streams.machine import GapRepair
from vinecast.protocols.streams.messages import (
    EARLIEST,
    NOW,
    STREAM_MESSAGES,
    Acknowledged,
    FindProviders,
    Follow,
    Hand,
    Lower,
    Met,
    Provide,
    Providers,
    StreamAck,
    StreamEffect,
    StreamEvents,
    StreamHeads,
    StreamList,
    StreamListed,
    StreamMessage,
    StreamPush,
    StreamStatus,
    StreamWant,
    TopicReplicas,
    Unfollow,
)

__all__ = [
    "EARLIEST",
    "NOW",
    "STREAM_MESSAGES",
    "Acknowledged",
    "FindProviders",
    "Follow",
    "GapRepair",
    "Hand",
    "Lower",
    "Met",
    "Provide",
    "Providers",
    "StreamAck",
    "StreamEffect",
    "StreamEvents",
    "StreamHeads",
    "StreamList",
    "StreamListed",
    "StreamMessage",
    "StreamPush",
    "StreamStatus",
    "StreamWant",
    "StreamsConfig",
    "TopicReplicas",
    "Unfollow",
]
