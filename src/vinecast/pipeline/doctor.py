"""What the pipeline would use on this machine, and what is missing."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from vinecast.core.errors import InputError
from vinecast.pipeline.java import find_java
from vinecast.pipeline.session import SessionConfig, check_reachable, cores, machine_memory

_GIB = 1 << 30
_PACKAGES = ("pyspark", "pyarrow", "pandas", "numba")
_CONNECT_PACKAGES = ("grpcio", "grpcio-status", "googleapis-common-protos", "zstandard")
_FREE_BYTES_MIN = _GIB  # ours: a stage's temporary files need about as much as its output


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    what: str
    found: str
    ok: bool


def examine(config: SessionConfig, lake: Path) -> list[Finding]:
    """Look at everything; starts no Spark and writes nothing."""
    more = _CONNECT_PACKAGES if config.remote is not None else ()
    checks: list[Callable[[], list[Finding]]] = [
        lambda: [_java(config)],
        lambda: [_package(name, "spark") for name in _PACKAGES],
        lambda: [_package(name, "connect") for name in more],
        lambda: [_master(config), _memory(config)],
        lambda: [_lake(lake), _disk(lake)],
    ]
    return [finding for check in checks for finding in check()]


def _java(config: SessionConfig) -> Finding:
    if config.remote is not None:
        return Finding("Java", "not needed here: the Spark Connect server has its own", True)
    try:
        java = find_java()
    except InputError as error:
        return Finding("Java", str(error), False)
    return Finding("Java", f"{java.version} from {java.origin} ({java.command})", True)


def _package(name: str, extra: str) -> Finding:
    try:
        return Finding(name, version(name), True)
    except PackageNotFoundError:
        return Finding(name, f"missing: pip install 'vinecast[{extra}]'", False)


def _master(config: SessionConfig) -> Finding:
    try:
        check_reachable(config)
    except InputError as error:
        return Finding("master", str(error), False)
    where = f"{config.address}, {cores()} cores here" if config.is_local else config.address
    other = f"; SPARK_HOME is {os.environ['SPARK_HOME']}" if os.environ.get("SPARK_HOME") else ""
    return Finding("master", where + other, True)


def _memory(config: SessionConfig) -> Finding:
    heap = config.heap or "Spark's default"
    return Finding("memory", f"heap {heap}; the machine has {machine_memory() / _GIB:.1f} GiB", True)


def _lake(lake: Path) -> Finding:
    nearest = _nearest_folder(lake)
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        return Finding("lake", f"{lake} cannot be written", False)
    return Finding("lake", str(lake) if nearest == lake.absolute() else f"{lake} (will be made)", True)


def _disk(lake: Path) -> Finding:
    free = shutil.disk_usage(_nearest_folder(lake)).free
    return Finding("free disk", f"{free / _GIB:.1f} GiB", free >= _FREE_BYTES_MIN)


def _nearest_folder(path: Path) -> Path:
    """The path itself, or the nearest parent that exists."""
    path = path.absolute()
    return next(place for place in (path, *path.parents) if place.exists())
