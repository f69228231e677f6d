"""Snapshots: what is in a peer at a moment, as bytes, and a peer as it was then.

A snapshot has the content of the things of a peer's skeleton (``peer/record/skeleton``), in order, and with
it all that came to be since: events, tables of peers, subscriptions. It is restored into a new peer that was
made with the same settings, by filling its things in. What it holds are values and records of the pure rooms;
methods of things are named, functions are not. Reading one calls nothing but the makers
(``peer/record/makers``, ``peer/record/strict_reader``), and what a machine is wired of stays as its own
constructor made it, so that a snapshot from somebody else cannot have anything done
(docs/decisions/0016-a-snapshot-names-no-code.md).

Without payloads, each is replaced by what stands in for it, and so are the blocks that hold it
(``peer/record/payloads``).
"""

import io
import pickle
from collections.abc import Mapping
from types import FunctionType
from typing import Any

import numpy as np
from msgspec import structs

from vinecast.core.errors import Bug, InputError
from vinecast.core.log.event_record import BLOCK_BEGINS, EventRecord
from vinecast.peer.inputs import Draft
from vinecast.peer.record import makers
from vinecast.peer.record import skeleton as things
from vinecast.peer.record.makers import FAMILY_WRITERS, MAKERS, ROOMS, WRITERS, name_of, names_of
from vinecast.peer.record.payloads import PayloadStripper, stand_in
from vinecast.peer.record.skeleton import DIGEST_BYTES, Skeleton, attributes_of
from vinecast.peer.record.strict_reader import StrictReader

_FAMILIES = tuple(FAMILY_WRITERS)


# Out.


def take_snapshot(skeleton: Skeleton, with_payloads: bool = True) -> bytes:
    """What is in a peer now."""
    content = [_content_of(thing, kind) for thing, kind in skeleton.changing()]
    return skeleton.digest() + _written(content, skeleton.numbers, with_payloads)


def write_value(value: object, with_payloads: bool = True) -> bytes:
    """A value, such as an input, for ``read_value``."""
    return _written(value, {}, with_payloads)


def _written(value: object, numbers: Mapping[int, int], with_payloads: bool) -> bytes:
    out = io.BytesIO()
    kind = _Pickler if with_payloads else _PicklerWithoutPayloads
    kind(out, numbers).dump(value)
    return out.getvalue()


def _content_of(thing: Any, kind: int) -> Any:
    match kind:
        case things.OBJECT:
            return attributes_of(thing)
        case things.DICT:
            return dict(thing)
        case things.ARRAY:
            return thing.dtype.str, thing.shape, thing.tobytes()
        case things.NUMBERS:
            return thing.typecode, thing.tobytes()
        case things.BYTES:
            return bytes(thing)
    return list(thing)


class _Pickler(pickle.Pickler):
    """Writes things of a skeleton as their numbers, and everything else as calls of the makers below."""

    def __init__(self, out: io.BytesIO, numbers: Mapping[int, int]) -> None:
        super().__init__(out, protocol=4)
        self._numbers = numbers

    def persistent_id(self, value: Any) -> Any:
        """The number of a thing; None for what is written as it is."""
        return self._numbers.get(id(value))

    def reducer_override(self, value: Any) -> Any:
        """How what is no plain container is made again."""
        kind = type(value)
        write = WRITERS.get(kind)
        if write is not None:
            return write(value)
        if kind is FunctionType and value is MAKERS.get(value.__name__):
            return NotImplemented
        if issubclass(kind, _FAMILIES):
            for family in _FAMILIES:
                if issubclass(kind, family):
                    return FAMILY_WRITERS[family](value)
        if kind.__module__.startswith(ROOMS):
            return makers.make_object, (name_of(kind),), attributes_of(value)
        raise Bug(f"a snapshot cannot have a {kind.__module__}.{kind.__qualname__}")


class _PicklerWithoutPayloads(_Pickler):
    """… and what stands in for payloads in their place."""

    def __init__(self, out: io.BytesIO, numbers: Mapping[int, int]) -> None:
        super().__init__(out, numbers)
        self._stripper = PayloadStripper()
        self._written: dict[bytes, tuple[bytes]] = {}
        self._standing: set[bytes] = set()
        """What stands in for blocks and frames: that is written as it is."""

    def persistent_id(self, value: Any) -> Any:
        if type(value) is bytes and BLOCK_BEGINS in value:
            if value in self._standing:
                return None
            if value not in self._written:
                self._written[value] = (self._stripper.value(value),)
                self._standing.update(self._written[value])
            return self._written[value]
        return self._numbers.get(id(value))

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, EventRecord):
            value = value._replace(payload=stand_in(value.payload))
        elif isinstance(value, Draft):
            value = structs.replace(value, payload=stand_in(value.payload))
        return super().reducer_override(value)


# In.


def restore(skeleton: Skeleton, snapshot: bytes) -> None:
    """Make a new peer, of which this is the skeleton, what it was. InputError when the snapshot is none of
    such a peer."""
    if not snapshot.startswith(skeleton.digest()):
        raise InputError("the snapshot does not fit: it is one of another kind of node, or of other code")
    content = _read(snapshot[DIGEST_BYTES:], skeleton)
    changing = list(skeleton.changing())
    if not isinstance(content, list) or len(content) != len(changing):
        raise InputError("the snapshot does not fit: something is missing in it")
    try:
        for (thing, kind), inside in zip(changing, content, strict=True):
            _refill(skeleton, thing, kind, inside)
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        raise InputError(f"the snapshot does not fit: {error}") from None


def read_value(data: bytes) -> Any:
    """What ``write_value`` wrote. InputError when it is something else."""
    return _read(data, None)


def _read(data: bytes, skeleton: Skeleton | None) -> Any:
    def known(stands: Any) -> Any:
        if isinstance(stands, tuple) and len(stands) == 1 and isinstance(stands[0], bytes):
            return stands[0]
        if skeleton is None or not isinstance(stands, int) or stands < 0:
            raise InputError("a record names a thing that is not there")
        return skeleton.things[stands]

    return StrictReader(makers.__name__, MAKERS, known, makers.make_object.__name__, _fill).read(data)


def _refill(skeleton: Skeleton, thing: Any, kind: int, inside: Any) -> None:
    """Give a thing of a skeleton its content."""
    match kind:
        case things.OBJECT:
            _refill_object(skeleton, thing, inside)
        case things.DICT:
            thing.clear()
            thing.update(inside)
        case things.ARRAY:
            dtype, shape, data = inside
            if (dtype, shape) != (thing.dtype.str, thing.shape):
                raise InputError("the snapshot does not fit: it is one of a node with other settings")
            thing[...] = np.frombuffer(data, dtype=thing.dtype).reshape(shape)
        case things.NUMBERS:
            del thing[:]
            thing.frombytes(inside[1])
        case things.LIST | things.BYTES:
            thing[:] = inside
        case things.SET:
            thing.clear()
            thing.update(inside)
        case _:
            thing.clear()
            thing.extend(inside)


def _refill_object(skeleton: Skeleton, thing: Any, inside: dict[str, Any]) -> None:
    before = attributes_of(thing)
    for name, value in before.items():
        if skeleton.is_wiring(value) and inside.get(name) is not value:
            raise InputError(
                f"the snapshot does not fit: {type(thing).__qualname__}.{name} is wired otherwise"
            )
    _fill(thing, inside)
    for name in before.keys() - inside.keys():
        object.__delattr__(thing, name)


def _fill(thing: Any, state: dict[str, Any]) -> None:
    """Set the attributes of an object, those that its class knows."""
    kind: Any = type(thing)
    names = names_of(kind)
    for name, value in state.items():
        if name not in names:
            raise InputError(f"a record gives a {kind.__qualname__} the attribute {name[:80]!r}")
        object.__setattr__(thing, name, value)
