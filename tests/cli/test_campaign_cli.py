"""``vinecast campaign``: what is reported, told and refused."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.command_line import refused
from vinecast.cli import main
from vinecast.lab.campaign import known

SEED = 3003
"""A small run with nodes without a disk, which receipts count."""
NO_DISK = "D1: counts holders without a disk"
ONE = ("campaign", "--seeds", f"{SEED}-{SEED}")

Capture = pytest.CaptureFixture[str]


def test_a_report(capsys: Capture) -> None:
    assert main(ONE) == 0
    out = capsys.readouterr().out
    assert NO_DISK in out
    assert "1 runs (pulsarcast 1): " in out
    assert "0 runs broke a promise in a way that is not known." in out
    assert "Not checked, since it does not exist: " in out
    assert main([*ONE, "--json", "--system", "flooding"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["first"], told["last"], told["runs"]) == (SEED, SEED, 1)
    assert told["systems"] == {"flooding": 1}
    assert told["unexpected"] == {}
    assert told["figures"]["inputs"] > 100


def test_what_is_not_known_is_made_smaller_and_told(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "KNOWN", ())
    assert main([*ONE, "--markdown"]) == 1
    out = capsys.readouterr().out
    assert f"| {NO_DISK} | 0 | 1 | {SEED} |" in out
    assert "1 runs broke a promise in a way that is not known." in out
    assert f"BROKEN  {NO_DISK}: " in out
    assert main([*ONE, "--no-stories"]) == 1
    assert "BROKEN" not in capsys.readouterr().out


def test_one_run_is_told(capsys: Capture) -> None:
    assert main([*ONE, "--story"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"Seed {SEED}, pulsarcast, 3 nodes, ")
    assert "Publish(" in out
    assert f"BROKEN  {NO_DISK}: " in out


def test_a_story_as_json(capsys: Capture) -> None:
    assert main([*ONE, "--story", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["seed"], told["system"]) == (SEED, "pulsarcast")
    assert told["story"][-1].startswith(f"BROKEN  {NO_DISK}: ")


def test_sigterm_ends_it(tmp_path: Path) -> None:
    line = [
        sys.executable,
        "-m",
        "vinecast",
        "campaign",
        "--seeds",
        "1-400",
        "--threads",
        "2",
        "--keep",
        str(tmp_path),
    ]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with process:
        time.sleep(4)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert err.endswith("vinecast: stopped\n")
    assert "leaked" not in err


def test_what_is_known(capsys: Capture) -> None:
    assert main(["campaign", "--known"]) == 0
    assert "does not exist" in capsys.readouterr().out
    assert main(["campaign", "--known", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {one["name"] for one in told["known"]} == {one.name for one in known.KNOWN}
    assert told["absent"] == known.ABSENT


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--seeds", "5-1"), "a range goes up, as 1-500 does, not '5-1'"),
        (("--seeds", "many"), "a number of seeds, or a range such as 1-500, not 'many'"),
        (("--seeds", "0x1f"), "a number of seeds, or a range such as 1-500, not '0x1f'"),
        (("--threads", "0"), "'0'"),
    ],
)
def test_words_that_are_none(capsys: Capture, arguments: tuple[str, ...], said: str) -> None:
    assert said in refused(capsys, "campaign", *arguments)


def test_what_cannot_be_done(capsys: Capture) -> None:
    said = refused(capsys, *ONE, "--system", "carrier-pigeon")
    assert said.startswith("no live system is called 'carrier-pigeon': ")
    assert refused(capsys, *ONE, "--spark").endswith("say which with --keep")
    said = refused(capsys, *ONE, "--shrink", "D9: nothing")
    assert said == f"seed {SEED} does not show 'D9: nothing'; it shows: {NO_DISK}"
    said = refused(capsys, "campaign", "--seeds", "3002-3002", "--shrink")
    assert said == "seed 3002 breaks no promise: there is nothing to make smaller"
