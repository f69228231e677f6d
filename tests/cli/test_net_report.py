"""What ``vinecast net`` says in the end."""

from collections import defaultdict
from typing import Any

import pytest

from vinecast.cli.net_report import conclusion


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        (0, "Replayed: nothing, since the network ended before any node was recorded."),
        (2, "Replayed: of 1 of 2 nodes the same comes out, bit for bit (7 inputs in 2 runs)."),
    ],
)
def test_what_became_of_records(nodes: int, said: str) -> None:
    replayed = {"nodes": nodes, "same": 1, "runs": 2, "inputs": 7, "cut_off": 0, "unrecorded": 2 - nodes}
    summary: dict[str, Any] = {
        "nodes": 2,
        "up": 0,
        "system": "poldercast",
        "events": 0,
        "cpu_s": 0.0,
        "trouble": [],
        "resident_mb_per_node": 0.0,
        "measures": defaultdict(float),
        "rings": {"complete": 0, "of": 0},
        "deliveries": {"expected": 0, "got": 0},
        "replayed": replayed,
    }
    assert said in conclusion(summary).splitlines()
