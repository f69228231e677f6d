"""The control socket: what a node answers, that it is for its owner only, and that nobody stalls it."""

import json
import os
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.node.live import PATIENCE_S
from vinecast import InputError, NodeConfig, SyncNode
from vinecast.node.api.control_service import ControlService
from vinecast.node.control import server
from vinecast.node.control.client import ControlClient
from vinecast.node.control.folder import CONTROL, connect_to
from vinecast.node.control.server import ControlServer

QUICK = NodeConfig(period_s=0.05, waiting=100)


class Served:
    """A node with a control socket in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.node = SyncNode(folder=folder, config=QUICK).start()
        self.server = ControlServer(ControlService(self.node.node), folder)
        self.node.do(self.server.start)

    def close(self) -> None:
        self.node.do(self.server.close)
        self.node.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    one = Served(tmp_path_factory.mktemp("node") / "it")
    yield one
    one.close()


@pytest.fixture
def client(served: Served) -> Iterator[ControlClient]:
    with ControlClient(served.folder) as one:
        yield one


class Raw:
    """A program that speaks the control socket's language by hand."""

    def __init__(self, folder: Path) -> None:
        self.socket = connect_to(folder, 10)
        self.lines = self.socket.makefile("rb")
        self.greeting = json.loads(self.lines.readline())

    def say(self, text: bytes) -> None:
        self.socket.sendall(text)

    def hear(self) -> Any:
        text = self.lines.readline()
        return json.loads(text) if text else None

    def close(self) -> None:
        self.lines.close()
        self.socket.close()


@pytest.fixture
def raw(served: Served) -> Iterator[Raw]:
    one = Raw(served.folder)
    yield one
    one.close()


def test_it_is_for_the_owner_only(served: Served) -> None:
    place = served.folder / CONTROL
    assert stat.S_ISSOCK(place.stat().st_mode)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(served.folder.stat().st_mode) == 0o700


def test_who_it_is(served: Served, client: ControlClient) -> None:
    expected = {"vinecast": 1, "id": served.node.id.hex(), "address": served.node.address}
    assert client.about == {**expected, "network": "default"}


def test_publish_and_stream(served: Served, client: ControlClient) -> None:
    with ControlClient(served.folder) as reader:
        stream = reader.stream(["news/+", "news/today", "news/today"])
        receipt = {}
        for news in stream:
            if "ready" in news:  # a pattern sees a topic once it is known: the plain one makes it so
                receipt = client.publish("news/today", "Grüße".encode(), {"kind": "x"})
            if "event" in news:
                break
        event = news["event"]
        assert (event["id"], event["topic"], event["text"]) == (receipt["id"], "news/today", "Grüße")
        assert (event["headers"], event["hops"]) == ({"kind": "x"}, 0)
        client.publish("news/today", b"\xff\x00")
        assert next(stream)["event"]["data"] == "/wA="  # and not the first event once more
        assert "news/today" in client.topics()["own"]
    assert client.peers() == []
    assert client.stats()["address"] == served.node.address


def test_a_stream_that_ends_leaves_its_topics(served: Served, client: ControlClient) -> None:
    reader = ControlClient(served.folder)
    next(reader.stream(["leaving/soon"]))
    assert "leaving/soon" in client.topics()["own"]
    reader.close()
    while "leaving/soon" in client.topics()["own"]:  # every question gives the node time to notice
        pass


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"nonsense\n", "not a request: "),
        (b'{"do": "fly"}\n', "not a request: Invalid value 'fly'"),
        (b'{"do": "publish"}\n', "not a request: Object missing required field `topic`"),
        (b'{"do": "stats", "x": 1}\n', "not a request: Object contains unknown field `x`"),
        (b'{"do": "publish", "topic": "a//b"}\n', "a topic is a path of non-empty segments, not 'a//b'"),
        (b'{"do": "publish", "topic": "a", "data": "!"}\n', "not a request: Invalid base64"),
        (b'{"do": "subscribe", "topics": []}\n', "not a request: Expected `array` of length >= 1"),
        (b'{"do": "subscribe", "topics": ["a/#/b"]}\n', "'#' stands only at the end of a topic pattern"),
        (b'{"do": "publish", "topic": "\xff"}\n', "not a request: "),
    ],
    ids=str,
)
def test_what_is_wrong_is_said_and_does_no_harm(raw: Raw, line: bytes, error: str) -> None:
    raw.say(line)
    assert raw.hear()["error"].startswith(error)
    raw.say(b'{"do": "topics"}\n')
    assert "ok" in raw.hear()


def test_an_event_that_is_too_large(client: ControlClient) -> None:
    with pytest.raises(InputError, match="bytes"):
        client.publish("large", bytes(2_000_000))
    assert client.publish("large", b"small")["id"]


def test_a_line_that_never_ends(raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        for _ in range(100):
            raw.say(bytes(100_000))
        assert "bytes at the most" in raw.hear()["error"]
    except ConnectionError:
        pass  # it hung up on us while we spoke


@given(text=st.binary(max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_garbage(served: Served, text: bytes) -> None:
    program = Raw(served.folder)
    program.say(text + b"\n")
    program.socket.shutdown(socket.SHUT_WR)
    while program.hear() is not None:
        pass
    program.close()


def test_a_reader_that_does_not_read_costs_nothing_but_its_own_events(
    served: Served, client: ControlClient
) -> None:
    lazy = Raw(served.folder)
    lazy.say(b'{"do": "subscribe", "topics": ["flood"]}\n')
    assert lazy.hear() == {"ok": ["flood"]}
    count = 600
    for _ in range(count):
        client.publish("flood", bytes(5000), durable=False)
    assert client.stats()["counters"]["dropped: subscriber too slow"] > 0
    seen = dropped = 0
    while seen + dropped < count:  # what was not delivered is accounted for
        news = lazy.hear()
        seen += "event" in news
        dropped = news.get("dropped", dropped)
    assert dropped > 0
    lazy.close()


def test_too_many_programs(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 1)
    end = time.monotonic() + PATIENCE_S
    while True:  # until the node has seen that those of other tests have hung up
        try:
            first = ControlClient(served.folder)
            break
        except InputError:
            assert time.monotonic() < end
    with first, pytest.raises(InputError, match="too many programs"):
        ControlClient(served.folder)


def test_no_node(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none", tmp_path / ("x" * 200)):
        with pytest.raises(InputError, match=r"^no node is running in .*: start one with 'vinecast node'"):
            ControlClient(folder)


def test_a_long_name_a_dead_nodes_socket_and_the_end(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40)
    folder.mkdir(mode=0o700)
    dead = socket.socket(socket.AF_UNIX)
    here = os.open(folder, os.O_RDONLY)
    dead.bind(f"/proc/self/fd/{here}/{CONTROL}")
    dead.close()
    os.close(here)
    with pytest.raises(InputError, match="no node is running"):
        ControlClient(folder)
    one = Served(folder)
    with ControlClient(folder) as client, ControlClient(folder) as reader:
        stream = reader.stream(["a"])
        assert next(stream) == {"ready": True}
        assert client.about["id"] == one.node.id.hex()
        one.close()
        assert list(stream) == []
        with pytest.raises(InputError, match="has left"):
            client.stats()
    assert not (folder / CONTROL).exists()


def test_a_node_of_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, served: Served) -> None:
    monkeypatch.setattr(server, "VERSION", 2)
    with pytest.raises(InputError, match="of another version of Vinecast"):
        ControlClient(served.folder)


def test_a_node_that_does_not_answer(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / CONTROL))
        deaf.listen()
        with pytest.raises(InputError, match="does not answer"):
            ControlClient(tmp_path, patience_s=0.05)
