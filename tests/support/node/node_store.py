"""Stores of one node, opened, looked at and refused, in this process and in another."""

import asyncio
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from vinecast.core.errors import InputError
from vinecast.node.storage.store import Store, StoreConfig
from vinecast.node.storage.store_file import FILE_NAME

NODE, OTHER = bytes(32), bytes([1] * 32)
NEVER_ALONE = StoreConfig(commit_after_s=3600)
"""Commits only when asked to."""
SCRIPT = """
import asyncio, sys
from pathlib import Path
from vinecast.core.errors import InputError
from vinecast.peer.address import Address
from vinecast.node.storage.store import Store, StoreConfig

NODE = bytes(32)

def say(*words):
    print(*words, flush=True)

async def main(folder):
{body}

try:
    asyncio.run(main(Path(sys.argv[1])))
except InputError as error:
    say("InputError:", error)
"""


def other_process(folder: Path, body: str) -> "subprocess.Popen[str]":
    script = SCRIPT.format(body=textwrap.indent(textwrap.dedent(body), "    "))
    command = [sys.executable, "-W", "error", "-c", script, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def with_store(
    folder: Path, use: Callable[[Store], Awaitable[Any]], config: StoreConfig | None = None
) -> Any:
    async def main() -> Any:
        store = await Store.open(folder, NODE, config)
        try:
            return await use(store)
        finally:
            await store.close()

    return asyncio.run(main())


def remembered(store: Store) -> tuple[Any, ...]:
    return store.subscriptions(), store.peers(), store.sessions(), store.meta("k")


async def look(store: Store) -> tuple[Any, ...]:
    return remembered(store)


def refusal(folder: Path, node: bytes = NODE) -> str:
    """What opening the store says, having changed no byte of it."""
    file = folder / FILE_NAME
    before = file.read_bytes()
    with pytest.raises(InputError) as caught:
        asyncio.run(Store.open(folder, node))
    assert file.read_bytes() == before
    return str(caught.value)


def filled(folder: Path) -> Path:
    async def fill(store: Store) -> None:
        for i in range(300):
            store.add_subscription(f"topic/{i:050}")
            store.put_meta(f"{i:050}", b"value")

    with_store(folder, fill)
    return folder / FILE_NAME
