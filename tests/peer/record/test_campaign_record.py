"""Random networks of whole peers under faults and lies, recorded: the same comes out of every peer again."""

from typing import Any

import pytest

from support.recorded_peers import record_nodes, replayed
from vinecast.lab.campaign.draw import draw_plan
from vinecast.lab.campaign.run import PlanRun
from vinecast.peer.record import strict_reader


def bloated() -> set[Any]:
    """An empty set that has been large: what is put into it comes out in another order."""
    found: set[Any] = set(range(3000))
    found -= set(range(3000))
    return found


@pytest.mark.parametrize(("seed", "with_payloads"), [(1, True), (12, False), (27, False)])
def test_whatever_happens_the_same_comes_out(
    seed: int, with_payloads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = record_nodes(monkeypatch, with_payloads, every=300)
    PlanRun(draw_plan(seed)).run()
    monkeypatch.undo()
    containers = {**strict_reader._CONTAINERS, "EMPTY_SET": bloated}
    monkeypatch.setattr(strict_reader, "_CONTAINERS", containers)
    shown = replayed(segments)
    assert not shown.found
    assert shown.entries > 1000
