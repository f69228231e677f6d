"""The commands of a live node, as real processes: what they print, how they end, what they refuse."""

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from vinecast.cli.events import _as_json, _listed, _shown
from vinecast.lab.localnet.attacks import KINDS
from vinecast.peer.limits.misbehaviour import GOSSIP_A_CYCLE

PATIENCE_S = 60.0
"""For a line that must come; the machine may be busy."""

# Rules as plain Python: for a handful of nodes they are fast enough, and nothing has to be compiled.
ENVIRONMENT = {"VINECAST_COMPILE": "0", "PYTHONUNBUFFERED": "1"}


class Process:
    """A command that runs; its output can be waited for, line by line."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("VINECAST_NODE_")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "vinecast", *arguments],
            env={**inherited, **ENVIRONMENT, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._pending = {"out": b"", "err": b""}
        self._selector = selectors.DefaultSelector()
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._selector.register(self.process.stdout, selectors.EVENT_READ, "out")
        self._selector.register(self.process.stderr, selectors.EVENT_READ, "err")

    def line(self, stream: str = "out") -> str:
        """The next line; an error when none comes."""
        end = time.monotonic() + PATIENCE_S
        while b"\n" not in self._pending[stream]:
            if not self._read(end - time.monotonic()):
                raise AssertionError(f"no further line: {self._pending}")
        line, _, self._pending[stream] = self._pending[stream].partition(b"\n")
        return line.decode()

    def _read(self, patience_s: float) -> bool:
        if not self._selector.get_map():
            return False
        ready = self._selector.select(max(patience_s, 0))
        for key, _ in ready:
            data = os.read(key.fd, 65536)
            if not data:
                self._selector.unregister(key.fileobj)
            self._pending[key.data] += data
        return bool(ready)

    def say(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def end(self, number: int | None = None) -> tuple[int, str, str]:
        """Send a signal, if one is given; exit code and what was still printed."""
        if number is not None:
            self.process.send_signal(number)
        elif self.process.stdin is not None:
            self.process.stdin.close()
        end = time.monotonic() + PATIENCE_S
        while self._selector.get_map() and self._read(end - time.monotonic()):
            pass
        code = self.process.wait(max(end - time.monotonic(), 0.1))
        return code, self._pending["out"].decode(), self._pending["err"].decode()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._selector.close()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


Start = Callable[..., Process]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Process] = []

    def begin(*arguments: str, **environment: str) -> Process:
        started.append(Process(*arguments, **environment))
        return started[-1]

    yield begin
    for process in started:
        process.kill()


def run_node(start: Start, folder: Path | str, *arguments: str) -> tuple[Process, dict[str, Any]]:
    """A node, and what it says of itself when it is up."""
    words = ("--folder", str(folder), "--set", "period_s=0.2", "--json", *arguments)
    process = start("node", *words)
    return process, json.loads(process.line())


def refusal(process: Process) -> str:
    """The one sentence of a command that cannot do what it is asked."""
    code, out, err = process.end()
    assert (code, out) == (2, "")
    assert err.startswith("vinecast: ")
    assert err.count("\n") == 1
    return err.removeprefix("vinecast: ").rstrip()


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
    lines = start("pub", "news/today", "--join", other["address"], "--json", VINECAST_NODE_PERIOD_S="0.2")
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


# vinecast net.

PERIOD_S = 0.25
NET = ("net", "6", "--topics", "4", "--subscriptions", "2", "--period", str(PERIOD_S), "--rate", "20")


def test_a_local_network(start: Start) -> None:
    code, out, err = start(*NET, "--seconds", "2", "--json").end()
    summary = json.loads(out)
    assert (code, summary["trouble"]) == (0, [])
    assert (summary["up"], summary["nodes"], summary["processes"]) == (6, 6, 1)
    assert summary["rings_complete_after_s"] is not None  # on a busy machine one may come apart again
    assert summary["rings"]["of"] > 0
    assert summary["events"] >= 10
    deliveries = summary["deliveries"]
    assert deliveries["got"] == deliveries["expected"] >= summary["events"]
    assert (deliveries["repeated"], deliveries["strays"]) == (0, 0)
    assert summary["hops_mean"] >= 1
    assert summary["duplication"] > 0
    assert "nodes up 6/6 · rings complete " in err


@pytest.mark.parametrize("system", ["pulsarcast", "vitis"])
def test_a_local_network_of_another_system(start: Start, system: str) -> None:
    given = ("--system", system, "--set", "vitis.table_size=5")
    code, out, err = start(*NET, *given, "--seconds", "2", "--json").end()
    assert code == 0, err
    summary = json.loads(out)
    assert (summary["up"], summary["system"], summary["rings"]["of"]) == (6, system, 0)
    deliveries = summary["deliveries"]
    assert 0.9 * deliveries["expected"] <= deliveries["got"]  # on a busy machine links may come and go
    assert deliveries["expected"] >= summary["events"] >= 10
    assert (deliveries["repeated"], deliveries["strays"]) == (0, 0)
    assert "nodes up 6/6 · ready " in err


def test_only_rings_are_compared(start: Start) -> None:
    code, _, err = start(*NET, "--system", "vitis", "--compare").end()
    assert code != 0
    assert err.strip().endswith('--compare simulates "poldercast" only, not "vitis"')


def test_a_local_network_and_its_simulation(start: Start) -> None:
    code, out, err = start(*NET, "--seconds", "2", "--compare", "--json").end()
    assert code == 0, err
    told = json.loads(out)
    live, twin = told["deliveries"], told["simulated"]
    assert live["expected"] == live["got"] == twin["expected"] == twin["got"] > 0
    assert (twin["repeated"], twin["strays"]) == (0, 0)
    assert abs(told["hops_mean"] - twin["hops_mean"]) < 1  # three on a ring: nobody is far away
    assert abs(told["duplication"] - twin["duplication"]) < 0.5


def test_a_part_of_a_local_network_is_killed_and_comes_back(start: Start) -> None:
    size = ("net", "8", "--process-nodes", "2", "--topics", "3", "--subscriptions", "2", "--period", "0.2")
    code, out, err = start(*size, "--rate", "20", "--kill", "0.25", "--json").end()
    assert code == 0, err
    told = json.loads(out)
    crash = told["crash"]
    assert (told["up"], told["left"], told["came_back"]) == (8, 2, 2)
    assert crash["killed"] == crash["came_back"] == 2
    assert crash["with_their_identity"] == crash["with_their_subscriptions"] == 2
    assert crash["events"] > 0
    assert crash["whole_again_after_cycles"] <= 20
    assert crash["got_after_return"] == crash["due_after_return"] > 0


GROWTH_MB = 64.0
"""What a process may hold more after the worst; a leak would take hundreds."""


def test_a_local_network_under_attack(start: Start) -> None:
    code, out, err = start(*NET, "--hostile", "--json").end()
    assert code == 0, err
    told = json.loads(out)
    hostile = told["hostile"]
    assert (told["up"], told["left"], hostile["finished"]) == (6, 0, True)
    attacks = {attack["kind"]: attack for attack in hostile["attacks"]}
    assert list(attacks) == list(KINDS)
    for kind, attack in attacks.items():
        assert attack["tried"] > 0, kind
        allowed = "cards of invented peers", "true events, and one again and again"
        heard = 2 * GOSSIP_A_CYCLE * (attack["seconds"] / PERIOD_S + 2)
        gossip = "a flood of gossip", "a flood of introductions"
        is_trickle = kind in gossip and attack["tried"] < heard  # as on a machine that is busy elsewhere
        if kind not in allowed and not is_trickle:
            assert any(reason.startswith("refused: ") for reason in attack["refused"]), kind
    claims = attacks["claiming another's id"]["refused"]
    assert {"refused: speaks for another peer", "refused: forged card"} <= claims.keys()
    suspicion = attacks["half-open connections"]["refused"]
    assert suspicion["refused: too many handshakes from one host"] > 1000
    for deliveries in (hostile["deliveries"], hostile["deliveries_afterwards"]):
        assert deliveries["got"] == deliveries["expected"] > 0
    assert hostile["resident_mb"]["highest"] < hostile["resident_mb"]["before"] + GROWTH_MB


def test_a_local_network_with_too_much_to_carry(start: Start) -> None:
    code, out, err = start(*NET, "--overload", "--json").end()
    assert code == 0, err
    overload = json.loads(out)["overload"]
    assert overload["finished"]
    for step in overload["steps"]:
        assert step["delivered"] + sum(step["dropped"].values()) == step["due"] == step["published"]
        assert step["unaccounted"] == 0
        assert min(step["delivered"], step["dropped"]["subscriber too slow"]) > 0
    assert overload["steps"][0]["refused_to_the_publisher"] == 0
    assert overload["steps"][1]["refused_to_the_publisher"] > 0
    assert overload["resident_mb"]["highest"] < overload["resident_mb"]["before"] + GROWTH_MB


def test_a_local_network_with_churn_ends_on_a_signal(start: Start) -> None:
    net = start(*NET, "--churn", "20")
    while "left/came back" not in (line := net.line()) or "left/came back 0/" in line:
        pass
    code, out, err = net.end(signal.SIGINT)
    assert (code, err) == (0, "")
    assert "\nleaving\n" in f"\n{out}"
    assert "expected deliveries" in out


def workers_of(process: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == process and fields[0] != "Z":
            found.append(int(status.parent.name))
    return found


@pytest.mark.parametrize(
    ("words", "seen", "processes"), [((), "nodes up 6/6", 1), (("--hostile",), " · hostile ", 2)]
)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_processes_of_a_network_die_with_it(
    start: Start, number: int, words: tuple[str, ...], seen: str, processes: int
) -> None:
    net = start(*NET, *words)
    while seen not in net.line():
        pass
    workers = workers_of(net.process.pid)
    assert len(workers) == processes
    _, out, _ = net.end(number)
    assert number == signal.SIGKILL or not words or "Attacked, not to the end" in out
    end = time.monotonic() + PATIENCE_S
    while any(Path(f"/proc/{worker}").exists() for worker in workers) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


def test_a_process_of_a_network_that_dies_is_trouble(start: Start) -> None:
    net = start(*NET, "--json")
    while "nodes up 6/6" not in net.line("err"):
        pass
    for worker in workers_of(net.process.pid):
        os.kill(worker, signal.SIGKILL)
    code, out, err = net.end()
    assert code == 1
    assert "trouble: process 0 ended by itself (exit code -9)\n" in err
    assert json.loads(out)["trouble"] == ["process 0 ended by itself (exit code -9)"]
    assert json.loads(out)["up"] == 0
