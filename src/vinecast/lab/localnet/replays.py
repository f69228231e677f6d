"""The records of a local network's nodes, had again: whether the same comes out on every node."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from vinecast.core.errors import InputError
from vinecast.node.runtime.recorder import code_digest
from vinecast.node.storage.record_folder import read_segments
from vinecast.node.storage.record_writer import segments_in
from vinecast.peer.record.replay import replay
from vinecast.peer.record.segment import CutOffError
from vinecast.peer.record.summary import ReplaySummary


def record_of(folder: str, node: int) -> str:
    """The folder of a node's record in that of its network."""
    return str(Path(folder) / f"node-{node}")


def check_records(folder: str) -> None:
    """InputError when there are records of another network."""
    if any(Path(folder).glob("node-*")):
        raise InputError(f"{folder} has records of another run: name another folder, or remove them")


def replay_all(folder: str, nodes: int, told: Callable[[int], None] = lambda done: None) -> dict[str, Any]:
    """What comes of the records of all nodes; ``told``: how many of them were had again. Nodes of which
    nothing was recorded, since the network ended before they began, are ``unrecorded``."""
    found: dict[str, Any] = {"nodes": 0, "same": 0, "runs": 0, "inputs": 0, "cut_off": 0, "different": []}
    found["unrecorded"] = 0
    for node in range(nodes):
        place, summary = Path(record_of(folder, node)), ReplaySummary()
        try:
            cut = replay(read_segments(place), code_digest(), summary) if segments_in(place) else None
        except CutOffError as error:
            cut = error
        found["nodes" if summary.segments else "unrecorded"] += 1
        found["same"] += bool(summary.segments) and not summary.different
        found["runs"] += len(summary.lives)
        found["inputs"] += summary.entries
        found["cut_off"] += cut is not None
        if summary.first_difference is not None:
            at, _ = summary.first_difference
            found["different"].append(f"{place.name}: {summary.different:,} entries, the first at {at}")
        told(node + 1)
    return found
