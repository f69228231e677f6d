"""The skeleton of a peer: everything that it is made of when it is new, by number.

A peer is a graph of objects that its constructor wires: machines, tables, codecs, closures between them. Two
peers that are made with the same settings have the same graph, so that a thing in one has its counterpart in
the other: the one with the same number. A snapshot (``peer/record/snapshot``) says what is *in* the things;
the things themselves, and all code, are those of a peer that whoever restores it has made. So a snapshot
names no function, and what it holds decides nothing about wiring.

Things are numbered as they are met, from the peer on, attribute by attribute. What cannot change is walked
through and not restored: settings, frozen records, the tables of codecs, functions, classes.
"""

import dataclasses
import functools
import hashlib
import types
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

import msgspec
import numpy as np

from vinecast.core.arrays.topic_overlap import Scratch
from vinecast.core.errors import Bug
from vinecast.peer.codecs.frame_codec import FrameCodec

CONSTANT, OBJECT, LIST, DICT, SET, DEQUE, BYTES, NUMBERS, ARRAY = range(9)
"""What a thing is, as far as its content goes."""
DIGEST_BYTES = 16
_KINDS: dict[type[Any], int] = {list: LIST, set: SET, deque: DEQUE, bytearray: BYTES, array: NUMBERS}
_PLAIN = (bool, int, float, str, bytes, np.generic, Enum, msgspec.Struct, type(None))
"""Values: they have no number, since they are what they say."""
_OPAQUE = (
    type,
    types.ModuleType,
    types.BuiltinMethodType,
    types.MethodWrapperType,
    types.MappingProxyType,
    functools._lru_cache_wrapper,
    msgspec.msgpack.Decoder,
    msgspec.msgpack.Encoder,
    Scratch,
)
"""What is not looked into: it has no state of the peer's."""
TABLES = (FrameCodec,)
"""Tables that are made once: what they hold directly is as constant as they are."""


def slots_of(kind: type[Any]) -> list[str]:
    """The names of the slots of a class's objects."""
    found: list[str] = []
    for one in reversed(kind.__mro__):
        own = one.__dict__.get("__slots__", ())
        found += [own] if isinstance(own, str) else own
    return [name for name in dict.fromkeys(found) if name not in ("__dict__", "__weakref__")]


def attributes_of(thing: object) -> dict[str, Any]:
    """The attributes of an object that are set, by name."""
    found = {name: getattr(thing, name) for name in slots_of(type(thing)) if hasattr(thing, name)}
    return found | getattr(thing, "__dict__", {})


def is_frozen(kind: type[Any]) -> bool:
    """Whether the objects of a class cannot change: a frozen dataclass."""
    return dataclasses.is_dataclass(kind) and bool(kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]


class Skeleton:
    """The things of a new peer. ``given``: what it was handed, which is not looked into."""

    def __init__(self, peer: object, given: Iterable[object]) -> None:
        self.things: list[Any] = []
        self.kinds: list[int] = []
        self.numbers: dict[int, int] = {}
        """Identity → number. All things are held above, so that no identity is used twice."""
        self._sealed: list[bool] = []
        for one in given:
            self._note(one, CONSTANT, False)
        self._given = len(self.things)
        self._walk(peer)

    def _note(self, thing: object, kind: int, sealed: bool) -> bool:
        """Give a thing a number; whether to look into it."""
        number = self.numbers.get(id(thing))
        if number is None:
            self.numbers[id(thing)] = len(self.things)
            self.things.append(thing)
            self.kinds.append(kind)
            self._sealed.append(sealed)
            return True
        if self._sealed[number] and not sealed:  # it was met inside a constant before, and is somebody's own
            self._sealed[number] = False
            return True
        return False

    def _walk(self, peer: object) -> None:
        left: list[tuple[Any, bool]] = [(peer, False)]
        while left:
            thing, sealed = left.pop()
            if isinstance(thing, (*_PLAIN, frozenset)):
                continue
            if isinstance(thing, tuple) and not isinstance(thing, Scratch):
                left += [(one, sealed) for one in reversed(thing)]
                continue
            kind = _kind_of(thing)
            if self._note(thing, kind, sealed and kind not in (OBJECT, CONSTANT)):
                inside = kind == CONSTANT or (sealed and kind != OBJECT)
                left += [(one, inside) for one in reversed(list(_inside(thing)))]

    def digest(self) -> bytes:
        """What kinds of things there are, in a few bytes: the same for peers of the same kind."""
        names = [f"{type(thing).__module__}.{type(thing).__qualname__}" for thing in self.things]
        counts = [str(self.kinds), *map(str, self._sealed), *names[self._given :]]
        return hashlib.blake2b("\n".join(counts).encode(), digest_size=DIGEST_BYTES).digest()

    def number_of(self, thing: object) -> int | None:
        """The number of a thing, if it has one."""
        return self.numbers.get(id(thing))

    def changing(self) -> Iterator[tuple[Any, int]]:
        """The things whose content a snapshot has, and of what kind each is."""
        for thing, kind, sealed in zip(self.things, self.kinds, self._sealed, strict=True):
            if kind != CONSTANT and not sealed:
                yield thing, kind

    def is_wiring(self, thing: object) -> bool:
        """Whether this is an object or a function of the peer's, rather than a value that it holds."""
        number = self.numbers.get(id(thing))
        if number is None or is_frozen(type(thing)):
            return False
        return self.kinds[number] in (OBJECT, CONSTANT) and not isinstance(thing, np.ndarray)


def _kind_of(thing: Any) -> int:
    kind = type(thing)
    if kind in _KINDS:
        return _KINDS[kind]
    if isinstance(thing, np.ndarray):
        return ARRAY if thing.flags.writeable else CONSTANT
    if isinstance(thing, dict):  # ordered and counting ones too
        return DICT
    if isinstance(thing, _OPAQUE + TABLES) or callable(thing) or is_frozen(kind):
        return CONSTANT
    if kind.__module__.startswith("vinecast."):
        return OBJECT
    raise Bug(f"a peer has a {kind.__module__}.{kind.__qualname__}, whose state no snapshot can have")


def _inside(thing: Any) -> Iterable[Any]:
    """What is in a thing, always in the same order."""
    match thing:
        case Scratch() | np.ndarray() | set() | bytearray() | array():
            return ()
        case list() | deque():
            return thing
        case dict():
            return [*thing.values(), *thing]
        case types.FunctionType():
            return [cell.cell_contents for cell in thing.__closure__ or ()]
        case types.MethodType() | types.MethodWrapperType():
            return (thing.__self__,)
        case types.BuiltinMethodType():
            return () if isinstance(thing.__self__, types.ModuleType) else (thing.__self__,)
        case functools.partial():
            return [thing.func, *thing.args, *thing.keywords.values()]
    if isinstance(thing, _OPAQUE) or not type(thing).__module__.startswith("vinecast."):
        return ()
    return attributes_of(thing).values()
