"""Vinecast next to what users would pick instead, at toy sizes: it runs, loss is counted, every run ends."""

import asyncio
import json
import math
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from vinecast.cli import main, node_bench
from vinecast.core.errors import InputError, OverloadedError
from vinecast.lab.bench.rivals import measure, plan, team
from vinecast.lab.bench.rivals.measure import RivalOutcome
from vinecast.lab.bench.rivals.plan import PARTS, RIVALS, RivalPlan
from vinecast.lab.bench.rivals.publications import HANDS_AHEAD, publish_run
from vinecast.lab.bench.rivals.rows import FAST, PACED, rows_of
from vinecast.lab.bench.rivals.team import RivalRun, RivalTeam
from vinecast.lab.bench.rivals.times import Buckets, buckets_of, share_within_ms, together
from vinecast.lab.bench.team import AbsentError, need_package
from vinecast.node.runtime.loop import run


@pytest.fixture(autouse=True)
def _plain_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that start fast."""
    monkeypatch.setenv("VINECAST_COMPILE", "0")


# --- times -----------------------------------------------------------------------------------------------


def test_times_of_several_processes_are_put_together() -> None:
    parts = [buckets_of([1000] * 98), buckets_of([5000, 80_000])]
    whole = together(json.loads(json.dumps(part)) for part in parts)
    assert whole.total() == 100
    assert share_within_ms(whole, 50) == pytest.approx(1.0, rel=0.02)
    assert share_within_ms(whole, 98) == pytest.approx(5.0, rel=0.02)
    assert share_within_ms(whole, 99) == pytest.approx(80.0, rel=0.02)
    assert share_within_ms(Buckets(buckets_of([0])), 99) == pytest.approx(0.001)
    assert math.isnan(share_within_ms(Buckets(), 50))


# --- publishing ------------------------------------------------------------------------------------------


class FakeMember:
    """Takes so many events, and some time for each hand."""

    def __init__(self, room: int = 1_000_000, takes_s: float = 0.0) -> None:
        self.room, self.takes_s = room, takes_s
        self.hands: list[int] = []
        self.under_way = self.most_under_way = 0

    async def join(self, peers: list[str]) -> None:
        pass

    async def ready(self, members: int) -> None:
        pass

    async def publish(self, payloads: list[bytes]) -> None:
        if sum(self.hands) + len(payloads) > self.room:
            raise OverloadedError("enough")
        self.hands.append(len(payloads))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(self.takes_s)
        self.under_way -= 1


def published(member: FakeMember, **order: Any) -> dict[str, Any]:
    """What is told of a run."""
    usual = {"run": 1, "first": 0, "events": 10, "hand": 1, "rate": 0.0, "patience_s": 30.0}
    return run(publish_run(member, asyncio.sleep, usual | order))


def test_one_by_one_waits_for_each() -> None:
    member = FakeMember()
    assert published(member) == {"events": 10, "receipts": {}, "why": ""}
    assert (member.hands, member.most_under_way) == ([1] * 10, 1)


def test_hands_are_under_way_together() -> None:
    member = FakeMember(takes_s=0.001)
    assert published(member, events=100, hand=3)["events"] == 100
    assert member.hands == [3] * 33 + [1]
    assert 1 < member.most_under_way <= HANDS_AHEAD


def test_by_the_clock_nothing_waits_for_what_came_before() -> None:
    member = FakeMember(takes_s=0.05)
    told = published(member, events=10, rate=500.0)
    assert (told["events"], told["receipts"].total(), told["why"]) == (10, 10, "")
    assert member.hands == [1] * 10
    assert member.most_under_way > 1
    assert share_within_ms(told["receipts"], 50) >= 45


@pytest.mark.parametrize("how", [{"hand": 1}, {"hand": 2}, {"rate": 1000.0}])
def test_whoever_cannot_publish_says_why_and_how_far_it_came(how: dict[str, Any]) -> None:
    told = published(FakeMember(room=4), **how)
    assert 4 <= told["events"] <= 10
    assert told["why"] == "OverloadedError: enough"
    told = published(FakeMember(takes_s=9.0), patience_s=0.05, **how)
    assert told["why"] == "it took longer than 0.05 s"
    assert told["events"] >= 1


# --- runs that end ---------------------------------------------------------------------------------------

LOSSY = """
import asyncio, sys
from vinecast.lab.bench.member import payloads_of, read_line, say, serve
from vinecast.lab.bench.rivals.publications import RivalTally, publish_run
class Tally(RivalTally):
    def expect(self, run, events, timed):
        super().expect(run, events, timed)
        for payload in payloads_of(run, 0, int(sys.argv[1])):
            self.take(payload)
class Member:
    async def join(self, peers): pass
    async def ready(self, members): pass
    async def publish(self, payloads):
        if sys.argv[1] == "stuck":
            import time
            time.sleep(60)
say({"is": "up", "address": ""})
asyncio.run(serve(Member(), Tally(), read_line, asyncio.sleep, publish_run))
"""
"""A publisher that reaches nobody, or a subscriber that has so many of the events, whoever publishes."""


def lossy_run(publisher: str, *subscribers: str, publishers: int = 1) -> RivalRun:
    async def look() -> RivalRun:
        commands = [[sys.executable, "-c", LOSSY, how] for how in (*[publisher] * publishers, *subscribers)]
        async with RivalTeam.gather(commands) as members:
            members.publishers = publishers
            return await members.measure(10, publish_s=0.1, silence_s=0.3)

    return run(look())


def test_loss_is_counted_and_a_run_ends_when_nothing_arrives_any_more() -> None:
    one = lossy_run("0", "8", "10")
    assert (one.planned, one.published, one.subscribers, one.deliveries) == (10, 10, 2, 18)
    assert one.lost == pytest.approx(0.1)
    assert not one.complete
    assert one.cpu_s > 0


def test_a_run_in_which_nothing_arrives_ends_too() -> None:
    one = lossy_run("0", "0")
    assert (one.deliveries, one.lost, one.rate) == (0, 1.0, 0.0)
    assert math.isnan(one.cpu_us)


def test_several_publishers_share_the_numbers_of_a_run() -> None:
    one = lossy_run("0", "30", publishers=3)
    assert (one.planned, one.published, one.deliveries, one.lost) == (30, 30, 30, 0.0)
    assert one.complete


def test_a_publisher_that_does_not_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team, "GRACE_S", 0.2)
    with pytest.raises(AbsentError, match="a publisher did not end"):
        lossy_run("stuck", "0")


# --- rows ------------------------------------------------------------------------------------------------


def one_run(rate: float, deliveries: int = 100, why: str = "") -> RivalRun:
    times = buckets_of([2000])
    return RivalRun(10, 10, 10, deliveries, deliveries / rate, 0.01, together([]), Buckets(times), why)


def test_ratios_are_those_of_a_turn_and_what_failed_is_said() -> None:
    wanted = RivalPlan(("one-to-one",), ("jetstream", "nats", "zenoh"))
    hands, singly = wanted.scenarios()
    outcome = RivalOutcome()
    outcome.runs[hands, "vinecast-durable"] = {i: one_run(rate) for i, rate in enumerate((100, 300, 50))}
    outcome.runs[hands, "jetstream"] = {i: one_run(rate) for i, rate in enumerate((200, 300, 400))}
    outcome.runs[singly, "vinecast-durable"] = {0: one_run(100, 75, why="enough")}
    outcome.failed[singly, "nats"] = "it ran away"
    outcome.absent["zenoh"] = "it is not there"
    rows = list(rows_of(wanted, outcome))
    found = {row.cells()[:2]: row for row in rows}
    ratio = found["1 → 1, 256 in hand", "Vinecast durable against JetStream (file)"]
    assert ratio.cells()[2] == "0.5 times (0.125 … 1)"
    assert "lost_percent" not in ratio.numbers
    first = found["1 → 1, 256 in hand", "Vinecast durable"]
    assert first.cells()[2:] == ("100 (50 … 300)", "100 µs", "0 %")
    assert first.numbers["receipt_p50_ms"].median == pytest.approx(2.0, rel=0.02)
    ended = found["1 → 1, one by one", "Vinecast durable"]
    assert ended.cells()[-1] == "25 %; publishing ended after 10 of 10 events: enough"
    assert found["1 → 1, one by one", "NATS core"].cells()[2] == "not measured: it ran away"
    assert rows[-1].cells()[:3] == ("all", "zenoh", "not measured: it is not there")
    assert {len(row.cells()) for row in rows} == {len(FAST)}


# --- everything ------------------------------------------------------------------------------------------


def has_nats() -> bool:
    try:
        need_package("nats", "nats-py", "bench")
    except AbsentError:
        return False
    return True


@pytest.mark.skipif(not has_nats(), reason="needs the extra 'bench'")
def test_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    small = partial(RivalPlan, many=1, rates=(40,), period_s=0.2)
    monkeypatch.setattr(plan, "RivalPlan", small)
    monkeypatch.setattr("shutil.which", lambda name, path=None: None)  # nats-server stands beside Python
    options = ["--only", "one-to-one", "paced", "--with", "jetstream", "redis"]
    command = ["bench", "rivals", "--quick", "--events", "20", "--markdown", "--folder", str(tmp_path)]
    assert main([*command, *options]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert list(tmp_path.iterdir()) == []
    lines = out.splitlines()
    assert lines[0] == f"`vinecast bench rivals --events 20 --repeat 1 --seconds 1 {' '.join(options)}`"
    assert lines[2] == f"| {' | '.join(FAST)} |"
    found = {tuple(line.split(" | ")[:2]): line.strip("| ").split(" | ")[2:] for line in lines}
    who = ["Vinecast durable", "Vinecast volatile", "JetStream (file)"]
    for scenario, columns in (("256 in hand", FAST), ("one by one", FAST), ("40 a second", PACED)):
        for one in who:
            cells = found[f"| 1 → 1, {scenario}", one]
            assert (len(cells), cells[-1]) == (len(columns) - 2, "0 %")
        ratio = found[f"| 1 → 1, {scenario}", "Vinecast durable against JetStream (file)"]
        assert ratio[0].endswith(" times")
    receipts = [found["| 1 → 1, 40 a second", one][3:5] for one in who]
    assert [all(text.endswith("ms") for text in texts) for texts in receipts] == [True, False, True]
    why = found["| all", "Redis streams"][0]
    assert why.startswith(("not measured: Redis is not", "not measured: redis-py is not"))


def test_json_and_who_cannot_be_had(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none(contender: object) -> None:
        raise AbsentError("it is not installed")

    monkeypatch.setattr(measure, "_look_for", none)
    assert main(["bench", "rivals", "--json", "--with"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["who"] for row in rows] == ["Vinecast durable", "Vinecast volatile"]
    assert {row["note"] for row in rows} == {"not measured: it is not installed"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--only", "everything"], "invalid choice: 'everything'"),
        (["--with", "x"], "invalid choice: 'x'"),
        (["--events", "0"], "'0' is not a whole number"),
        (["--folder", "/nowhere/at/all"], "cannot measure in /nowhere/at/all: it is not a folder"),
    ],
)
def test_bad_options(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "rivals", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert sentence in err
    assert err.count("\n") == 1


def test_names_are_the_same_everywhere() -> None:
    assert (node_bench.SCENARIOS, node_bench.INSTEAD) == (PARTS, RIVALS)
    usual = RivalPlan()
    assert {name: getattr(usual, name) for name in node_bench.USUAL} == node_bench.USUAL
    for wrong in ({"parts": ("x",)}, {"rivals": ("x",)}):
        with pytest.raises(InputError, match="does not know 'x'"):
            RivalPlan(**wrong)  # type: ignore[arg-type]
