"""A process of the comparison: a member of whatever kind, ours or a rival's.

Started as ``python -m vinecast.lab.bench.rivals.process KIND SETTINGS``; what it is told and what it says are
those of ``lab/bench/member``. Each kind is imported only where it is asked for: it may not be installed, and
who needs no node of ours starts faster without.
"""

import json
import sys
from typing import Any

from vinecast.node.runtime.loop import run


async def _main(kind: str, settings: dict[str, Any]) -> None:
    match kind:
        case "nats":
            from vinecast.lab.bench.rivals.nats_member import nats_client as main
        case "zenoh":
            from vinecast.lab.bench.rivals.zenoh_member import zenoh_peer as main
        case "redis":
            from vinecast.lab.bench.rivals.redis_member import redis_client as main
        case "mosquitto":
            from vinecast.lab.bench.rivals.mosquitto_member import mosquitto_client as main
        case _:
            from vinecast.lab.bench.rivals.node_member import whole_node as main
    await main(settings)


if __name__ == "__main__":
    run(_main(sys.argv[1], json.loads(sys.argv[2])))
