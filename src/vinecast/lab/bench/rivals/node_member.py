"""A node of ours as it ships: signatures, TLS, its folder, the default settings."""

import asyncio
from typing import Any

from vinecast.lab.bench.member import read_line, say, serve
from vinecast.lab.bench.rivals.publications import RivalTally, publish_run
from vinecast.lab.bench.vinecast_member import VinecastMember
from vinecast.node.api.node import Node
from vinecast.node.runtime.config import NodeConfig


async def whole_node(settings: dict[str, Any]) -> None:
    """What the process does. A period other than 0 is a test's, which does not want to wait for gossip."""
    tally = RivalTally()
    faster = {"period_s": settings["period_s"]} if settings["period_s"] else {}
    async with Node(folder=settings["folder"], config=NodeConfig(**faster)) as node:
        member = VinecastMember(node, tally, settings["reads"], settings["durable"])
        say({"is": "up", "address": node.address})
        await serve(member, tally, read_line, asyncio.sleep, publish_run)
