"""Configuration: one frozen dataclass a layer, validated once, at the edge.

``read`` turns a mapping (a TOML table) into such a dataclass and is strict about it: an unknown key, a
wrong type or an impossible value is one sentence that names the key by its full path. Limits stand in the
field itself, next to its docstring:

    view_size: int = limited(20, at_least=1)
    \"\"\"Entries in the view.\"\"\"
"""

import dataclasses
import difflib
import json
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from vinecast.core.errors import InputError

T = TypeVar("T")


def limited(
    default: Any = dataclasses.MISSING,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    one_of: tuple[str, ...] | None = None,
) -> Any:
    """A dataclass field with limits that ``check`` and ``read`` enforce."""
    limits = {"at_least": at_least, "above": above, "at_most": at_most, "one_of": one_of}
    return dataclasses.field(default=default, metadata={k: v for k, v in limits.items() if v is not None})


def check(config: Any, where: str = "") -> None:
    """Raise InputError for the first field that is outside its limits. Call it in ``__post_init__``."""
    for field in dataclasses.fields(config):
        _check_limits(getattr(config, field.name), field.metadata, _path(where, field.name))


def _check_limits(value: Any, limits: Mapping[str, Any], path: str) -> None:
    if value is None:
        return
    if isinstance(value, tuple):
        for i, item in enumerate(value):
            _check_limits(item, limits, f"{path}[{i}]")
        return
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{path} must be a finite number, not {value}")
    if "at_least" in limits and value < limits["at_least"]:
        raise InputError(f"{path} must be at least {limits['at_least']}, not {value}")
    if "above" in limits and value <= limits["above"]:
        raise InputError(f"{path} must be greater than {limits['above']}, not {value}")
    if "at_most" in limits and value > limits["at_most"]:
        raise InputError(f"{path} must be at most {limits['at_most']}, not {value}")
    if "one_of" in limits and value not in limits["one_of"]:
        choices = ", ".join(f'"{choice}"' for choice in limits["one_of"])
        raise InputError(f"{path} must be one of {choices}, not {_quoted(str(value))}")


def read(cls: type[T], table: object, where: str = "") -> T:
    """Build a configuration dataclass from a mapping, or say in one sentence why that cannot be done."""
    if not isinstance(table, Mapping):
        raise InputError(f"{where or 'the configuration'} must be a table, not {_name_of(table)}")
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(typing.cast(Any, cls))}
    values: dict[str, Any] = {}
    for key, value in table.items():
        path = _path(where, str(key))
        if key not in fields:
            raise unknown_key(str(key), list(fields), where)
        values[key] = _convert(hints[key], value, path)
        _check_limits(values[key], fields[key].metadata, path)
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in values:
            raise InputError(f"{_path(where, name)} is missing")
    try:
        return cls(**values)
    except InputError as error:
        raise InputError(f"{where}: {error}" if where else str(error)) from None


def _convert(hint: Any, value: object, path: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if type(value) in arguments:
            return value
        return _convert(next(a for a in arguments if a is not type(None)), value, path)
    if dataclasses.is_dataclass(hint):
        return read(typing.cast(type, hint), value, path)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise InputError(f"{path} must be a list, not {_name_of(value)}")
        return tuple(_convert(arguments[0], item, f"{path}[{i}]") for i, item in enumerate(value))
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise InputError(f"{path} is too large a number") from None
    if type(value) is not hint:
        raise InputError(f"{path} must be {_wanted(hint)}, not {_name_of(value)}")
    return value


def unknown_key(key: str, known: list[str], where: str = "") -> InputError:
    """What to say of a key that nobody knows."""
    close = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}"
    return InputError(f"unknown key {_path(where, key)} ({hint})")


def _path(where: str, key: str) -> str:
    key = key if key.isprintable() else _quoted(key)
    return f"{where}.{key}" if where else key


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _wanted(hint: type) -> str:
    return {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}[hint]


def _name_of(value: object) -> str:
    names = {bool: "a boolean", int: "a whole number", float: "a fraction", str: "a string"}
    if isinstance(value, Mapping):
        return "a table"
    return names.get(type(value), "a list" if isinstance(value, list | tuple) else type(value).__name__)


def as_table(config: Any) -> dict[str, Any]:
    """The resolved configuration as plain tables, with what is unset left out."""
    table: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if value is None:
            continue
        if dataclasses.is_dataclass(value):
            value = as_table(value)
        elif isinstance(value, tuple):
            value = [as_table(item) if dataclasses.is_dataclass(item) else item for item in value]
        table[field.name] = value
    return table
