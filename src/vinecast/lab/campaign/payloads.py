"""What people of a campaign publish: payloads that can be told apart, some of them events of a schema."""

from vinecast.core.content.schemas import Attribute, Schema
from vinecast.lab.campaign.plan import SCHEMA_TOPIC, PublishStep
from vinecast.node.api.content import as_plain, filter_set_of
from vinecast.peer.content import read_values

SCHEMA = Schema(SCHEMA_TOPIC, (Attribute("price", "integer", 0, 100), Attribute("side", "string")))
"""The schema of runs that have one."""

Headers = dict[str, str | bytes]


def payloads_of(step: PublishStep, by_content: bool) -> list[tuple[bytes, Headers]]:
    """What a publication says, event by event. by_content: whether events are routed by what they say"""
    if step.topic != SCHEMA_TOPIC:
        tags = [b"%d/%d " % (step.number, index) for index in range(step.events)]
        return [(tag.ljust(step.size, b"."), {}) for tag in tags]
    values = [
        {"price": (7 * step.number + 13 * index) % 101, "side": "buy" if index % 2 else "sell"}
        for index in range(step.events)
    ]
    told: list[tuple[bytes, Headers]] = []
    for index, (payload, headers) in enumerate(as_plain(SCHEMA, values, None, by_content)[1]):
        assert isinstance(payload, bytes)
        unlike_others = b" " * (1 + index) + b"\n" * (1 + step.number)
        told.append((payload + unlike_others, dict(headers or {})))
    return told


def is_wanted(wanted: str, payload: bytes) -> bool:
    """Whether an event of the schema matches a filter; everything matches none."""
    return not wanted or filter_set_of(SCHEMA, wanted).matches(SCHEMA.event(read_values(payload)))
