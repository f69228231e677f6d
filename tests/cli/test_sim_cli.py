"""vinecast sim run, show and workload: what is written and shown, and what is refused."""

import gzip
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.command_line import FILES, TINY, child, complaint, files_below, refused, strict_json
from vinecast.cli import main

pytestmark = pytest.mark.usefixtures("no_data")

# vinecast sim run.


def test_a_run_is_written_and_shown(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "run", "s.toml"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "cyclon · 30 nodes · 6 cycles of 60 s · sequential · seed 1" in out
    assert "30 are on line at the end" in out
    assert "vinecast sim show out/tiny" in out
    assert files_below(here / "out") == {"tiny", *(f"tiny/{name}" for name in FILES)}


def test_a_run_as_json(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "run", "s.toml", "--json", "--out", "r", "--threads", "2"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    summary = strict_json(out)
    assert summary == strict_json((here / "r" / "summary.json").read_text(encoding="utf-8"))
    assert (summary["nodes"], summary["seed"], summary["final"]["online"]) == (30, 1, 30)


def test_another_seed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "run", "s.toml", "--json", "--seed", "9"]) == 0
    assert strict_json(capsys.readouterr().out)["seed"] == 9
    assert "seed = 9\n" in (here / "out" / "tiny" / "scenario.toml").read_text(encoding="utf-8")


def test_other_values(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["cyclon.view_size=17", "name=other", "measure={every=3}", 'description="a = b"', "seed=4"]
    words = [word for setting in settings for word in ("--set", setting)]
    assert main(["sim", "run", "s.toml", "--json", *words, "--seed", "9"]) == 0
    summary = strict_json(capsys.readouterr().out)
    assert (summary["name"], summary["description"], summary["seed"]) == ("other", "a = b", 9)
    text = (here / "out" / "other" / "scenario.toml").read_text(encoding="utf-8")
    assert "view_size = 17\n" in text
    assert "every = 3\n" in text


def test_a_run_and_its_figures(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "run", "s.toml", "--figures", "f"]) == 0
    assert main(["sim", "show", "out/tiny", "--figures", "g"]) == 0
    assert "30 are on line" in capsys.readouterr().out
    for name in ("tiny.png", "tiny.svg"):
        assert (here / "f" / name).read_bytes() == (here / "g" / name).read_bytes()
    assert files_below(here / "f") == {"tiny.png", "tiny.svg"}


def test_force(a_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = refused(capsys, "sim", "run", "s.toml", "--out", "r")
    assert text == "r exists already: choose another --out, or --force to replace it"
    assert main(["sim", "run", "s.toml", "--out", "r", "--force", "--seed", "2", "--json"]) == 0
    assert strict_json((a_run / "summary.json").read_text(encoding="utf-8"))["seed"] == 2


def test_force_does_not_mean_any_folder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "mine").mkdir()
    (here / "mine" / "thesis.tex").touch()
    text = refused(capsys, "sim", "run", "s.toml", "--out", "mine", "--force")
    assert text == "mine is not a run's folder, so it is not replaced: choose another --out"
    assert files_below(here) == {"s.toml", "mine", "mine/thesis.tex"}


def test_a_child_writes_the_same_bytes_and_is_quiet(a_run: Path) -> None:
    done = child("sim", "run", "s.toml", "--out", "again", "--threads", "3", cwd=a_run.parent)
    assert (done.returncode, done.stderr) == (0, "")
    for name in FILES:
        assert (a_run.parent / "again" / name).read_bytes() == (a_run / name).read_bytes()
    assert "\x1b" not in done.stdout


BAD_SCENARIOS = {
    "unknown key": (TINY + "nodse = 1\n", "s.toml: unknown key nodse (did you mean nodes?)"),
    "wrong type": (TINY.replace("30", '"30"'), "s.toml: nodes must be a whole number, not a string"),
    "impossible": (TINY.replace("30", "1"), "s.toml: nodes must be at least 2, not 1"),
    "no seed": (TINY.replace("seed = 1\n", ""), "s.toml: seed is missing"),
    "no TOML": (TINY + "[start\n", "s.toml: not valid TOML: "),
    "two at once": (TINY + '[network]\nlatency = "constant"\n', 's.toml: network goes with engine = "event"'),
    "no trace": (
        TINY + '[churn]\nkind = "trace"\ntrace = "x.avt"\n',
        "x.avt: no such file beside the scenario",
    ),
    "bad trace": (TINY + '[churn]\nkind = "trace"\ntrace = "bad.avt"\n', "bad.avt:2: "),
    "bad matrix": (
        TINY.replace("seed", 'engine = "event"\nseed')
        + '[network]\nlatency = "matrix"\nmatrix = "bad.txt"\n',
        "bad.txt:1: not a row of numbers",
    ),
}


@pytest.mark.parametrize("name", BAD_SCENARIOS)
def test_a_bad_scenario(here: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    content, start = BAD_SCENARIOS[name]
    (here / "s.toml").write_text(content, encoding="utf-8")
    (here / "bad.avt").write_text("a 1 0 9\nb 1 9 0\n", encoding="utf-8")
    (here / "bad.txt").write_text("a b\n", encoding="utf-8")
    before = files_below(here)
    assert refused(capsys, "sim", "run", "s.toml", "--out", "r").startswith(start)
    assert refused(capsys, "sim", "run", "s.toml", "--out", "r", "--json").startswith(start)
    assert files_below(here) == before


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nothing.toml"], "nothing.toml: no such file"),
        (["."], ".: cannot be read (Is a directory)"),
        (["latin.toml"], "latin.toml: not UTF-8 text"),
        (
            ["s.toml", "--seed", "-1"],
            "argument --seed: '-1' is not a whole number from 0 to 2^63 - 1 (see vinecast sim run --help)",
        ),
        (["s.toml", "--data", "nowhere"], "nowhere: no such data folder"),
        (
            ["s.toml", "--set", "nodes"],
            "argument --set: 'nodes' is not KEY=VALUE (see vinecast sim run --help)",
        ),
        (["s.toml", "--set", "=3"], "argument --set: '=3' is not KEY=VALUE (see vinecast sim run --help)"),
        (["s.toml", "--set", "nodes=many"], "s.toml: nodes must be a whole number, not a string"),
        (["s.toml", "--set", "nods=3"], "s.toml: unknown key nods (did you mean nodes?)"),
        (
            ["s.toml", "--out", "s.toml"],
            "s.toml exists already: choose another --out, or --force to replace it",
        ),
        (["s.toml", "--out", "s.toml/r"], "s.toml/r: cannot be written (File exists)"),
    ],
    ids=str,
)
def test_bad_arguments_of_a_run(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], text: str
) -> None:
    (here / "latin.toml").write_bytes(b'name = "\xe9"')
    assert refused(capsys, "sim", "run", *arguments) == text
    assert files_below(here) == {"s.toml", "latin.toml"}


def test_a_bad_scenario_in_a_child(here: Path) -> None:
    (here / "s.toml").write_text(TINY + "nodse = 1\n", encoding="utf-8")
    done = child("sim", "run", "s.toml", cwd=here)
    text = complaint(done.returncode, (done.stdout, done.stderr))
    assert text == "s.toml: unknown key nodse (did you mean nodes?)"
    assert files_below(here) == {"s.toml"}


def test_the_data_folder_from_the_environment(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "data").mkdir()
    trace = "".join(f"n{i} 1 0 120\n" for i in range(30))
    (here / "data" / "x.avt.gz").write_bytes(gzip.compress(trace.encode()))
    (here / "s.toml").write_text(TINY + '[churn]\nkind = "trace"\ntrace = "x.avt.gz"\n', encoding="utf-8")
    assert main(["sim", "run", "s.toml", "--data", "data", "--json", "--out", "a"]) == 0
    given = capsys.readouterr().out
    monkeypatch.setenv("VINECAST_DATA", str(here / "data"))
    assert main(["sim", "run", "s.toml", "--json", "--out", "b"]) == 0
    assert capsys.readouterr().out == given
    assert (strict_json(given)["came"], strict_json(given)["went"]) == (30, 30)
    monkeypatch.setenv("VINECAST_DATA", str(here / "nowhere"))
    assert refused(capsys, "sim", "run", "s.toml", "--out", "c").endswith("nowhere: no such data folder")


def test_an_interrupted_run(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("vinecast.sim.scenario.run.simulate", interrupted)
    assert main(["sim", "run", "s.toml", "--out", "r"]) == 130
    assert capsys.readouterr() == ("", "vinecast: interrupted\n")
    assert files_below(here) == {"s.toml"}


INTERRUPTIBLE = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # pytest in the background may ignore it
from vinecast.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("engine", ["event", "sweep"])
def test_ctrl_c(here: Path, engine: str) -> None:
    long = f'name = "long"\nseed = 1\nengine = "{engine}"\nnodes = 2000\ncycles = 1000000\n'
    (here / "long.toml").write_text(long, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, "sim", "run", "long.toml", "--out", "r"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=here,
    )
    try:
        deadline = time.monotonic() + 30
        while not (here / ".r.partial").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out, err) == (130, "", "vinecast: interrupted\n")
    assert files_below(here) == {"s.toml", "long.toml"}


# vinecast sim show.


def test_a_run_is_shown_again(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["sim", "run", "s.toml", "--out", "r"])
    first = capsys.readouterr().out
    assert main(["sim", "show", "r"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert first.startswith(out)
    assert first.removeprefix(out).startswith("Written to r;")
    assert main(["sim", "show", "r", "--json"]) == 0
    summary = (here / "r" / "summary.json").read_text(encoding="utf-8")
    assert capsys.readouterr().out == summary


def test_a_run_of_machines_is_shown(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = TINY.replace("seed", 'engine = "event"\nseed') + (
        "[measure]\nclustering_sample = 30\npath_sources = 5\n"
        '[[faults]]\nat_cycle = 2\nkind = "crash"\nshare = 0.9\n'
        "[cyclon]\nview_size = 1\ngossip_size = 1\n"
    )
    (here / "s.toml").write_text(content, encoding="utf-8")
    assert main(["sim", "run", "s.toml", "--out", "r"]) == 0
    out = capsys.readouterr().out
    for words in ("machines on the event engine", "exchanges were begun", "clustering coefficient", "pieces"):
        assert words in out
    assert main(["sim", "show", "r"]) == 0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere", "nowhere is not a run's folder (summary.json is not there)"),
        ("s.toml", "s.toml is not a run's folder (summary.json is not there)"),
        (".", ". is not a run's folder (summary.json is not there)"),
    ],
)
def test_what_is_no_run_is_not_shown(
    here: Path, capsys: pytest.CaptureFixture[str], name: str, words: str
) -> None:
    assert refused(capsys, "sim", "show", name).startswith(words)
    assert refused(capsys, "sim", "show", name, "--json").startswith(words)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("summary.json", b"nonsense"),
        ("summary.json", b"\xff\xfe"),
        ("summary.json", b""),
        ("cycles.parquet", b"nonsense"),
        ("cycles.parquet", b"PAR1 and so on PAR1"),
        ("cycles.parquet", b""),
    ],
)
def test_a_spoilt_run_is_not_shown(
    a_run: Path, capsys: pytest.CaptureFixture[str], file: str, content: bytes
) -> None:
    (a_run / file).write_bytes(content)
    assert refused(capsys, "sim", "show", "r").startswith("r cannot be read as a run's folder: ")


@pytest.mark.parametrize("content", ["{}", "[]", "null", '"text"'])
def test_a_summary_that_is_none(a_run: Path, capsys: pytest.CaptureFixture[str], content: str) -> None:
    (a_run / "summary.json").write_text(content, encoding="utf-8")
    assert "r" in refused(capsys, "sim", "show", "r")


@pytest.mark.parametrize("spoil", ["no rows", "other columns"])
def test_measurements_that_are_none(a_run: Path, capsys: pytest.CaptureFixture[str], spoil: str) -> None:
    path = a_run / "cycles.parquet"
    table = pq.read_table(path)
    pq.write_table(table.slice(0, 0) if spoil == "no rows" else pa.table({"a": [1]}), path)
    assert "r" in refused(capsys, "sim", "show", "r")


def test_the_missing_file_is_named(a_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (a_run / "cycles.parquet").unlink()
    text = refused(capsys, "sim", "show", "r")
    assert text == "r is not a run's folder (cycles.parquet is not there)"


@pytest.mark.parametrize("description", ["see [/foo] there", "all [red] things", "[1] and [bold]"])
def test_a_description_is_shown_as_it_is(
    here: Path, capsys: pytest.CaptureFixture[str], description: str
) -> None:
    (here / "s.toml").write_text(f'description = "{description}"\n{TINY}', encoding="utf-8")
    assert main(["sim", "run", "s.toml", "--out", "r"]) == 0
    assert description in capsys.readouterr().out


@pytest.mark.parametrize("name", ["run[bold]", "[/x]"])
def test_a_folder_is_named_as_it_is(here: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert main(["sim", "run", "s.toml", "--out", name]) == 0
    assert f"vinecast sim show {name}\n" in capsys.readouterr().out


def test_a_long_folder_can_be_copied(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "long/" * 30 + "run"
    assert main(["sim", "run", "s.toml", "--out", name]) == 0
    assert f"vinecast sim show {name}\n" in capsys.readouterr().out


# vinecast sim workload.


@pytest.mark.parametrize("kind", ["random", "low", "high"])
def test_patterns(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    assert main(["sim", "workload", kind, "--nodes", "2000", "--json"]) == 0
    figures = strict_json(capsys.readouterr().out)
    assert (figures["nodes"], figures["topics"], figures["subscriptions_mean"]) == (2000, 5000, 50)
    assert main(["sim", "workload", kind, "--nodes", "2000"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "subscriptions mean" in out
    assert kind in out


def test_the_follower_graph(capsys: pytest.CaptureFixture[str]) -> None:
    from vinecast.sim.workload.subscriptions import describe, follower_graph

    assert main(["sim", "workload", "follower", "--nodes", "1000", "--seed", "3", "--json"]) == 0
    assert strict_json(capsys.readouterr().out) == describe(follower_graph(3, 1000))


def test_a_graph_from_a_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edges = "".join(f"{i} {j}\n" for i in range(30) for j in range(30))
    (here / "g.txt").write_text(edges, encoding="utf-8")
    (here / "data").mkdir()
    (here / "data" / "h.txt.gz").write_bytes(gzip.compress(edges.encode()))
    assert main(["sim", "workload", "g.txt", "--json"]) == 0
    directed = strict_json(capsys.readouterr().out)
    assert (directed["nodes"], directed["subscriptions_mean"]) == (30, 29)
    assert main(["sim", "workload", "h.txt.gz", "--data", "data", "--undirected", "--json"]) == 0
    assert strict_json(capsys.readouterr().out) == directed


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        (["nothing"], "nothing: neither a workload"),
        (["bad.txt"], "bad.txt:2: a user must be a whole number"),
        (["empty.txt"], "empty.txt: the graph has no edge"),
        (["bad.txt", "--data", "nowhere"], "nowhere: no such data folder"),
        (["follower", "--nodes", "1"], "a follower graph needs at least two nodes, not 1"),
        (["follower", "--nodes", "50"], "degrees from 1 to 49"),
    ],
    ids=str,
)
def test_a_bad_workload(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], start: str
) -> None:
    (here / "bad.txt").write_text("1 2\n1 x\n", encoding="utf-8")
    (here / "empty.txt").touch()
    assert refused(capsys, "sim", "workload", *arguments).startswith(start)


@pytest.mark.parametrize("seed", ["-1", "99999999999999999999"])
@pytest.mark.parametrize("kind", ["random", "follower"])
def test_a_seed_out_of_range(capsys: pytest.CaptureFixture[str], kind: str, seed: str) -> None:
    assert "seed" in refused(capsys, "sim", "workload", kind, "--nodes", "300", "--seed", seed)


@pytest.mark.parametrize("kind", ["random", "follower"])
def test_more_nodes_than_there_can_be(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    assert "nodes" in refused(capsys, "sim", "workload", kind, "--nodes", "1" + "0" * 21)


@pytest.mark.parametrize("nodes", ["1", "10"])
def test_a_workload_without_a_tail_is_json(capsys: pytest.CaptureFixture[str], nodes: str) -> None:
    assert main(["sim", "workload", "random", "--nodes", nodes, "--json"]) == 0
    strict_json(capsys.readouterr().out)


def test_a_graph_is_named_as_it_is(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "g[red].txt").write_text("1 2\n", encoding="utf-8")
    assert main(["sim", "workload", "g[red].txt"]) == 0
    assert "g[red].txt" in capsys.readouterr().out
