"""The benchmark of matching, on so few filters that it takes no time."""

import json

import pytest

from vinecast.cli import main
from vinecast.core.errors import InputError
from vinecast.lab.bench.matching import MatchingSizes, bench_matching


def test_what_is_measured() -> None:
    results = list(bench_matching(MatchingSizes(filters=300, attributes=4, events=20, repeat=1)))
    matching = [result.value for result in results if "match an event" in result.what]
    assert len(matching) == 5
    assert all(value > 0 for value in matching[2:])
    assert all(result.value > 0 for result in results if "checks a second" in result.what)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "matching", "--filters", "100", "--events", "5", "--repeat", "1", "--json"]) == 0
    assert any("checks a second" in row["what"] for row in json.loads(capsys.readouterr().out))


def test_too_many_attributes() -> None:
    with pytest.raises(InputError, match="1 to 32 attributes, not 33"):
        list(bench_matching(MatchingSizes(filters=10, attributes=33)))
