"""Streams from the command line, through a node that runs in the same process."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vinecast import InputError, NodeConfig, SyncNode
from vinecast.cli import main
from vinecast.node.api.control_service import ControlService
from vinecast.node.control.client import ControlClient
from vinecast.node.control.server import ControlServer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where a node runs."""
    place = tmp_path_factory.mktemp("streams") / "it"
    with SyncNode(folder=place, config=NodeConfig(period_s=0.05)) as node:
        server = ControlServer(ControlService(node.node), place)
        node.do(server.start)
        yield place
        node.do(server.close)


@pytest.fixture
def say(folder: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command; what it prints."""

    def command(*words: str, code: int = 0) -> str:
        assert main([*words, "--folder", str(folder)]) == code
        done = capsys.readouterr()
        return done.err if code else done.out

    return command


def test_what_was_published_is_read_again(say: Any) -> None:
    told = say("pub", "orders", "one coffee")
    assert "handed to 0 neighbours, held by 0 other nodes" in told
    ids = [json.loads(say("pub", "orders", text, "--json"))["id"] for text in ("two teas", "a cake")]
    assert "held by" not in say("pub", "orders", "not kept", "--volatile")
    everything = ["orders one coffee", "orders two teas", "orders a cake"]
    assert say("sub", "orders", "--from", "earliest", "--count", "3").splitlines() == everything
    assert say("sub", "orders", "--from", "1", "--count", "2").splitlines() == everything[1:]
    assert say("sub", "orders", "--from", ids[0], "--count", "1").splitlines() == everything[2:]
    assert [line.split(" ", 1)[1] for line in say("log", "orders").splitlines()] == everything
    last = [json.loads(line) for line in say("log", "orders", "-n", "2", "--json").splitlines()]
    assert [event["id"] for event in last] == ids
    assert [event["height"] for event in last] == [2, 3]
    assert say("log", "nothing/here") == ""


def test_a_consumer_goes_on(say: Any) -> None:
    for n in range(4):
        say("pub", "work", str(n))
    cursor = ("sub", "work", "--from", "earliest", "--consumer", "me", "--count")
    assert say(*cursor, "1").splitlines() == ["work 0"]
    assert say(*cursor, "2").splitlines() == ["work 1", "work 2"]
    assert say(*cursor, "1").splitlines() == ["work 3"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("sub", "a", "--from", "99"), "go up to 0"),
        (("sub", "a", "--from", "yesterday"), "an event id begins with"),
        (("sub", "a/#", "--from", "1"), "one topic's"),
        (("log", "a//b"), "non-empty segments"),
        (("topic", "show", "unknown"), "nobody knows a topic"),
        (("topic", "show", "a", "--owner", "xyz"), "not a request"),
        (("topic", "fork", "a", "--owner", ""), "whose topic"),
        (("topic", "hand-on", "unknown", "ab" * 32), "nobody knows a topic"),
        (("topic", "hand-on", "a", "nonsense"), "a key has 64 hexadecimal digits"),
        (("topic", "take-over", "a", "--owner", "ab" * 32), "nobody knows a topic"),
        (("topic", "take-over", "a", "--owner", ""), "whose topic"),
    ],
)
def test_wrong_input_is_one_sentence(say: Any, words: tuple[str, ...], reason: str) -> None:
    told = say(*words, code=2)
    assert reason in told
    assert len(told.splitlines()) == 1


def test_topics(say: Any) -> None:
    created = json.loads(say("topic", "create", "drinks", "--meta", "about=what we serve", "--json"))
    assert created["metadata"] == {"about": "what we serve"}
    say("topic", "create", "drinks/hot")
    say("topic", "add", "drinks", "drinks/hot")
    shown = say("topic", "show", "drinks")
    assert "about = what we serve" in shown
    newest = json.loads(say("topic", "show", "drinks", "--json"))
    assert list(newest["subtopics"]) == ["drinks/hot"]
    versions = json.loads(say("topic", "log", "drinks", "--json"))
    assert [version["id"] for version in versions] == [newest["id"], created["id"]]
    assert newest["owner"][:16] in say("topic", "log", "drinks")
    fork = ("topic", "fork", "drinks", "--owner", newest["owner"], "--as", "beverages", "--json")
    assert json.loads(say(*fork))["from"] == newest["id"]
    own = json.loads(say("stats", "--json"))["key"]
    assert own == newest["owner"]
    assert "already" in say("topic", "hand-on", "drinks", own, code=2)
    promised = json.loads(say("topic", "hand-on", "drinks", "ab" * 32, "--json"))
    assert promised["metadata"]["heir"]["hex"].startswith("ab" * 32)
    assert "is not handed on" in say("topic", "take-over", "drinks", "--owner", own, code=2)


def test_acknowledgements_over_the_socket(folder: Path, say: Any) -> None:
    say("pub", "acks", "1")
    with ControlClient(folder) as client:
        news = client.stream(["acks"], "earliest", "them")
        event = next(one["event"] for one in news if "event" in one)
        client.ack("acks", 99)
        assert "positions up to 1" in next(one["error"] for one in news if "error" in one)
        client.ack("acks", event["offset"])
        client._socket.sendall(b"nonsense\n")
        assert "not an acknowledgement" in next(one["error"] for one in news if "error" in one)
    with ControlClient(folder) as client, pytest.raises(InputError, match="an offset is"):
        client._ask({"do": "subscribe", "topics": ["acks"], "start": -1})
