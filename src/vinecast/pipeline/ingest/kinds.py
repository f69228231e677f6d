"""The formats that can be ingested: how a line of each becomes a row of the staging table.

``edges``     ``from to`` with blanks, a tab or a comma between (SNAP, TSV, CSV); # and % begin comments.
``avt``       ``id sessions start end start end …`` in seconds (vinecast.sim.workload.churn).
``fta``       event_trace of the Failure Trace Archive, separated by tabs: event_id, *component_id*,
              *node_id*, *platform_id*, node_name, *event_type* (1 available, 0 unavailable),
              *event_start_time*, *event_end_time* (Unix seconds), … Those with stars are read: who is on line
              is a component of a node of a platform, and its sessions are the events of type 1.
``matrix``    a square table of round-trip times in ms (vinecast.sim.engine.network); all of it or nothing.
``pings``     CSV with a heading: from, to, avg_ms, min_ms, max_ms, and perhaps distance_km and mdev_ms.
``activity``  ``from to seconds kind`` with Unix seconds and RT (retweet), MT (mention) or RE (reply), as in
              SNAP's higgs.
``reddit``    PulsarCast's workload, a JSON object a line: topics (name, node, author, totalNumberEvents) and
              users (name, node, subscriptions {topic: true}, events [{internalId, topic}]).

``traces``    what live nodes did (vinecast.core.trace_lines), a JSON object a line: headings and records; in
              one file, in many, or in a folder of them.

In all but edges only # begins a comment.
"""

import csv
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from vinecast.core.errors import InputError
from vinecast.core.trace_lines import SUFFIX, NewerTraceError, TraceHeading, read_line
from vinecast.pipeline.ingest.lines import RowOf, TakenLines, take_block, take_edges
from vinecast.pipeline.ingest.splits import Block
from vinecast.sim.engine.network import RTT_MS_MAX, matrix_row, squareness_fault
from vinecast.sim.workload.churn import TIME_S_MAX, session_times

_LONG, _INTEGER, _DOUBLE, _STRING = pa.int64(), pa.int32(), pa.float64(), pa.string()
_TIME = r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?"
_PLAIN_SESSIONS = re.compile(rf"[0-9]{{1,9}}(?:[ \t]+{_TIME})*")
_SECONDS = re.compile(r"[0-9]{1,15}(\.[0-9]*)?")
_ACT = re.compile(r"([0-9]{1,18})[ \t]+([0-9]{1,18})[ \t]+([0-9]{1,18})[ \t]+(RT|MT|RE)")
_FTA_FIELDS = 8  # what comes after the end of an event is not read

EDGES = pa.schema({"source": _LONG, "target": _LONG})
AVT = pa.schema({"line": _LONG, "name": _STRING, "on_s": pa.list_(_DOUBLE), "off_s": pa.list_(_DOUBLE)})
FTA = pa.schema({"line": _LONG, "name": _STRING, "available": pa.bool_(), "on_s": _DOUBLE, "off_s": _DOUBLE})
MATRIX = pa.schema({"source": _INTEGER, "rtt_ms": pa.list_(_DOUBLE)})
ACTIVITY = pa.schema({"line": _LONG, "source": _LONG, "target": _LONG, "at_s": _LONG, "kind": _STRING})
_PING_TIMES = ("avg_ms", "min_ms", "max_ms")
_PING_EXTRAS = ("distance_km", "mdev_ms")
_PING_NUMBERS = (*_PING_TIMES, *_PING_EXTRAS)
PINGS = pa.schema(
    {"line": _LONG, "source": _STRING, "target": _STRING, **dict.fromkeys(_PING_NUMBERS, _DOUBLE)}
)
REDDIT = pa.schema(
    {
        "line": _LONG,
        "type": _STRING,
        "name": _STRING,
        "node": _STRING,
        "author": _STRING,
        "events": _LONG,
        "subscriptions": pa.list_(_STRING),
        "published": pa.list_(pa.struct({"event": _LONG, "topic": _STRING})),
    }
)
TRACES = pa.schema(
    {
        "line": _LONG,
        "node": _STRING,
        "system": _STRING,
        "period_us": _LONG,
        "time_us": _LONG,
        "kind": pa.int8(),
        "peer": _STRING,
        "message": _STRING,
        "topic": _STRING,
        "event": _LONG,
        "hops": pa.int16(),
        "reason": _STRING,
        "size": _INTEGER,
    }
)
"""A heading has the system and the cycle, a record all else."""


class Reader:
    """Reads the blocks of one split, in order."""

    def __init__(self, schema: pa.Schema, row_of: RowOf | None = None) -> None:
        self.schema = schema
        self.row_of = row_of or self.row

    def take(self, block: Block) -> TakenLines:
        """What becomes of the lines of a block."""
        return take_block(block, ("#",), self.schema, self.row_of)

    def row(self, line: str, number: int) -> tuple[Any, ...] | None:
        """What becomes of a line; for readers that remember something from line to line."""
        raise NotImplementedError

    def finish(self) -> None:
        """Look at the whole after its last line. InputError says what is wrong with it."""


class EdgesReader(Reader):
    """Edges, mostly in one compiled pass."""

    def take(self, block: Block) -> TakenLines:
        return take_edges(block, self.schema)


def session_row(line: str, number: int) -> tuple[Any, ...]:
    """A node and its sessions; by the definition where the line is not plainly right."""
    name, _, rest = line.replace("\t", " ").partition(" ")
    rest = rest.strip()
    if _PLAIN_SESSIONS.fullmatch(rest):
        count, *_ = times = np.fromstring(rest, sep=" ")
        times = times[1:]
        if times.size == 2 * count and (times <= TIME_S_MAX).all() and (np.diff(times) >= 0).all():
            return number, name, times[0::2], times[1::2]
    checked = np.array(session_times(rest.split()))
    return number, name, checked[0::2], checked[1::2]


def event_row(line: str, number: int) -> tuple[Any, ...]:
    """An event of the Failure Trace Archive."""
    fields = [field.strip() for field in line.split("\t")]
    if len(fields) < _FTA_FIELDS:
        raise ValueError(f"an event has at least {_FTA_FIELDS} fields between tabs, not {len(fields)}")
    _, component, node, platform, _, kind, start, end = fields[:_FTA_FIELDS]
    if not (component and node and platform):
        raise ValueError("the component, the node or the platform has no id")
    if kind not in ("0", "1"):
        raise ValueError(f"the type of an event must be 1 (available) or 0 (unavailable), not {kind!r}")
    for text in (start, end):
        if not _SECONDS.fullmatch(text):
            raise ValueError(f"a time must be a number of seconds, not negative, but here is {text!r}")
    on_s, off_s = float(start), float(end)
    if max(on_s, off_s) > TIME_S_MAX:
        raise ValueError(f"a time must be at most {TIME_S_MAX:.0e} seconds, not {max(on_s, off_s):.0f}")
    if off_s < on_s:
        raise ValueError(f"the event ends ({end}) before it starts ({start})")
    return number, f"{platform}/{node}/{component}", kind == "1", on_s, off_s


class MatrixReader(Reader):
    """Rows of a square matrix, numbered from 0."""

    def __init__(self) -> None:
        super().__init__(MATRIX)
        self.rows = 0
        self.columns: int | None = None

    def row(self, line: str, number: int) -> tuple[Any, ...]:
        values = matrix_row(line, self.columns)
        self.columns = values.size
        self.rows += 1
        return self.rows - 1, values

    def finish(self) -> None:
        if self.columns is not None and (fault := squareness_fault(self.rows, self.columns)):
            raise InputError(fault)


class PingsReader(Reader):
    """Pings between places; the first line says which column is which."""

    def __init__(self) -> None:
        super().__init__(PINGS)
        self.heading: list[str] = []

    def row(self, line: str, number: int) -> tuple[Any, ...] | None:
        try:
            fields = next(csv.reader([line], strict=True))
        except csv.Error as error:
            raise ValueError(f"not a line of CSV ({error})") from None
        if not self.heading:
            self._read_heading(fields)
            return None
        if len(fields) != len(self.heading):
            raise ValueError(f"{len(fields)} fields where the heading has {len(self.heading)}")
        named = dict(zip(self.heading, (field.strip() for field in fields), strict=True))
        if not (named["from"] and named["to"]):
            raise ValueError("a place has no name")
        times = (_milliseconds(named[name]) for name in _PING_TIMES)
        extras = (_quantity(named[name]) if named.get(name) else None for name in _PING_EXTRAS)
        return number, named["from"], named["to"], *times, *extras

    def _read_heading(self, fields: list[str]) -> None:
        self.heading = [field.strip() for field in fields]
        missing = [name for name in ("from", "to", *_PING_TIMES) if name not in self.heading]
        if missing or len(set(self.heading)) != len(self.heading):
            raise InputError(
                f"the heading must name from, to, {', '.join(_PING_TIMES)}, each column once, "
                f"but it is {','.join(fields)[:100]!r}"
            )


def _quantity(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ValueError(f"a number, not negative, must stand where {text!r} does")
    return value


def _milliseconds(text: str) -> float:
    value = _quantity(text)
    if value > RTT_MS_MAX:
        raise ValueError(f"a round-trip time must be between 0 and {RTT_MS_MAX:,} ms, not {text}")
    return value


def act_row(line: str, number: int) -> tuple[Any, ...]:
    """Somebody's timed act."""
    act = _ACT.fullmatch(line)
    if act is None:
        raise ValueError("an act is two users, Unix seconds and RT, MT or RE, with blanks between")
    if int(act[3]) > TIME_S_MAX:
        raise ValueError(f"a time must be at most {TIME_S_MAX:.0e} seconds, not {act[3]}")
    return number, int(act[1]), int(act[2]), int(act[3]), act[4]


def reddit_row(line: str, number: int) -> tuple[Any, ...]:
    """A topic or a user of PulsarCast's workload."""
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise ValueError("not a JSON object")
    name, node = _word(told, "name"), _word(told, "node")
    if told.get("type") == "topic":
        return number, "topic", name, node, _word(told, "author"), _count(told, "totalNumberEvents"), [], []
    if told.get("type") != "user":
        raise ValueError(f"the type must be 'topic' or 'user', not {told.get('type')!r}")
    topics, events = told.get("subscriptions"), told.get("events")
    if not (isinstance(topics, dict) and all(isinstance(value, bool) for value in topics.values())):
        raise ValueError("subscriptions must be an object of topics, each true or false")
    if not (isinstance(events, list) and all(isinstance(event, dict) for event in events)):
        raise ValueError("events must be a list of objects")
    subscribed = [_word({"topic": topic}, "topic") for topic, wanted in topics.items() if wanted]
    published = [{"event": _count(event, "internalId"), "topic": _word(event, "topic")} for event in events]
    return number, "user", name, node, None, None, subscribed, published


def trace_row(line: str, number: int) -> tuple[Any, ...]:
    """A heading or a record of a live node's trace."""
    try:
        found = read_line(line)
    except NewerTraceError as error:
        raise InputError(str(error)) from None
    if isinstance(found, TraceHeading):
        return number, found.node.hex(), found.system, found.period_us, *[None] * 9
    time_us, node, kind, peer, message, topic, event, hops, reason, size = found
    named = (peer.hex() or None, _printable(message), _printable(topic) or None)
    return number, node.hex(), None, None, time_us, int(kind), *named, event, hops, _printable(reason), size


def _printable(text: str) -> str:
    """Without what a table cannot hold."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _word(told: dict[str, Any], key: str) -> str:
    value = told.get(key)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{key} must be a string, not {value!r}"[:200])
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{key} is not Unicode text") from None
    return value


def _count(told: dict[str, Any], key: str) -> int:
    value = told.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise ValueError(f"{key} must be a whole number, not negative, not {value!r}"[:200])
    return value


@dataclass(frozen=True, slots=True)
class InputFormat:
    """A format: what a good line is, how it is read, and the table that it fills first."""

    name: str
    about: str
    holds: str
    """What there must be at least one of."""
    reader: Callable[[], Reader]
    table: str
    one_task: bool = False
    """Whether lines make sense only after those before them."""
    all_or_nothing: bool = False
    """Whether a bad line spoils the whole."""
    suffix: str = ""
    """How the names of files end that are taken together from a folder; empty: one file alone is taken."""


KINDS = {
    kind.name: kind
    for kind in (
        InputFormat("edges", "edge list: SNAP text, TSV or CSV", "edge", lambda: EdgesReader(EDGES), "edges"),
        InputFormat("avt", "availability trace", "node", lambda: Reader(AVT, session_row), "sessions"),
        InputFormat(
            "fta", "Failure Trace Archive events", "event", lambda: Reader(FTA, event_row), "sessions"
        ),
        InputFormat(
            "matrix", "latency matrix", "row", MatrixReader, "latencies", one_task=True, all_or_nothing=True
        ),
        InputFormat("pings", "table of pings", "ping", PingsReader, "pings", one_task=True),
        InputFormat("activity", "timed activity", "act", lambda: Reader(ACTIVITY, act_row), "activity"),
        InputFormat(
            "reddit", "PulsarCast's workload", "topic or user", lambda: Reader(REDDIT, reddit_row), "topics"
        ),
        InputFormat("traces", "trace", "record", lambda: Reader(TRACES, trace_row), "traces", suffix=SUFFIX),
    )
}
"""All formats, by name."""
