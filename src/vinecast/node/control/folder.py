"""Where a node keeps what is its own, and the socket in there over which its owner speaks to it.

Light on purpose: the command line imports it before it knows what it will need.
"""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from vinecast.core.errors import InputError

CONTROL = "control.sock"
_PATH_BYTES_MAX = 100
"""The name of a Unix socket is this short on every system."""


def default_folder() -> Path:
    """The folder of this user's node, when none is named."""
    base = os.environ.get("XDG_DATA_HOME")
    try:
        return (Path(base) if base else Path.home() / ".local" / "share") / "vinecast" / "node"
    except RuntimeError:
        raise InputError("you have no home folder: name the node's folder with --folder") from None


@contextlib.contextmanager
def _socket_name(folder: Path) -> Iterator[str]:
    """A name for the folder's control socket that is short enough."""
    name = str(folder / CONTROL)
    if len(os.fsencode(name)) <= _PATH_BYTES_MAX:
        yield name
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{CONTROL}"
    finally:
        os.close(descriptor)


def listen_in(folder: Path) -> socket.socket:
    """The folder's control socket, listening, for its owner only. Whoever calls holds the folder's lock, so
    that a socket that lies there is a dead node's."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(FileNotFoundError):
            (folder / CONTROL).unlink()
        with _socket_name(folder) as name:
            listener.bind(name)
        (folder / CONTROL).chmod(0o600)
        listener.listen(16)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise InputError(f"cannot make a control socket in {folder}: {error.strerror or error}") from None
    return listener


def connect_to(folder: Path, patience_s: float) -> socket.socket:
    """A connection to the node that runs in a folder, or an InputError that says what to do."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(patience_s)
    try:
        with _socket_name(folder) as name:
            connection.connect(name)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        connection.close()
        raise InputError(
            f"no node is running in {folder}: start one with 'vinecast node', "
            "name its folder with --folder, or join a network with --join HOST:PORT"
        ) from None
    except OSError as error:  # a timeout is one too
        connection.close()
        raise InputError(
            f"cannot speak to the node in {folder}: {error.strerror or 'it does not answer'}"
        ) from None
    return connection
