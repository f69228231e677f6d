"""``@rule``: a decision, written once, over one node's own small arrays.

A machine calls a rule on its own row, a sweep calls the same rule on every row. With Numba installed a rule
is compiled (no GIL, no fast-math, so that results are the same bits everywhere); without it the very same
function runs as plain Python. ``VINECAST_COMPILE=0`` in the environment switches compilation off.

Rules are written in the part of Python that both understand:

- every 64-bit word that comes in goes through ``word(...)`` (Numba mixes signed and unsigned in its own ways)
  and results are cut with ``& WORD_MASK``: exact integers in plain Python, machine words
  (where the mask costs nothing) when compiled;
- a value read from an array is passed through ``int(...)`` before arithmetic, so that NumPy's narrow
  scalars never overflow;
- results leave through output arrays or small tuples; nothing is allocated. A rule that does allocate counts
  references (``_compile``), and must not call rules that return arrays, which do not.

Numba caches compiled code on disk by the file that *defines* a function and does not notice an edit in a
file that this function calls. The cache folder therefore carries a digest of the sources of all modules that
have rules, and of whatever they import, and so on: a changed source means a new folder, never stale code.
"""

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

ROOMS = ("core", "pipeline", "protocols", "sim", "systems")
"""The rooms that have rules, or constants that become part of compiled ones."""

_RULE = re.compile(r"\n@(?:rule|inner_rule|rule_on_words)\n")
_IMPORTS = re.compile(
    r"^[ \t]*(?:from (vinecast[\w.]*) import (\([^)]*\)|.*)|import (vinecast[\w.]*))", re.MULTILINE
)

CACHE_GENERATIONS_KEPT = 4  # ours: enough for a few checkouts side by side


def _load_numba() -> Any:
    if os.environ.get("VINECAST_COMPILE", "1") == "0":
        return None
    try:
        import numba
    except ImportError:
        return None
    return None if getattr(numba.config, "DISABLE_JIT", 0) else numba


def rule_sources(package: Path) -> dict[str, str]:
    """The sources of modules that have rules, and of all that they import: what compiled code is made of. By
    the modules' names, in order."""
    names = {
        ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for room in ROOMS
        for path in (package / room).rglob("*.py")
    }
    texts = {name: path.read_text() for name, path in names.items()}
    found = {name for name, text in texts.items() if "@" in text and _RULE.search(text)}
    open_ones = list(found)
    while open_ones:
        for module, members, plain in _IMPORTS.findall(texts[open_ones.pop()]):
            at = module or plain
            for name in (at, *(f"{at}.{member}" for member in re.findall(r"\w+", members))):
                if name in texts and name not in found:
                    found.add(name)
                    open_ones.append(name)
    return {name: texts[name] for name in sorted(found)}


def _sources_digest() -> str:
    digest = hashlib.sha256(np.__version__.encode())
    for name, text in rule_sources(Path(__file__).parent.parent).items():
        digest.update(f"{name} {len(text)} {text}".encode())
    return digest.hexdigest()[:16]


def _prepare_cache() -> bool:
    """Point Numba at a cache folder for exactly these sources; False when no folder can be written."""
    try:
        base = cache_base()
        folder = base / f"rules-{_sources_digest()}"
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
    except (OSError, RuntimeError):  # RuntimeError: a user without a home
        return False
    if not os.access(folder, os.W_OK):
        return False
    generations = sorted(base.glob("rules-*"), key=_age_of)
    for old in generations[:-CACHE_GENERATIONS_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    _numba.config.CACHE_DIR = str(folder)
    return True


def cache_base() -> Path:
    """Where this user's caches lie; RuntimeError for a user without a home."""
    if named := os.environ.get("VINECAST_CACHE_DIR"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vinecast"


def cache_folder() -> Path | None:
    """Where the compiled code of exactly these sources is kept; None where nothing is compiled or kept."""
    return Path(_numba.config.CACHE_DIR) if _cached else None


def _age_of(folder: Path) -> float:
    with contextlib.suppress(OSError):
        return folder.stat().st_mtime
    return 0.0


_numba = _load_numba()

COMPILED: bool = _numba is not None
"""Whether rules are compiled in this process."""

_cached: bool = COMPILED and _prepare_cache()

word: Callable[[int], int] = np.uint64 if COMPILED else int  # type: ignore[assignment]
"""Makes a 64-bit word: a machine word in compiled rules, an exact integer in plain ones."""

WORD_MASK: int = word(0xFFFF_FFFF_FFFF_FFFF)
"""Cuts a result back to 64 bits."""


def rule(function: F) -> F:
    """Compile ``function`` where Numba is installed, else leave it as it is."""
    if _numba is None:
        return function
    return _compile(function, None)


def inner_rule(function: F) -> F:
    """A rule that becomes part of those that call it.

    For what is called millions of times on many arrays: handing over an array costs as much as ten draws.
    """
    if _numba is None:
        return function
    return _compile(function, None, inline=True)


def rule_from(template: F, name: str, **parts: Any) -> F:
    """A rule made of a template: a function that calls others by the names of ``parts``, as globals.

    Compiled for each set of parts apart, so that calls of them cost nothing. Not a closure, because Numba
    never finds closures over rules again on disk; ``name`` tells the rules of one template apart there.
    """
    made = FunctionType(template.__code__, {**template.__globals__, **parts}, template.__name__)
    made.__qualname__ = f"{template.__qualname__}.{name}"
    return rule(cast(F, made))


def _compile(function: F, signatures: Any, inline: bool = False) -> F:
    cached = _cached and Path(function.__code__.co_filename).is_file()  # not what is typed at a prompt
    # Counting references to arrays is atomic, and threads that count the same array's wait for each other;
    # only what makes arrays has to count. Nothing but NumPy's functions and these methods does.
    counted = not {"np", "sort", "copy"}.isdisjoint(function.__code__.co_names)
    options = {"nogil": True, "cache": cached, "error_model": "numpy", "forceinline": inline, "_nrt": counted}
    compiled: F = _numba.njit(signatures, **options)(function)
    return compiled


def rule_on_words(function: F) -> F:
    """A rule all of whose arguments are 64-bit words, compiled for exactly that.

    Numba types a Python integer by the first one it meets, so that an inferred rule would refuse a word
    above 2⁶³ after a smaller one. Small functions on words are called from plain Python too; this makes
    them take any word at any time.
    """
    if _numba is None:
        return function
    arity = function.__code__.co_argcount
    return _compile(function, [(_numba.types.uint64,) * arity])
