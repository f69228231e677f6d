"""The servers of rivals: each is started on this machine, with a folder of its own, and ended after its turn.

What is not installed is said in a sentence. nats-server comes with the extra ``bench``; redis-server and
mosquitto come from the system.
"""

import asyncio
import contextlib
import json
import os
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from vinecast.lab.bench.team import AbsentError

SERVER_S, LOOK_S = 10.0, 0.02  # ours: until it answers, between two looks
SYSTEM_FOLDERS = ("/usr/sbin", "/usr/local/sbin")  # where systems put servers; not on everybody's PATH


def program(name: str, product: str, extra: str = "") -> str:
    """Where a server's program is; AbsentError if it is not installed."""
    beside = Path(sys.executable).with_name(name)
    path = os.pathsep.join((os.environ.get("PATH", ""), *SYSTEM_FOLDERS))
    found = str(beside) if beside.is_file() else shutil.which(name, path=path)
    if found is None:
        brings = f" (extra '{extra}')" if extra else ""
        raise AbsentError(f"{product} is not installed: there is no program {name}{brings}")
    return found


@contextlib.asynccontextmanager
async def nats_server(folder: Path, durable: bool) -> AsyncIterator[tuple[str, int]]:
    """A nats-server as it comes, with JetStream in the folder if durable: its address and its process."""
    command = [program("nats-server", "nats-server", "bench"), "--addr", "127.0.0.1", "--port", "-1"]
    command += ["--ports_file_dir", str(folder)]
    command += ["--jetstream", "--store_dir", str(folder / "jetstream")] if durable else []

    def address() -> str:
        """It writes into a file where it listens."""
        for path in folder.glob("*.ports"):
            with contextlib.suppress(ValueError, LookupError):  # half written
                return str(json.loads(path.read_text())["nats"][0])
        return ""

    async with _server(command, "nats-server", address) as server:
        yield server


@contextlib.asynccontextmanager
async def redis_server(folder: Path, durable: bool) -> AsyncIterator[tuple[str, int]]:
    """A redis-server that appends to a file, which it syncs every second: its port and its process."""
    port = _free_port()
    command = [program("redis-server", "Redis"), "--bind", "127.0.0.1", "--port", str(port)]
    command += ["--dir", str(folder), "--appendonly", "yes"]
    async with _server(command, "redis-server", lambda: _answers(port)) as server:
        yield server


@contextlib.asynccontextmanager
async def mosquitto(folder: Path, durable: bool) -> AsyncIterator[tuple[str, int]]:
    """A mosquitto as it comes: its port and its process."""
    port = _free_port()
    command = [program("mosquitto", "Mosquitto"), "-p", str(port)]
    async with _server(command, "mosquitto", lambda: _answers(port)) as server:
        yield server


@contextlib.asynccontextmanager
async def _server(
    command: Sequence[str], name: str, address: Callable[[], str]
) -> AsyncIterator[tuple[str, int]]:
    """Start it, wait until it has an address, and end it."""
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, stdin=quiet, stdout=quiet, stderr=quiet)
    try:
        until = asyncio.get_running_loop().time() + SERVER_S
        while not (found := address()):
            if asyncio.get_running_loop().time() > until or process.returncode is not None:
                raise AbsentError(f"{name} did not start")
            await asyncio.sleep(LOOK_S)
        yield found, process.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as place:
        return int(place.getsockname()[1])


def _answers(port: int) -> str:
    """The port, as soon as somebody listens there."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=SERVER_S).close()
    except OSError:
        return ""
    return str(port)
