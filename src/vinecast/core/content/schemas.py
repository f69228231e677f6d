"""Schemas: which attributes the events of a kind have, of which type and within which range (S2 §4.1).

An attribute is a whole number, a number, a time or a string, from its lowest value to its highest, both
included. A value is kept in one form only: an ``int``, a ``float``, an ``int`` of microseconds since the
epoch, a ``str``. An event is a point: one value for every attribute, in the schema's order.

Two functions turn a value into a 64-bit word, and both preserve order:

- ``key``: for matching. Distinct values have distinct keys, but for strings, of which the first eight bytes
  of UTF-8 count; whoever needs more looks at the strings themselves.
- ``point``: for routing, the paper's order-preserving hash: the attribute's range spread evenly over the
  whole circle, the lowest value at 0 and the highest at 2⁶⁴ − 1. Numbers that lie closer together than the
  circle's points share one, and so do strings that agree in their first eight bytes.

Whatever is wrong in what a caller says is an ``InputError`` that names the attribute.
"""

import json
import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vinecast.core.config import unknown_key
from vinecast.core.errors import BadNameError, InputError
from vinecast.core.log.event_record import topic_fault

INTEGER, NUMBER, TIME, STRING = "integer", "number", "time", "string"
KINDS = (INTEGER, NUMBER, TIME, STRING)
RESERVED = ("and", "or", "not", "in", "between", "everything", "nothing")
"""Words of filters, which are no names of attributes."""

ATTRIBUTES_MAX = 32
"""Attributes of a schema (ours)."""
NAME_MAX = 64
"""Letters of an attribute's name (ours)."""
STRING_BYTES_MAX = 256
"""Of a string's UTF-8 (ours)."""
KEY_MAX = 2**64 - 1
"""The highest key, and the last point of the circle."""

STRING_LOW, STRING_HIGH = "", "\U0010ffff" * (STRING_BYTES_MAX // 4)
"""The first and the last of all strings."""
KEY_BYTES = 8
"""Of a string, which its key is made of."""

Value = int | float | str
"""Of an attribute, in its one form."""
Event = tuple[Value, ...]
"""One value for every attribute, in the schema's order."""
Keys = NDArray[np.uint64]
"""[attribute]"""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SIGN = 1 << 63


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of a schema. ``low`` and ``high`` may be given in any form that ``read`` takes."""

    name: str
    """Letters, digits and ``_``."""
    kind: str
    """One of ``KINDS``."""
    low: Any = None
    """The lowest value; a string's may be left out."""
    high: Any = None
    """The highest value; a string's may be left out."""

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.kind not in KINDS:
            raise InputError(f"{self.name} must be one of {', '.join(KINDS)}, not {str(self.kind)[:80]!r}")
        low, high = self.low, self.high
        if self.kind == STRING:
            low, high = STRING_LOW if low is None else low, STRING_HIGH if high is None else high
        if low is None or high is None:
            raise InputError(f"{self.name} needs a lowest and a highest {self.kind}, as in 0..1000")
        object.__setattr__(self, "low", self.read(low))
        object.__setattr__(self, "high", self.read(high))
        if self.low > self.high:
            raise InputError(f"{self.name} cannot go {self.range_text}: that range is empty")

    @property
    def has_default_range(self) -> bool:
        """Whether it holds all values of its type."""
        return bool(self.kind == STRING and (self.low, self.high) == (STRING_LOW, STRING_HIGH))

    def read(self, value: object) -> Value:
        """A value in its one form, whether it is in the range or not."""
        if self.kind == INTEGER:
            return _read_integer(self.name, value)
        if self.kind == NUMBER:
            return _read_number(self.name, value)
        if self.kind == TIME:
            return _read_time(self.name, value)
        return _read_string(self.name, value)

    def value(self, value: object) -> Value:
        """A value that an event can have, in its one form."""
        found = self.read(value)
        if not self.low <= found <= self.high:
            raise InputError(f"{self.name} must be {self.range_text}, not {self.show(found)}")
        return found

    def key(self, value: Value) -> int:
        """The value's word for matching: keys are in the order of values."""
        if isinstance(value, float):
            (bits,) = struct.unpack(">Q", struct.pack(">d", value))
            return int(bits) ^ (KEY_MAX if bits >> 63 else _SIGN)
        if isinstance(value, str):
            return int.from_bytes(value.encode()[:KEY_BYTES].ljust(KEY_BYTES, b"\0"), "big")
        return value + _SIGN

    def point(self, value: Value) -> int:
        """The value's place on the circle; a value outside the range has the place of the nearest inside."""
        ends = self.low, min(max(value, self.low), self.high), self.high
        (a, below_a), (v, below_v), (b, below_b) = (_exact(self, end).as_integer_ratio() for end in ends)
        along, whole = (v * below_a - a * below_v) * below_b, (b * below_a - a * below_b) * below_v
        return along * KEY_MAX // whole if whole else 0

    @property
    def range_text(self) -> str:
        """The range in words."""
        return f"from {self.show(self.low)} to {self.show(self.high)}"

    def show(self, value: Value) -> str:
        """A value as filters and schemas write it."""
        if self.kind == STRING:
            return json.dumps(value, ensure_ascii=False)
        if self.kind == TIME:
            return time_text(int(value))
        if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        return repr(value)


def check_name(name: object) -> None:
    """BadNameError unless this can be the name of an attribute."""
    if not isinstance(name, str) or not _NAME.match(name) or len(name) > NAME_MAX:
        raise BadNameError(
            f"an attribute's name has up to {NAME_MAX} letters, digits and '_', not {str(name)[:80]!r}"
        )
    if name.lower() in RESERVED:
        raise BadNameError(f"an attribute cannot be named {name!r}: filters use that word")


def _exact(attribute: Attribute, value: Value) -> int | float:
    return attribute.key(value) if isinstance(value, str) else value


def _read_integer(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{name} must be a whole number, not {_shown(value)}")
    if not -_SIGN <= value < _SIGN:
        raise InputError(f"{name} must be from -2⁶³ to 2⁶³ − 1")
    return int(value)


def _read_number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{name} must be a number, not {_shown(value)}")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise InputError(f"{name} must be a finite number, not {found}")
    return found + 0.0  # there is one zero


def _read_time(name: str, value: object) -> int:
    """Microseconds since the epoch, from themselves, a datetime, or ISO 8601; in UTC unless it says so."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise InputError(
                f"{name} must be a time such as 2026-05-01T12:00:00Z, not {_shown(value)}"
            ) from None
    if isinstance(value, datetime):
        value = ((value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{name} must be a time, not {_shown(value)}")
    try:
        _EPOCH + value * _MICROSECOND
    except OverflowError:
        raise InputError(f"{name} must be a time of the years 1 to 9999") from None
    return int(value)


def _read_string(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InputError(f"{name} must be a string, not {_shown(value)}")
    try:
        length = len(value.encode())
    except UnicodeEncodeError:
        raise InputError(f"{name} must be valid Unicode") from None
    if "\0" in value:
        raise InputError(f"{name} must not contain NUL")
    if length > STRING_BYTES_MAX:
        raise InputError(f"{name} has at most {STRING_BYTES_MAX} bytes, not {length}")
    return str(value)


def _shown(value: object) -> str:
    return repr(value)[:80] if isinstance(value, str | bool | int | float) else type(value).__name__


def time_text(time_us: int) -> str:
    """Microseconds since the epoch in ISO 8601, in UTC."""
    return (_EPOCH + time_us * _MICROSECOND).replace(tzinfo=None).isoformat() + "Z"


@dataclass(frozen=True)
class Schema:
    """What events of a kind look like."""

    name: str
    """A path such as ``stocks``: also the topic that its events belong to."""
    attributes: tuple[Attribute, ...]
    """In the order of an event's values."""

    def __post_init__(self) -> None:
        if fault := topic_fault(self.name):
            raise BadNameError(f"{fault}, and a schema's name is a topic; {self.name[:80]!r} is not")
        if not 1 <= len(self.attributes) <= ATTRIBUTES_MAX:
            raise InputError(f"a schema has 1 to {ATTRIBUTES_MAX} attributes, not {len(self.attributes)}")
        object.__setattr__(self, "attributes", tuple(self.attributes))
        places = {attribute.name: place for place, attribute in enumerate(self.attributes)}
        if len(places) < len(self.attributes):
            raise InputError(f"the schema {self.name} has two attributes of the same name")
        object.__setattr__(self, "_places", places)

    def place(self, name: str) -> int:
        """Where an attribute stands in the schema's order."""
        places: dict[str, int] = self.__dict__["_places"]
        if name not in places:
            raise unknown_key(name, list(places), self.name)
        return places[name]

    def event(self, values: Mapping[str, object]) -> Event:
        """The event with these values, one for every attribute."""
        for name in values:
            self.place(name)
        missing = [attribute.name for attribute in self.attributes if attribute.name not in values]
        if missing:
            raise InputError(f"an event of {self.name} lacks {', '.join(missing)}")
        return tuple(attribute.value(values[attribute.name]) for attribute in self.attributes)

    def keys(self, event: Event) -> Keys:
        """An event's keys. [attribute]"""
        pairs = zip(self.attributes, event, strict=True)
        return np.array([attribute.key(value) for attribute, value in pairs], dtype=np.uint64)

    def points(self, event: Event) -> NDArray[np.uint64]:
        """An event's places on the circle, one by each attribute. [attribute]"""
        pairs = zip(self.attributes, event, strict=True)
        return np.array([attribute.point(value) for attribute, value in pairs], dtype=np.uint64)
