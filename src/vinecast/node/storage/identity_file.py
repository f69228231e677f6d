"""A node's identity on disk: in the node's folder, where only its owner can read it.

The key file is a plain PKCS#8 PEM file. It is written once, atomically, and never again: a file that is
damaged or that others can read is an error, not a reason to make a new identity.
"""

import contextlib
import os
import secrets
import stat
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from vinecast.core.errors import InputError
from vinecast.peer.identity import Identity

KEY_FILE = "identity.key"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make_identity() -> Identity:
    """A fresh identity that is forgotten at exit."""
    return Identity(secrets.token_bytes(32))


def load_or_make_identity(folder: Path) -> Identity:
    """The identity that lives in the folder, made on first use."""
    folder = Path(folder)
    try:
        _prepare(folder)
        path = folder / KEY_FILE
        if not path.exists():
            _write_once(path, _as_pem(secrets.token_bytes(32)))
        return Identity(_read(path))
    except OSError as error:
        raise InputError(f"cannot use the folder {folder}: {error.strerror or error}") from None


def _prepare(folder: Path) -> None:
    """Make the folder, or make sure that nobody else can enter it. An empty one is ours to close."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder")
    mode = stat.S_IMODE(folder.stat().st_mode)
    if not mode & _OTHERS:
        return
    if any(folder.iterdir()):
        raise InputError(
            f"others can enter the folder {folder} (mode {mode:o}): chmod 700 it, or use another"
        )
    folder.chmod(0o700)


def _read(path: Path) -> bytes:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & _OTHERS:
        raise InputError(
            f"others can read the key {path} (mode {mode:o}): chmod 600 it if it is still secret"
        )
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise InputError(
            f"the key {path} is damaged: restore it, or move it away for a new identity"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"the key {path} is not an Ed25519 key")
    return key.private_bytes_raw()


def _as_pem(seed: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(seed).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write_once(path: Path, data: bytes) -> None:
    """Write a file that others cannot read: all of it or nothing, and never over one that is there."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):  # another process was first: its key counts
            os.link(draft, path)
    finally:
        draft.unlink()
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
