"""The benchmark of routing by content, on a small network."""

import json

import pytest

from vinecast.cli import main


def test_everybody_has_what_it_wants_and_few_copies_come(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "content", "--quick", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    got = [row for row in rows if "wanted and got" in row["what"]]
    assert [row["meets"] for row in got] == [True, True, True]
    assert rows[-1]["meets"], rows[-1]


def test_too_few_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "content", "--nodes", "2"]) == 2
    assert "needs 3 nodes or more" in capsys.readouterr().err
