"""Pure rooms read no clock, disk, socket or entropy: ``now`` and the draws are handed in.

import-linter sees what a module imports at its top. This finds the rest: imports inside functions or by name,
and what an innocent module offers (a clock of ``datetime``, the generator of NumPy, a key made at random).
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import vinecast

PACKAGE = Path(vinecast.__file__).parent
ROOMS = ("core", "protocols", "systems", "peer")
PURE = {
    *("abc", "array", "base64", "binascii", "bisect", "collections", "contextlib", "dataclasses", "difflib"),
    *(
        "enum",
        "functools",
        "hashlib",
        "heapq",
        "importlib",
        "ipaddress",
        "itertools",
        "json",
        "math",
        "operator",
        "re",
    ),
    *("io", "pickle", "pickletools", "re", "string", "struct", "types", "typing", "zlib"),
    *("cryptography", "msgspec", "nacl", "numpy", "vinecast"),
}
"""What pure rooms import: nothing in it that is used reads anything of the world."""
EXCEPTIONS = {
    "core/rule.py": {
        "contextlib",
        "numba",
        "os",
        "pathlib",
        "shutil",
    },  # compiled code and its cache, at import
    "core/trace.py": {"pyarrow"},  # tables of records, for whoever has it
    "core/content/schemas.py": {"datetime"},  # dates as values
    # Which thing is which: nothing that comes out depends on the numbers themselves.
    "peer/record/skeleton.py": {"id"},
    "peer/record/snapshot.py": {"id"},
    "peer/record/strict_reader.py": {"id"},
}
CLOCKS = {"monotonic", "monotonic_ns", "now", "perf_counter", "time_ns", "today", "utcnow"}
ENTROPY = {
    *("RandomState", "SystemRandom", "crypto_box_keypair", "crypto_sign_keypair", "generate", "getrandbits"),
    *("randombytes", "token_bytes", "token_hex", "urandom", "uuid1", "uuid4"),
}
BUILTINS = {
    "hash": "hash() of a string differs from process to process: use core.draws or hashlib",
    "id": "id() differs from run to run: give the thing a number",
    "input": "input() waits for a person: hand the answer in",
    "open": "open() touches the disk: hand the content in, and let node or sim read the file",
    "print": "print() writes to the terminal: return what there is to say",
    "__import__": "__import__() hides what is imported from the contracts: import it at the top",
}


def findings(source: str, allowed: frozenset[str] | set[str] = frozenset()) -> Iterator[str]:
    """What in a module reads the world: the line, and a sentence that says what to do."""
    for node in ast.walk(ast.parse(source)):
        for said in _of(node, allowed):
            yield f"line {getattr(node, 'lineno', 0)}: {said}"


def _of(node: ast.AST, allowed: frozenset[str] | set[str]) -> Iterator[str]:
    match node:
        case ast.Import(names):
            for name in names:
                yield from _imported(name.name, allowed)
        case ast.ImportFrom(module=str(module), names=names, level=0):
            for name in names:
                yield from _imported(f"{module}.{name.name}", allowed)
        case ast.Call(ast.Name(name)) if name in BUILTINS and name not in allowed:
            yield BUILTINS[name]
        case ast.Call(ast.Name("import_module") | ast.Attribute(attr="import_module"), [what, *_]):
            if not _is_ours(what):
                yield "import_module() may name modules of vinecast and nothing else"
        case ast.Call(ast.Name("default_rng") | ast.Attribute(attr="default_rng"), [], []):
            yield "default_rng() without a seed reads entropy: draw with core.draws"
        case ast.Call(ast.Attribute(attr="datetime64"), [ast.Constant("now" | "today"), *_]):
            yield "datetime64('now') reads the clock: take now as a parameter"
        case ast.keyword("key", ast.Name("hash" | "id" as name)):
            yield BUILTINS[name]
        case ast.Attribute(ast.Name("np" | "numpy"), "random") | ast.Attribute(
            ast.Attribute(attr="utils"), "random"
        ):
            yield "this generator reads entropy or keeps a state of its own: draw with core.draws"
        case ast.Call(ast.Attribute(attr=attr) | ast.Name(attr)) if attr in CLOCKS:
            yield f"{attr}() reads the clock: take now as a parameter"
        case ast.Attribute(attr=attr) | ast.Name(attr) if attr in ENTROPY:
            yield f"{attr} reads entropy: let node make it and hand it in, or draw with core.draws"


def _imported(name: str, allowed: frozenset[str] | set[str]) -> Iterator[str]:
    top, _, rest = name.partition(".")
    if top not in PURE | allowed:
        yield (
            f"{top} is not for pure rooms: hand in what it gives; or, if it reads nothing of the world, "
            "add it to PURE in tests/test_purity.py"
        )
    if name.startswith(("numpy.random", "nacl.utils.random")) or rest.rpartition(".")[2] in ENTROPY:
        yield f"{name} reads entropy: let node make it and hand it in, or draw with core.draws"


def _is_ours(what: ast.expr) -> bool:
    match what:
        case ast.Constant(str(name)) | ast.JoinedStr([ast.Constant(str(name)), *_]):
            return name.startswith("vinecast.")
    return False


@pytest.mark.parametrize("room", ROOMS)
def test_pure_rooms_read_nothing_of_the_world(room: str) -> None:
    found = []
    for file in sorted((PACKAGE / room).rglob("*.py")):
        name = file.relative_to(PACKAGE).as_posix()
        found += [
            f"{name}, {said}" for said in findings(file.read_text("utf-8"), EXCEPTIONS.get(name, frozenset()))
        ]
    assert not found, "\n" + "\n".join(found)


NODE_SOURCES = {"node/runtime/clock.py", "node/runtime/capabilities.py", "node/storage/identity_file.py"}
"""The modules of a live node that read a clock or entropy: for the peer, for transports, and to make keys."""


def test_only_the_sources_of_a_node_read_clocks_and_entropy() -> None:
    found = []
    for file in sorted((PACKAGE / "node").rglob("*.py")):
        name = file.relative_to(PACKAGE).as_posix()
        for node in ast.walk(ast.parse(file.read_text("utf-8"))) if name not in NODE_SOURCES else ():
            imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                imported.append(node.module)
            called = (
                node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
            )
            if isinstance(node, ast.stmt | ast.expr) and (
                {"random", "secrets", "time", "uuid"}.intersection(imported) or called in CLOCKS | ENTROPY
            ):
                found.append(f"{name}, line {node.lineno}: have the runtime hand it in")
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        "import time",
        "from os import path",
        "def f():\n    import random",
        "__import__('time')",
        "import_module('time')",
        "importlib.import_module(name)",
        "np.random.random()",
        "from numpy.random import Generator",
        "np.random.default_rng()",
        "default_rng()",
        "np.datetime64('now')",
        "datetime.now(UTC)",
        "date.today()",
        "uuid.uuid4()",
        "Ed25519PrivateKey.generate()",
        "from nacl.bindings import randombytes",
        "from nacl.utils import random",
        "nacl.utils.random(32)",
        "crypto_sign_keypair()",
        "hash('topic')",
        "sorted(peers, key=id)",
        "open('file')",
    ],
)
def test_what_is_found(line: str) -> None:
    assert list(findings(line))


@pytest.mark.parametrize(
    "line",
    [
        "import numpy as np",
        "from vinecast.core.draws import draw",
        "now_us + 1",
        "Identity(seed)",
        "hashlib.sha256(b'')",
        "import_module('vinecast.core')",
        "self.host.now_us()",
        "crypto_sign_seed_keypair(seed)",
    ],
)
def test_what_is_not(line: str) -> None:
    assert not list(findings(line))
