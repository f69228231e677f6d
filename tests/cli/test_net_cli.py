"""Local networks of live nodes, as real processes: what becomes of events, whatever happens to nodes."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from support.processes import PATIENCE_S, Start
from vinecast.core.machine import SECOND_US
from vinecast.core.trace import NamedRecord
from vinecast.core.trace_lines import TraceHeading, read_line
from vinecast.lab.localnet.attacks import KINDS
from vinecast.peer.limits.misbehaviour import GOSSIP_A_CYCLE
from vinecast.sim.measure.peer_runs import PeerRunMeter
from vinecast.sim.measure.reduction import TraceReducer

PERIOD_S = 0.25
NET = ("net", "6", "--topics", "4", "--subscriptions", "2", "--period", str(PERIOD_S), "--rate", "20")


def measured(folder: Path, period_us: int, patience_us: int = 3 * SECOND_US) -> dict[str, Any]:
    """What trace files tell."""
    reducer, meter = TraceReducer(), PeerRunMeter(patience_us, period_us)
    for number, path in enumerate(sorted(folder.iterdir())):
        heading, *records = map(read_line, path.read_text().splitlines())
        assert isinstance(heading, TraceHeading)
        meter.know(heading.node, number)
        reducer.take(number, [record for record in records if isinstance(record, NamedRecord)])
    meter.add(reducer.facts(0))
    meter.finish()
    return meter.measures()


def test_a_local_network(start: Start, tmp_path: Path) -> None:
    code, out, err = start(*NET, "--seconds", "2", "--json", "--trace", str(tmp_path / "traces")).end()
    summary = json.loads(out)
    assert (code, summary["trouble"]) == (0, [])
    assert (summary["up"], summary["nodes"], summary["processes"]) == (6, 6, 1)
    assert summary["rings_complete_after_s"] is not None  # on a busy machine one may come apart again
    assert summary["rings"]["of"] > 0
    assert summary["events"] >= 10
    deliveries = summary["deliveries"]
    assert deliveries["got"] == deliveries["expected"] >= summary["events"]
    assert (deliveries["repeated"], deliveries["strays"]) == (0, 0)
    assert summary["measures"]["hops_mean"] >= 1
    assert summary["measures"]["control_bytes"] > 100 > summary["measures"]["control_messages"] > 1
    assert "nodes up 6/6 · rings complete " in err
    found = measured(tmp_path / "traces", round(PERIOD_S * SECOND_US))
    assert found == summary["measures"]  # what is written is what was told


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


def test_a_local_network_and_its_simulation(start: Start) -> None:
    given = ("--latency", "20", "--compare", "--simulations", "2")
    code, out, err = start(*NET, "--seconds", "2", *given, "--json").end()
    assert code == 0, err
    told = json.loads(out)
    live, twin = told["deliveries"], told["simulated"]
    assert live["expected"] == live["got"] > 0
    assert twin["expected"] == twin["got"]
    assert (twin["repeated"], twin["strays"]) == (0, 0)
    assert [one["equal"] for one in twin["who_got_what"]] == [told["events"]] * 2
    odd = twin["who_got_what"][0]["left_out"]  # ready before an event live, and after it here
    assert abs(live["expected"] - twin["expected"]) <= odd < live["expected"] / 10
    live, twin = told["measures"], twin["measures"]
    assert live["latency_ms_p50"] >= 10, "half of the latency at the least"
    assert abs(live["hops_mean"] / twin["hops_mean"] - 1) < 0.15  # 0.03 in larger networks
    assert abs(live["duplication"] - twin["duplication"]) < 0.2
    assert 0.7 < live["control_messages"] / twin["control_messages"] < 1.4  # late timers send less


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
    assert (code, err) == (0, ""), out
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
