"""The benchmark of live nodes at toy sizes: it runs, nothing is lost. How fast is not asked here."""

import asyncio
import json
import math
import stat
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vinecast.cli import main
from vinecast.cli.node_bench import PARTS as TYPED_PARTS
from vinecast.cli.node_bench import RIVALS as TYPED_RIVALS
from vinecast.core.errors import InputError, OverloadedError
from vinecast.lab.bench import libp2p, node
from vinecast.lab.bench.member import ArrivalTally, serve
from vinecast.lab.bench.node import PARTS, RIVALS, NodePlan, bench_node
from vinecast.lab.bench.result import Result
from vinecast.lab.bench.team import AbsentError, Team, Trial, highest_rate
from vinecast.node.runtime.loop import run


@pytest.fixture(autouse=True)
def _plain_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that start fast."""
    monkeypatch.setenv("VINECAST_COMPILE", "0")


def trial(rate: float, lossless: bool = True) -> Trial:
    return Trial(100, 100 / rate, 900, 0.09, lossless)


# --- looking for a rate ----------------------------------------------------------------------------------


@pytest.mark.parametrize("capacity", [1.0, 3.0, 150.0, 200.0, 777.0, 12_345.0])
def test_the_highest_rate(capacity: float) -> None:
    async def attempt(rate: float) -> Trial:
        return trial(rate, rate <= capacity)

    found = run(highest_rate(attempt, 200.0))
    assert found is not None
    assert found.lossless
    assert capacity / 2 ** (1 / 8) - 1e-6 <= found.rate <= capacity + 1e-6


def test_a_hiccup_is_forgiven_and_members_rest_after_every_attempt() -> None:
    rates: list[float] = []
    rested: list[int] = []

    async def attempt(rate: float) -> Trial:
        rates.append(rate)
        return trial(rate, rate <= 500 and len(rates) != 2)

    async def rest() -> None:
        rested.append(len(rates))

    found = run(highest_rate(attempt, 100.0, refine=0, rest=rest))
    assert found is not None
    assert found.rate == pytest.approx(400)
    assert rates == [100, 200, 200, 400, 800, 800]
    assert rested == [1, 2, 3, 4, 5, 6]


def test_no_rate_at_all_and_no_end() -> None:
    async def never(rate: float) -> Trial:
        return trial(rate, False)

    async def always(rate: float) -> Trial:
        return trial(rate)

    assert run(highest_rate(never, 8.0)) is None
    found = run(highest_rate(always, 8.0, largest=1000.0, refine=0))
    assert found is not None
    assert found.rate == pytest.approx(512)


# --- a member --------------------------------------------------------------------------------------------


def payload(run: int, number: int) -> bytes:
    return struct.pack(">IIQ", run, number, 0) + bytes(240)


def test_every_event_counts_once_and_only_in_its_run(capsys: pytest.CaptureFixture[str]) -> None:
    tally = ArrivalTally()
    tally.expect(7, 3, timed=False)
    for number in (0, 1, 1, 0):
        tally.take(payload(7, number))
    tally.take(payload(6, 2))
    assert tally.told()["events"] == 2
    assert capsys.readouterr().out == ""
    tally.take(payload(7, 2))
    tally.take(payload(7, 2))
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [{"is": "got", "run": 7}]
    assert "p50_ms" not in tally.told()
    tally.expect(8, 3, timed=True)
    tally.take(payload(8, 0))
    assert tally.told()["p50_ms"] > 0


class FakeMember:
    """Takes so many."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.hands: list[int] = []

    async def join(self, peers: list[str]) -> None:
        pass

    async def ready(self, members: int) -> None:
        pass

    async def publish(self, payloads: list[bytes]) -> None:
        if sum(self.hands) + len(payloads) > self.room:
            raise OverloadedError("enough")
        assert {len(payload) for payload in payloads} == {256}
        self.hands.append(len(payloads))


@pytest.mark.parametrize(
    ("order", "room", "events", "hands"),
    [
        ({"events": 10, "hand": 4, "rate": 0}, 100, 10, [4, 4, 2]),
        ({"events": 3, "hand": 1, "rate": 0}, 100, 3, [1, 1, 1]),
        ({"events": 10, "hand": 4, "rate": 0}, 9, 8, [4, 4]),
        ({"events": 10, "hand": 1, "rate": 1e9}, 100, 10, None),
        ({"events": 10, "hand": 1, "rate": 1.0, "patience_s": -1.0}, 100, 0, []),
    ],
)
def test_publishing(
    order: dict[str, Any], room: int, events: int, hands: list[int] | None, capsys: pytest.CaptureFixture[str]
) -> None:
    member, tally = FakeMember(room), ArrivalTally()
    lines = iter([json.dumps({"do": "publish", "run": 1, "patience_s": 60.0, **order}), ""])

    async def read() -> str:
        return next(lines)

    run(serve(member, tally, read, asyncio.sleep))
    assert json.loads(capsys.readouterr().out) == {"is": "published", "events": events}
    assert sum(member.hands) == events
    assert hands is None or member.hands == hands


# --- real processes --------------------------------------------------------------------------------------


def test_two_nodes() -> None:
    said: list[str] = []
    results = list(bench_node(NodePlan(("two",), events=60, repeat=2, period_s=0.05), said.append))
    results = [result for result in results if result.what != "rules"]
    assert len(results) == 4
    assert all(result.value > 0 for result in results[:3])
    assert all("µs of CPU a delivery" in result.measured for result in results[:3])
    assert (results[3].measured, results[3].meets) == ("0", True)
    assert said == ["two nodes: starting", "two nodes: round 1 of 2", "two nodes: round 2 of 2"]


def test_a_small_network_loses_nothing() -> None:
    async def look() -> None:
        command = node._member(reads=True, period_s=0.05)
        async with Team.gather([command] * 3) as team:
            for hand in (1, 16):
                found = await team.trial(50, hand=hand)
                assert found.lossless
                assert (found.events, found.deliveries) == (50, 100)
                assert found.cpu_s > 0
                assert math.isnan(found.p50_ms)

    run(look())


def test_a_process_that_ends_says_why() -> None:
    async def look() -> None:
        command = [sys.executable, "-c", "import sys; print('noise'); sys.exit('ValueError: why')"]
        async with Team.gather([command]):
            pass

    with pytest.raises(AbsentError, match="a process ended: ValueError: why"):
        run(look())


# --- others ----------------------------------------------------------------------------------------------


def test_what_cannot_be_had_is_said_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("shutil.which", lambda name: None)

    async def lossless(plan: NodePlan, name: str, command: list[str], tell: node.Tell) -> Trial:
        return trial(800.0)

    monkeypatch.setattr(node, "_lossless", lossless)
    results = [result for result in bench_node(NodePlan(("ten",))) if result.what != "rules"]
    assert [result.measured for result in results] == [
        "800 (800 … 800) events a second; 100 µs of CPU a delivery",
        "not measured: py-libp2p is not installed (extra 'bench-peers')",
        "not measured: js-libp2p needs node and npm",
    ]
    assert [result.verdict for result in results] == ["", "", ""]


def test_others_beside_us(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lossless(plan: NodePlan, name: str, command: list[str], tell: node.Tell) -> Trial:
        if name == "js-libp2p":
            raise AbsentError("it ran away")
        return trial({"vinecast": 900.0, "py-libp2p": 50.0}[name])

    monkeypatch.setattr(node, "_lossless", lossless)
    monkeypatch.setattr(node, "py_libp2p", lambda: ["py"])
    monkeypatch.setattr(node, "js_libp2p", lambda: ["js"])
    results = [result for result in bench_node(NodePlan(("ten",), repeat=1)) if result.what != "rules"]
    assert [(result.measured, result.verdict) for result in results[2:]] == [
        ("18 times", "no"),
        ("not measured: it ran away", ""),
    ]
    assert results[2].target == "≥ 20 times"


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that is found as npm, and as node."""
    program = tmp_path / "npm"
    monkeypatch.setattr("shutil.which", lambda name: str(program))
    monkeypatch.setenv("VINECAST_CACHE_DIR", str(tmp_path / "cache"))
    return program


def write(program: Path, text: str) -> None:
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def test_js_libp2p_is_fetched_once(npm: Path, tmp_path: Path) -> None:
    write(npm, f"echo once >> {tmp_path}/calls; mkdir node_modules")
    command = libp2p.js_libp2p()
    assert libp2p.js_libp2p() == command
    assert (tmp_path / "calls").read_text() == "once\n"
    program = Path(command[1])
    assert program.read_bytes() == libp2p.JS_PROGRAM.read_bytes()
    assert {path.name for path in program.parent.iterdir()} == {"node_modules", "package.json", program.name}
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [program.parent.name]


def test_npm_that_fails_leaves_nothing(npm: Path, tmp_path: Path) -> None:
    write(npm, "echo 'no network' >&2; exit 1")
    with pytest.raises(AbsentError, match="npm could not fetch js-libp2p: no network"):
        libp2p.js_libp2p()
    assert list((tmp_path / "cache").iterdir()) == []


# --- the command -----------------------------------------------------------------------------------------


def test_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[NodePlan] = []

    def fake(plan: NodePlan, tell: node.Tell) -> Iterator[Result]:
        asked.append(plan)
        yield Result("one", "1 ms", 1.0, "≤ 2 ms", True)
        yield Result("two", "not measured: why", float("nan"))

    monkeypatch.setattr(node, "bench_node", fake)
    command = ["bench", "node", "--only", "two", "ten", "--events", "9", "--repeat", "2", "--with"]
    assert main([*command, "--markdown"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert lines[0] == "`vinecast bench node --repeat 2 --events 9 --only two ten --with`"
    assert lines[-2:] == ["| one | 1 ms | ≤ 2 ms | yes |", "| two | not measured: why |  |  |"]
    assert main(["bench", "node", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[1]["value"] is None
    assert asked == [NodePlan(("two", "ten"), 9, 2, ()), NodePlan()]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--only", "everything"], "invalid choice: 'everything'"),
        (["--with", "x"], "invalid choice: 'x'"),
        (["--events", "0"], "'0' is not a whole number"),
    ],
)
def test_bad_options(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "node", *arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_names_are_the_same_everywhere() -> None:
    assert (TYPED_PARTS, TYPED_RIVALS) == (PARTS, RIVALS)
    for wrong in ({"parts": ("x",)}, {"rivals": ("x",)}):
        with pytest.raises(InputError, match="does not know 'x'"):
            NodePlan(**wrong)  # type: ignore[arg-type]
