"""Scenarios to spoil, and the one sentence that says what is wrong with them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from vinecast.core.errors import InputError
from vinecast.sim.scenario.scenario import resolve

BASE: Mapping[str, Any] = {"name": "t", "seed": 1, "nodes": 40, "cycles": 10}
EVENT: Mapping[str, Any] = {**BASE, "engine": "event"}
TOPICS: Mapping[str, Any] = {**BASE, "system": "poldercast"}


def reason(tables: Mapping[str, Any]) -> str:
    """Why a scenario is refused: one sentence."""
    with pytest.raises(InputError) as caught:
        resolve(tables, Path())
    return one_sentence(str(caught.value))


def one_sentence(text: str) -> str:
    assert text
    assert "\n" not in text
    assert not text.endswith(".")
    assert "Traceback" not in text
    return text


def fault(**table: Any) -> dict[str, Any]:
    return {**BASE, "faults": [table]}


def network(**table: Any) -> dict[str, Any]:
    return {**EVENT, "network": table}
