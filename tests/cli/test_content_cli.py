"""Content from the command line, through a node that runs in the same process, and through one that joins."""

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from vinecast import NodeConfig, SyncNode
from vinecast.cli import main
from vinecast.node.api.control_service import ControlService
from vinecast.node.control.server import ControlServer

ATTRIBUTES = "price number 0..1000, count integer 0..100, order string"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SyncNode]:
    """A node that has a schema, and a control socket."""
    place = tmp_path_factory.mktemp("content") / "it"
    with SyncNode(folder=place, config=NodeConfig(period_s=0.05)) as node:
        server = ControlServer(ControlService(node.node), place)
        node.do(server.start)
        assert (
            main(["schema", "create", "stocks", ATTRIBUTES, "--about", "orders", "--folder", str(place)]) == 0
        )
        yield node
        node.do(server.close)


@pytest.fixture
def say(running: SyncNode, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command; what it prints."""
    capsys.readouterr()

    def command(*words: str, code: int = 0) -> str:
        assert main([*words, "--folder", str(running.node._folder)]) == code
        done = capsys.readouterr()
        return done.err if code else done.out

    return command


def test_a_schema_is_shown(say: Any, running: SyncNode) -> None:
    shown = json.loads(say("schema", "show", "stocks", "--json"))
    assert (shown["name"], shown["schema"], shown["metadata"]["about"]) == ("stocks", ATTRIBUTES, "orders")
    assert shown["owner"] == running.stats()["key"]
    assert ATTRIBUTES.split(",")[0] in say("schema", "show", "stocks", "--owner", shown["owner"].upper())
    assert ATTRIBUTES in json.loads(say("topic", "show", "stocks", "--json"))["metadata"]["schema"]


def test_events_are_published_and_read_by_content(say: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "held by" in say("pub", "--schema", "stocks", "price=9.5", "count=3", "order=buy")
    say("pub", "--schema", "stocks", '{"price": 50, "count": 3, "order": "buy"}')
    lines = b'price=1 count=2 order=sell\n{"price": 2, "count": 2, "order": "buy"}\n'
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines)))
    assert say("pub", "--schema", "stocks", "-") == "2 events published\n"
    cursor = ("sub", "--schema", "stocks", "--from", "earliest", "--count")
    where = ("--where", 'price < 10 and order = "buy"')
    assert say(*cursor, "2", *where).splitlines() == [
        'stocks {"price":9.5,"count":3,"order":"buy"}',
        'stocks {"price":2.0,"count":2,"order":"buy"}',
    ]
    assert len(say(*cursor, "4").splitlines()) == 4
    consuming = ("--consumer", "me", *where)
    first = json.loads(say(*cursor, "1", *consuming, "--json"))
    assert json.loads(first["text"])["price"] == 9.5
    assert '"price":2.0' in say(*cursor, "1", *consuming)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("schema", "create", "stocks", ATTRIBUTES), "has a topic 'stocks' already"),
        (("schema", "create", "a//b", ATTRIBUTES), "a schema's name is a topic"),
        (("schema", "create", "s", "price number 0..x"), "price number 0..x\n"),
        (("schema", "show", "unknown"), "nobody knows a topic"),
        (("schema", "show", "stocks", "--owner", "xyz"), "not a request"),
        (("pub", "--schema", "unknown", "a=1"), "nobody knows a topic"),
        (("pub", "--schema", "stocks", "price=1"), "an event of stocks lacks count, order"),
        (
            ("pub", "--schema", "stocks", "price=1", "count=x", "order=a"),
            "count must be a whole number, not 'x'",
        ),
        (
            ("pub", "--schema", "stocks", "price=nan", "count=1", "order=a"),
            "price must be a finite number, not nan",
        ),
        (("pub", "--schema", "stocks", "prise=1"), "did you mean price?"),
        (("pub", "--schema", "stocks", "price"), "a value is given as name=value, not 'price'"),
        (("pub", "--schema", "stocks", '{"price": NaN}'), "NaN is not a number"),
        (("pub", "--schema", "stocks", '{"price": [1]}'), "the value of price must be a number or a string"),
        (("pub", "--schema", "stocks", '{"price": '), "not a JSON object of values"),
        (("pub",), "required: TOPIC, or --schema"),
        (("pub", "a", "b", "c"), "put it in quotes"),
        (("pub", "a", "b", "--owner", "ab" * 32), "--owner goes with --schema"),
        (("sub", "--schema", "stocks", "--where", "price < ten"), "price < ten\n"),
        (("sub", "--schema", "stocks", "--where", "price > 1000"), "no price is in this range"),
        (("sub", "--schema", "unknown"), "nobody knows a topic"),
        (("sub", "a", "--where", "price < 3"), "--owner and --where go with --schema"),
        (("sub", "a", "--schema", "stocks"), "and not both"),
        (("sub",), "required: TOPIC, or --schema"),
    ],
)
def test_wrong_input_is_told(say: Any, words: tuple[str, ...], reason: str) -> None:
    assert reason in say(*words, code=2)


def test_a_command_joins_by_itself(running: SyncNode, say: Any, capsys: pytest.CaptureFixture[str]) -> None:
    owner = running.stats()["key"]
    join = ("--schema", "stocks", "--owner", owner, "--join", running.address)
    assert main(["pub", "price=7", "count=77", "order=join", *join]) == 0
    assert "held by 1 other node" in capsys.readouterr().out
    assert main(["sub", "--where", "count = 77", "--from", "earliest", "--count", "1", *join]) == 0
    assert '"order":"join"' in capsys.readouterr().out
    assert main(["sub", "--consumer", "me", *join]) == 2
    assert "--consumer goes without --join" in capsys.readouterr().err
