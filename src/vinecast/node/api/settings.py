"""What a node is started with: a file, then the environment, then the command line; the later wins.

    vinecast.toml                               environment                          command line
    listen = "0.0.0.0:7000"                     VINECAST_NODE_LISTEN=…               --listen …
    join = ["a.example:7000"]                   VINECAST_NODE_JOIN=a:7000,b:7000     --join …
    period_s = 0.5                              VINECAST_NODE_PERIOD_S=0.5           --set period_s=0.5
    [transport]
    idle_s = 60                                 VINECAST_NODE_TRANSPORT_IDLE_S=60    --set transport.idle_s=60

The keys are those of ``Settings`` and of ``NodeConfig``, side by side. ``to_toml`` writes them all, so that
what a node runs with can be printed, kept and given back.
"""

import dataclasses
import json
import logging
import os
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vinecast.core.config import as_table, read, unknown_key
from vinecast.core.errors import InputError
from vinecast.node.control.folder import default_folder
from vinecast.node.runtime.config import NodeConfig
from vinecast.peer.address import Address
from vinecast.peer.topics import Pattern

log = logging.getLogger("vinecast.node")

PREFIX = "VINECAST_NODE_"
FILE_VARIABLE = f"{PREFIX}CONFIG"
_FILE_BYTES_MAX = 1 << 20  # ours: nobody writes a longer configuration by hand

Table = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Settings:
    """Where a node is and what it begins with; ``config`` says how it works."""

    listen: str = "127.0.0.1:0"
    """Where it listens; port 0 is any that is free."""
    advertise: str | None = None
    """Where others reach it, if that is somewhere else."""
    join: tuple[str, ...] = ()
    """Nodes of the network to begin with."""
    folder: str = ""
    """Where identity, subscriptions and peers are kept."""
    network: str = "default"
    """Only nodes of the same network talk to each other."""
    subscribe: tuple[str, ...] = ()
    """Topics and patterns that it subscribes to from the start."""
    config: NodeConfig = field(default_factory=NodeConfig)

    def __post_init__(self) -> None:
        for address in (self.listen, *self.join, *([self.advertise] if self.advertise else [])):
            Address.parse(address)
        for topic in self.subscribe:
            Pattern.parse(topic)


RENAMED: Mapping[str, str] = {"keepers": "replicas"}
"""Settings of the version before → what they are called now. They work, with a warning, for this version."""

_OWN = tuple(f.name for f in dataclasses.fields(Settings) if f.name != "config")
_CONFIG = tuple(f.name for f in dataclasses.fields(NodeConfig))
_TABLES: Mapping[str, Any] = {
    name: hint for name, hint in typing.get_type_hints(NodeConfig).items() if dataclasses.is_dataclass(hint)
}


def resolve(
    file: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    options: Mapping[str, Any] | None = None,
    settings: Sequence[tuple[str, Any]] = (),
) -> Settings:
    """The settings of file, environment and command line: named options, then ``--set`` pairs."""
    if file is None and environment.get(FILE_VARIABLE):
        file = Path(environment[FILE_VARIABLE])
    table: Table = {}
    if file is not None:
        given = sorted(_from_file(file).items(), key=lambda pair: pair[0] not in RENAMED)  # a new name wins
        table = {today(key, str(file)): value for key, value in given}
        _build(table, str(file))  # after each source, so that the one at fault is named
    for name, text in sorted(environment.items()):
        if name.startswith(PREFIX) and name != FILE_VARIABLE:
            path = _path_of(name)
            path = (today(path[0], name), *path[1:])
            _put(table, path, _value_of(path, text), name)
    _build(table, "the environment")
    for key, value in (options or {}).items():
        if value is not None:
            table[key] = value
    _build(table)
    for key, value in settings:
        first, *rest = key.split(".")
        _put(table, (today(first, "--set"), *rest), value, "--set")
    if "folder" not in table:
        table["folder"] = str(default_folder())
    return _build(table, "--set" if settings else "")


def to_toml(settings: Settings) -> str:
    """The settings as a file that gives exactly them."""
    table = as_table(settings)
    table |= table.pop("config")
    plain = [f"{key} = {_literal(value)}" for key, value in table.items() if not isinstance(value, dict)]
    for name, inner in table.items():
        if isinstance(inner, dict):
            plain += ["", f"[{name}]", *(f"{key} = {_literal(value)}" for key, value in inner.items())]
    return "\n".join(plain) + "\n"


def _build(table: Table, where: str = "") -> Settings:
    for key in table:
        if key not in _OWN and key not in _CONFIG:
            error = unknown_key(key, [*_OWN, *_CONFIG])
            raise InputError(f"{where}: {error}" if where else str(error))
    own = {key: value for key, value in table.items() if key in _OWN}
    try:
        rest = read(NodeConfig, {key: value for key, value in table.items() if key in _CONFIG})
        return dataclasses.replace(read(Settings, own), config=rest)
    except InputError as error:
        raise InputError(f"{where}: {error}" if where else str(error)) from None


def _from_file(file: Path) -> Table:
    try:
        with file.open("rb") as stream:
            data = stream.read(_FILE_BYTES_MAX + 1)
        if len(data) > _FILE_BYTES_MAX:
            raise InputError(f"{file}: too long for a configuration")
        return tomllib.loads(data.decode())
    except FileNotFoundError:
        raise InputError(f"{file}: no such file") from None
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError(f"{file}: not UTF-8 text") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: not valid TOML: {error}") from None


def today(name: str, where: str) -> str:
    """What a setting is called now; whoever wrote an old name is told."""
    if name not in RENAMED:
        return name
    new = RENAMED[name]
    log.warning(
        "%s: the setting %s is called %s now; the old name goes with the next version", where, name, new
    )
    return new


def _path_of(variable: str) -> tuple[str, ...]:
    """VINECAST_NODE_TRANSPORT_IDLE_S -> transport, idle_s."""
    name = variable.removeprefix(PREFIX).lower()
    for table in _TABLES:
        if name.startswith(f"{table}_"):
            return table, name.removeprefix(f"{table}_")
    return (name,)


def _value_of(path: tuple[str, ...], text: str) -> Any:
    """The value of a variable: for a list, what stands between commas; else as in TOML, or the plain text."""
    cls: type[Any] = NodeConfig
    if len(path) == 2:
        cls = _TABLES[path[0]]
    elif path[0] in _OWN:
        cls = Settings
    hint = typing.get_type_hints(cls).get(path[-1])
    if typing.get_origin(hint) is types.UnionType:  # with None, for what need not be set
        hint = typing.get_args(hint)[0]
    if typing.get_origin(hint) is tuple:
        return [part.strip() for part in text.split(",") if part.strip()]
    if hint in (int, float, bool):
        try:
            return tomllib.loads(f"value = {text}")["value"]
        except (ValueError, RecursionError):
            return text
    return text


def _put(table: Table, path: tuple[str, ...], value: Any, where: str) -> None:
    """Set a value in a table of tables; what is set there must be known at once, so that it can be named."""
    inside = path[0] in _TABLES and len(path) == 2
    known = [f.name for f in dataclasses.fields(_TABLES[path[0]])] if inside else [*_OWN, *_CONFIG]
    key, name = (path[1], path[0]) if inside else (".".join(path), "")
    if key not in known:
        raise InputError(f"{where}: {unknown_key(key, known, name)}")
    if not inside:
        table[path[0]] = value
    else:
        table[path[0]] = {**table.get(path[0], {}), path[1]: value}


def _literal(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else repr(value)
