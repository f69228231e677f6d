"""The benchmark of durable streams at toy sizes: it runs, nothing is lost. How fast is not asked here."""

import json
import os
from pathlib import Path

import pytest

from vinecast.cli import main
from vinecast.lab.bench import durable
from vinecast.lab.bench.durable import DurableSizes, StreamMaker


def test_it_measures_and_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["bench", "durable", "--events", "300", "--repeat", "2", "--stored", "700", "--missed", "900"]
    assert main([*command, "--folder", str(tmp_path), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["target"] for row in rows] == ["≥ 8,000", "", "≥ 50,000", "", "", "≤ 50 ms", "≥ 5,000"]
    assert all(row["value"] > 0 for row in rows)
    assert "verify and store the last 100" in rows[3]["what"]
    assert rows[6]["what"] == "a node that was off line gets 900 256-byte events from 2 others"
    assert list(tmp_path.iterdir()) == []


def test_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["bench", "durable", "--quick", "--events", "300", "--stored", "300", "--missed", "300"]
    assert main([*command, "--markdown", "--folder", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("`vinecast bench durable --events 300 --repeat 1 --stored 300 --missed 300`")
    assert "| a stream of 300 events: open it |" in out


def test_a_folder_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "durable", "--quick", "--folder", str(tmp_path / "none")]) == 2
    assert "cannot measure in" in capsys.readouterr().err


def test_the_core_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.sched_getaffinity(0)
    seen = set[int]()
    append = durable._append

    def look(*arguments: object) -> None:
        seen.add(len(os.sched_getaffinity(0)))
        append(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(durable, "_append", look)
    list(durable.bench_durable(DurableSizes(10, 1, 10), tmp_path))
    assert seen == {1}
    assert os.sched_getaffinity(0) == before


def test_a_hand_is_what_a_publisher_seals() -> None:
    hands = StreamMaker().hands(300)
    assert [len(hand) for hand in hands] == [256, 44]
    assert {len(block) for block, _ in hands[1]} == {len(hands[1][0][0])}
