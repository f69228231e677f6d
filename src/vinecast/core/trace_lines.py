"""Trace records as lines of text, as a live node writes them: one JSON object a line.

A *record* has the fields of ``NamedRecord``, without those that say nothing: time in whole microseconds,
kinds by their names in small letters, ids of nodes in hex, the number of an event in 16 digits of hex. A
*heading*, with which every file begins, says which version the lines are of, whose trace it is, which system
the node runs and how long a cycle of it is.

    {"trace":2,"node":"9f31…","system":"poldercast","period_us":1000000}
    {"time_us":1700000000000000,"node":"9f31…","kind":"sent","peer":"02ab…","message":"cyclon.request","size":81}

What is read may have been written by anybody: ``read_line`` takes what ``record_line`` and ``heading_line``
can have written, and says of all else what is wrong with it.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from vinecast.core.trace import SCHEMA_VERSION, NamedRecord, TraceKind

SUFFIX = ".trace.jsonl"
"""How the name of a file of such lines ends."""
TIME_US_MAX = 253_402_300_799_999_999
"""The last microsecond of the year 9999."""
HOPS_MAX, SIZE_MAX, EVENT_MAX = 2**15 - 1, 2**31 - 1, 2**63 - 1
TEXT_MAX = 1000
"""Characters of a topic, a kind of message or a reason (ours): no node has longer ones."""
PERIOD_US_MAX = 86_400_000_000

KIND_NAMES = {kind: kind.name.lower() for kind in TraceKind}
_KINDS = {name: kind for kind, name in KIND_NAMES.items()}
_ID, _EVENT = re.compile("[0-9a-f]{64}"), re.compile("[0-9a-f]{16}")
_text = json.JSONEncoder(ensure_ascii=False).encode


class TraceHeading(NamedTuple):
    """What the first line of a file says."""

    node: bytes
    system: str
    period_us: int
    """A cycle of the node's gossip, or of its heartbeats."""
    version: int = SCHEMA_VERSION


class NewerTraceError(ValueError):
    """The lines were written by a newer Vinecast."""


def heading_line(heading: TraceHeading) -> str:
    """A heading, with the end of its line."""
    node, system, period_us, version = heading
    return f'{{"trace":{version},"node":"{node.hex()}","system":{_text(system)},"period_us":{period_us}}}\n'


def record_line(record: NamedRecord) -> str:
    """A record, with the end of its line."""
    time_us, node, kind, peer, message, topic, event, hops, reason, size = record
    parts = [f'{{"time_us":{time_us},"node":"{node.hex()}","kind":"{KIND_NAMES[kind]}"']
    if peer:
        parts.append(f'"peer":"{peer.hex()}"')
    if message:
        parts.append(f'"message":{_text(message)}')
    if topic:
        parts.append(f'"topic":{_text(topic)}')
    if event >= 0:
        parts.append(f'"event":"{event:016x}"')
    if hops >= 0:
        parts.append(f'"hops":{hops}')
    if reason:
        parts.append(f'"reason":{_text(reason)}')
    if size:
        parts.append(f'"size":{size}')
    return ",".join(parts) + "}\n"


def read_line(line: str) -> NamedRecord | TraceHeading:
    """What a line says. ValueError says what is wrong with it."""
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise ValueError("not a JSON object")
    if "trace" in told:
        return _read_heading(told)
    _check_names(told, _READ)
    found = {name: _READ[name](name, value) for name, value in told.items()}
    for name in ("time_us", "node", "kind"):
        if name not in found:
            raise ValueError(f"{name} is missing")
    return NamedRecord(**found)


def _read_heading(told: Mapping[str, Any]) -> TraceHeading:
    version = _whole("trace", told["trace"], SIZE_MAX)
    if version > SCHEMA_VERSION:
        raise NewerTraceError(
            f"the trace is of version {version}, newer than this Vinecast's {SCHEMA_VERSION}"
        )
    names = {"trace", "node", "system", "period_us"}
    _check_names(told, names)
    if missing := sorted(names.difference(told)):
        raise ValueError(f"{missing[0]} is missing")
    period_us = _whole("period_us", told["period_us"], PERIOD_US_MAX)
    if not period_us:
        raise ValueError("period_us must be more than 0")
    return TraceHeading(_id("node", told["node"]), _word("system", told["system"]), period_us, version)


def _check_names(told: Mapping[str, Any], known: "set[str] | Mapping[str, Any]") -> None:
    for name in told:
        if name not in known:
            raise ValueError(f"there is no field {name[:40]!r}")


def _whole(name: str, value: object, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError(f"{name} must be a whole number from 0 to {most}, not {value!r}"[:200])
    return value


def _word(name: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > TEXT_MAX:
        raise ValueError(f"{name} must be a text of at most {TEXT_MAX} characters, not {value!r}"[:200])
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} is not Unicode text") from None
    return value


def _id(name: str, value: object) -> bytes:
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise ValueError(f"{name} must be an id in 64 digits of hex, not {value!r}"[:200])
    return bytes.fromhex(value)


def _kind(name: str, value: object) -> TraceKind:
    if not isinstance(value, str) or value not in _KINDS:
        raise ValueError(f"{name} must be one of {', '.join(_KINDS)}, not {value!r}"[:200])
    return _KINDS[value]


def _event(name: str, value: object) -> int:
    if not isinstance(value, str) or not _EVENT.fullmatch(value) or int(value, 16) > EVENT_MAX:
        raise ValueError(f"{name} must be the number of an event in 16 digits of hex, not {value!r}"[:200])
    return int(value, 16)


_READ: Mapping[str, Callable[[str, object], Any]] = {
    "time_us": lambda name, value: _whole(name, value, TIME_US_MAX),
    "node": _id,
    "kind": _kind,
    "peer": _id,
    "message": _word,
    "topic": _word,
    "event": _event,
    "hops": lambda name, value: _whole(name, value, HOPS_MAX),
    "reason": _word,
    "size": lambda name, value: _whole(name, value, SIZE_MAX),
}
