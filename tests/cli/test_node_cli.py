"""The commands of a live node, as real processes: what they print, how they end, what they refuse."""

import json
import signal
import socket
from pathlib import Path

import pytest

from support.processes import Start, refusal, run_node
from vinecast.cli.events import _as_json, _listed, _shown


def test_a_node_its_owner_and_a_guest(start: Start, tmp_path: Path) -> None:
    folder = str(tmp_path / "a")
    first, about = run_node(start, folder, "--subscribe", "news/today")
    second, other = run_node(start, tmp_path / "b", "--join", about["address"])
    assert about["network"] == other["network"] == "default"

    # Through the nodes that run here.
    reader = start("sub", "news/today", "--folder", folder, "--count", "2")
    assert reader.line("err") == "ready"
    publisher = start("pub", "news/today", "one\x1b[2J", "--folder", str(tmp_path / "b"))
    code, out, err = publisher.end()
    assert (code, err) == (0, "")
    assert " · handed to 1 neighbour" in out
    assert reader.line() == r'news/today "one\u001b[2J"'
    assert start("pub", "news/today", "two", "--folder", folder).end()[0] == 0
    assert reader.line() == "news/today two"
    assert reader.end() == (0, "", "")

    # As a guest of the network.
    guest = start("sub", "news/#", "--join", about["address"], "--json", VINECAST_NODE_PERIOD_S="0.2")
    peers = start("peers", "--folder", folder, "--json")
    assert other["id"] in [peer["id"] for peer in json.loads(peers.end()[1])]
    lines = start(
        "pub",
        "news/today",
        "--join",
        other["address"],
        "--json",
        VINECAST_NODE_PERIOD_S="0.2",
        VINECAST_NODE_RECORD="true",
    )
    events: list[str] = []
    while not events:  # a pattern's topics are read when the node has heard of them: speak until it has
        lines.say("line\n")
        receipt = json.loads(lines.line())
        assert receipt["neighbours"] > 0
        if guest._read(0.2) or b"\n" in guest._pending["out"]:
            events.append(guest.line())
    event = json.loads(events[0])
    assert (event["topic"], event["text"]) == ("news/today", "line")
    assert lines.end()[0] == 0
    assert guest.end(signal.SIGTERM) == (0, guest._pending["out"].decode(), "")

    stats = start("stats", "--folder", folder, "--json")
    numbers = json.loads(stats.end()[1])
    assert (numbers["id"], numbers["topics"]) == (about["id"], 1)
    table = start("stats", "--folder", folder).end()
    assert table[0] == 0
    assert about["address"] in table[1]

    assert second.end(signal.SIGTERM) == (0, "", "")
    assert first.end(signal.SIGINT) == (0, "", "")
    again, same = run_node(start, folder)
    assert same["id"] == about["id"]
    assert again.end(signal.SIGINT)[0] == 0


def test_what_a_node_prints_for_people(start: Start, tmp_path: Path) -> None:
    node = start("node", "--folder", str(tmp_path / "a"), "--network", "test")
    line = node.line()
    assert line.startswith("listening on 127.0.0.1:")
    assert line.endswith(f"(network test, folder {tmp_path / 'a'})")
    assert node.end(signal.SIGTERM) == (0, "leaving\n", "")


def test_twice_is_at_once(start: Start, tmp_path: Path) -> None:
    stuck, about = run_node(start, tmp_path / "a", "--set", "leave_s=60")
    friend, _ = run_node(start, "", "--join", about["address"])
    while json.loads(start("stats", "--folder", str(tmp_path / "a"), "--json").end()[1])["connections"] < 1:
        pass
    friend.process.send_signal(signal.SIGSTOP)  # it will not take what is queued for it
    stuck.process.send_signal(signal.SIGTERM)
    stuck.process.send_signal(signal.SIGINT)
    assert stuck.end(signal.SIGTERM)[0] in (0, 130)
    friend.process.send_signal(signal.SIGCONT)


def test_a_port_and_a_folder_that_are_taken(start: Start, tmp_path: Path) -> None:
    _, about = run_node(start, tmp_path / "a")
    taken = start("node", "--listen", about["address"], "--folder", str(tmp_path / "b"))
    assert refusal(taken).startswith(f"cannot listen on {about['address']}: Address already in use")
    same = start("node", "--folder", str(tmp_path / "a"))
    assert refusal(same) == f"the store {tmp_path / 'a' / 'node.db'} is in use by another node"


def test_nobody_there(start: Start, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    where = f"127.0.0.1:{port}"
    told = f"could not join the network ({where}: nobody listens there)"
    processes = [
        start("pub", "a", "b", "--join", where),
        start("sub", "a", "--join", where),
        start("peers", "--join", where),
    ]
    assert [refusal(process) for process in processes] == 3 * [told]
    node, _ = run_node(start, tmp_path / "a", "--join", where)
    assert node.line("err") == f"vinecast: {told}; trying on"
    assert node.end(signal.SIGINT)[0] == 0


def test_another_network_is_said_to_be_one(start: Start, tmp_path: Path) -> None:
    _, about = run_node(start, tmp_path / "a")
    guest = start("stats", "--join", about["address"], "--network", "another")
    assert refusal(guest).startswith(f"could not join the network ({about['address']}: ")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["pub", "a", "b", "--folder", "FOLDER"], "no node is running in FOLDER: start one with "),
        (["sub", "a", "--folder", "FOLDER"], "no node is running in FOLDER: start one with "),
        (["stats"], "no node is running in FOLDER/vinecast/node: start one with "),
        (["peers", "--folder", "x", "--join", "a:1"], "--folder names a node that runs here, --join another"),
        (["stats", "--network", "x"], "--network goes with --join"),
        (["sub", "a//b", "--join", "127.0.0.1:1"], "a topic is a path of non-empty segments"),
        (["sub"], "the following arguments are required: TOPIC"),
        (["node", "--set", "period_s=fast"], "--set: period_s must be a number, not a string"),
        (["node", "--listen", "here"], "not an address: 'here'"),
        (["node", "--config", "FOLDER/none.toml"], "FOLDER/none.toml: no such file"),
        (["net", "0"], "argument N: '0' is not a whole number"),
        (["net", "5", "--topics", "3", "--subscriptions", "4"], "a node cannot subscribe to 4 of 3 topics"),
        (["net", "5", "--seconds", "-1"], "--seconds must be a number of seconds, not -1"),
        (["net", "5", "--kill", "0.3"], "a share of 0.3 of 1 processes cannot be killed"),
        (["net", "5", "--churn", "--compare"], "--compare is for a network that nobody leaves"),
        (["net", "5", "--hostile", "--compare"], "--compare is for a network that nobody leaves"),
        (["net", "5", "--hostile", "--overload"], "one at a time: --hostile, --overload, or nodes that go"),
        (["net", "5", "--overload", "--churn"], "one at a time: --hostile, --overload, or nodes that go"),
        (
            ["net", "5", "--hostile", "--kill", "0.5"],
            "one at a time: --hostile, --overload, or nodes that go",
        ),
        (["net", "1", "--overload"], "--overload takes a publisher and a reader: at least 2 nodes"),
        (["net", "5", "--period", "0"], "period_s must be at least 0.05, not 0.0"),
        (["net", "5", "--trace", "/dev/null/t"], "the folder for traces, /dev/null/t, cannot be written"),
        (["net", "5", "--set", "trace_bytes=5"], "--set: trace_bytes must be at least 1048576, not 5"),
    ],
    ids=str,
)
def test_what_cannot_be_done(start: Start, tmp_path: Path, arguments: list[str], told: str) -> None:
    words = [word.replace("FOLDER", str(tmp_path)) for word in arguments]
    found = refusal(start(*words, XDG_DATA_HOME=str(tmp_path)))
    assert found.startswith(told.replace("FOLDER", str(tmp_path)))


def test_the_configuration_is_printed_and_starts_nothing(start: Start, tmp_path: Path) -> None:
    words = ["node", "--print-config", "--join", "a:1", "b:2", "--set", "transport.idle_s=7"]
    code, out, err = start(*words, XDG_DATA_HOME=str(tmp_path), VINECAST_NODE_NETWORK="mine").end()
    assert (code, err) == (0, "")
    assert 'join = ["a:1", "b:2"]\n' in out
    assert 'network = "mine"\n' in out
    (tmp_path / "node.toml").write_text(out)
    again = start("node", "--print-config", "--config", str(tmp_path / "node.toml")).end()
    assert again == (0, out, "")
    assert [path.name for path in tmp_path.iterdir()] == ["node.toml"]


def test_what_strangers_write_cannot_play_with_the_terminal() -> None:
    event = {"topic": "a\x1b[2J\x9b", "text": "b\u202e"}
    assert _shown(event) == r'"a\u001b[2J\u009b" "b\u202e"'
    assert _shown({"topic": "à", "text": "the text"}) == "à the text"
    assert _listed(["a\nb", "c"]) == r'"a\nb", c'
    assert _as_json(event).isprintable()
    assert json.loads(_as_json(event)) == event
