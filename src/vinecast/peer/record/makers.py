"""The makers: how a snapshot writes what is no plain container, and what makes it again.

A maker is called with what a record says, and that may come from anywhere: each checks its arguments, and
makes values and records of the pure rooms, without calling anything of theirs but the constructors of
errors and of parts of frames. Functions it does not make at all, and of methods only those of a thing that
is there already, or was made here.
"""

from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache, partial
from importlib import import_module
from types import CodeType, FunctionType, MappingProxyType, MethodType
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from vinecast.core.errors import InputError, VinecastError
from vinecast.core.log.event_record import NO_HEADERS
from vinecast.peer.record.skeleton import TABLES, slots_of

ROOMS = ("vinecast.core.", "vinecast.protocols.", "vinecast.systems.", "vinecast.peer.")
"""Whose records a snapshot may hold."""


# Out.


def name_of(kind: type[Any]) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _write_array(value: NDArray[Any]) -> Any:
    whole = value
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    if whole is not value and whole.flags.c_contiguous:
        begin = value.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        return make_view, (whole, value.dtype.str, begin, value.shape, value.strides)
    return make_array, (value.dtype.str, value.shape, value.tobytes())


def _write_method(value: Any) -> Any:
    return make_method, (value.__self__, value.__func__.__name__)


def _write_struct(value: Any) -> Any:
    fields = type(value).__struct_fields__
    return make_struct, (name_of(type(value)), tuple([getattr(value, name) for name in fields]))


def _write_tuple(value: Any) -> Any:
    return make_tuple, (name_of(type(value)), tuple(value))


# In. What a pickle calls a maker with comes from anywhere.


def make_object(name: str) -> Any:
    """An object of a class, without its attributes."""
    kind = _class_of(name)
    if issubclass(kind, (type, tuple, Enum, BaseException, msgspec.Struct)) or kind in TABLES:
        raise InputError(f"a record makes a {kind.__qualname__}, which no state of a node holds")
    return object.__new__(kind)


def make_tuple(name: str, items: tuple[Any, ...]) -> Any:
    """A named tuple."""
    kind = _class_of(name)
    if not issubclass(kind, tuple) or len(items) != len(getattr(kind, "_fields", ())):
        raise InputError(f"a record makes a {kind.__qualname__} of {len(items)} fields")
    return tuple.__new__(kind, items)


def make_struct(name: str, items: tuple[Any, ...]) -> Any:
    """A part of a frame."""
    kind = _class_of(name)
    if not issubclass(kind, msgspec.Struct):
        raise InputError(f"a record takes {kind.__qualname__} for a part of a frame")
    return kind(*items)


def make_member(name: str, value: Any) -> Any:
    """A member of an enumeration."""
    kind = _class_of(name)
    if not issubclass(kind, Enum):
        raise InputError(f"a record takes {kind.__qualname__} for an enumeration")
    return kind(value)


def make_error(name: str, arguments: tuple[Any, ...]) -> Any:
    """An error that somebody is told of."""
    kind = _class_of(name)
    if not issubclass(kind, VinecastError) or not all(isinstance(one, str) for one in arguments):
        raise InputError(f"a record takes {kind.__qualname__} for an error")
    return kind(*arguments)


def make_class(name: str) -> Any:
    """A class."""
    return _class_of(name)


def make_method(thing: Any, name: str) -> Any:
    """A method of a thing."""
    kind = type(thing)
    found = _member_of(kind, name) if kind.__module__.startswith(ROOMS) else None
    if not isinstance(found, FunctionType) or name.startswith("__"):
        raise InputError(f"a record names {kind.__qualname__}.{name}, which is no method")
    return MethodType(found, thing)


def make_partial(method: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """A method with some of its arguments."""
    if not isinstance(method, MethodType):
        raise InputError("a record takes something else for a method")
    return partial(method, *arguments, **named)


def make_array(dtype: str, shape: tuple[int, ...], data: bytes) -> Any:
    """An array."""
    return np.frombuffer(data, dtype=_dtype_of(dtype)).reshape(shape).copy()


def make_view(whole: Any, dtype: str, begin: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """A part of an array, which changes with it."""
    if not isinstance(whole, np.ndarray):
        raise InputError("a record takes something else for an array")
    return np.ndarray(shape, _dtype_of(dtype), whole, begin, strides)


def make_number(dtype: str, data: bytes) -> Any:
    """A number as arrays have it."""
    return np.frombuffer(data, dtype=_dtype_of(dtype))[0]


def make_numbers(code: str, data: bytes) -> Any:
    """A compact list of numbers."""
    found = array(code)
    found.frombytes(data)
    return found


def make_bytes(data: bytes) -> Any:
    """Bytes that can be changed."""
    return bytearray(data)


def make_counter(counts: dict[Any, int]) -> Any:
    """Counts of things."""
    return Counter(counts)


def make_ordered(items: list[tuple[Any, Any]]) -> Any:
    """A table whose order is changed."""
    return OrderedDict(items)


def make_defaulting(kind: str, items: dict[Any, Any]) -> Any:
    """A table with something for what is not in it."""
    return defaultdict({"list": list, "set": set, "dict": dict, "int": int}[kind], items)


def make_queue(items: list[Any], most: int | None) -> Any:
    """A queue."""
    return deque(items, most)


def make_mapping(items: dict[Any, Any]) -> Any:
    """A table that cannot be changed."""
    return MappingProxyType(items) if items else NO_HEADERS


def make_raw(data: bytes) -> Any:
    """A part of a frame as it came."""
    return msgspec.Raw(data)


_MAKERS: tuple[Callable[..., Any], ...] = (
    *(make_object, make_tuple, make_struct, make_member, make_error, make_class, make_method, make_partial),
    *(make_array, make_view, make_number, make_numbers, make_bytes, make_counter, make_ordered),
    *(make_defaulting, make_queue, make_mapping, make_raw),
)
MAKERS: Mapping[str, Callable[..., Any]] = {make.__name__: make for make in _MAKERS}
WRITERS: Mapping[type[Any], Callable[[Any], Any]] = {
    np.ndarray: _write_array,
    array: lambda value: (make_numbers, (value.typecode, value.tobytes())),
    bytearray: lambda value: (make_bytes, (bytes(value),)),
    Counter: lambda value: (make_counter, (dict(value),)),
    OrderedDict: lambda value: (make_ordered, (list(value.items()),)),
    defaultdict: lambda value: (make_defaulting, (value.default_factory.__name__, dict(value))),
    deque: lambda value: (make_queue, (list(value), value.maxlen)),
    MappingProxyType: lambda value: (make_mapping, (dict(value),)),
    MethodType: _write_method,
    partial: lambda value: (make_partial, (value.func, value.args, value.keywords)),
    msgspec.Raw: lambda value: (make_raw, (bytes(value),)),
}
FAMILY_WRITERS: Mapping[type[Any], Callable[[Any], Any]] = {
    type: lambda value: (make_class, (name_of(value),)),
    tuple: _write_tuple,
    Enum: lambda value: (make_member, (name_of(type(value)), value.value)),
    np.generic: lambda value: (make_number, (value.dtype.str, value.tobytes())),
    msgspec.Struct: _write_struct,
    BaseException: lambda value: (make_error, (name_of(type(value)), value.args)),
}


@lru_cache(maxsize=1024)
def names_of(kind: Any) -> frozenset[str]:
    """The attributes that objects of a class may have: slots, fields, and what its methods name. No
    properties, and nothing of Python's own."""
    found = set(slots_of(kind))
    for one in kind.__mro__:
        if one.__module__.startswith(ROOMS):
            found.update(getattr(one, "__annotations__", ()))
            for member in one.__dict__.values():
                code = getattr(getattr(member, "fget", member), "__code__", None)
                if isinstance(code, CodeType):
                    found.update(code.co_names)
                    found.update(const for const in code.co_consts if isinstance(const, str))
    return frozenset(name for name in found if not name.startswith("__") and not _is_property(kind, name))


def _is_property(kind: type[Any], name: str) -> bool:
    return isinstance(_member_of(kind, name), property | FunctionType)


def _member_of(kind: type[Any], name: str) -> Any:
    """What a class has under a name, as it stands there."""
    return next((vars(one)[name] for one in kind.__mro__ if name in vars(one)), None)


def _dtype_of(text: str) -> np.dtype[Any]:
    found = np.dtype(text)
    if found.kind not in "biuf":
        raise InputError(f"a record has an array of {text[:20]!r}")
    return found


@lru_cache(maxsize=1024)
def _class_of(name: str) -> type[Any]:
    """A class of the pure rooms, by the module that defines it and its name there."""
    module, _, path = name.partition(":")
    if not module.startswith(ROOMS) or not all(part.isidentifier() for part in module.split(".")):
        raise InputError(f"a record names {name[:80]!r}, which is no class of a node's machine")
    try:
        found: Any = import_module(f"vinecast.{module.removeprefix('vinecast.')}")
    except ImportError:
        raise InputError(f"a record names {name[:80]!r}, which is not there") from None
    for part in path.split("."):
        found = vars(found).get(part) if not part.startswith("__") else None
        if not isinstance(found, type) or found.__module__ != module:
            raise InputError(f"a record names {name[:80]!r}, which is no class of a node's machine")
    kind: type[Any] = found
    return kind
