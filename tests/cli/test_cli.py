"""The command line: results on standard output, one sentence on standard error when the input is wrong."""

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command_line import FILES, child, complaint, files_below, refused
from vinecast import __version__
from vinecast.cli import build_parser, main

pytestmark = pytest.mark.usefixtures("no_data")

# Help and version.


def parsers(
    parser: argparse.ArgumentParser, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    yield words, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, sub in action.choices.items():
                yield from parsers(sub, (*words, name))


COMMANDS = dict(parsers(build_parser()))


def test_the_commands() -> None:
    names = {" ".join(words) for words in COMMANDS}
    assert {"", "sim", "sim run", "sim show", "sim workload", "bench", "bench sim", "reproduce"} <= names


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_has_an_example_that_parses(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*words, "--help"])
    assert caught.value.code == 0
    out, err = capsys.readouterr()
    assert err == ""
    _, found, example = out.partition("example: vinecast ")
    assert found
    arguments = build_parser().parse_args(shlex.split(example))
    assert callable(arguments.run)
    assert example.split()[: len(words)] == list(words)


@pytest.mark.parametrize(
    "words", [words for words, parser in COMMANDS.items() if parser._defaults], ids=" ".join
)
def test_every_command_that_does_something_offers_json(words: tuple[str, ...]) -> None:
    assert "--json" in COMMANDS[words].format_help()


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr() == (f"vinecast {__version__}\n", "")


def test_the_installed_command() -> None:
    command = Path(sys.executable).with_name("vinecast")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"vinecast {__version__}\n", "")


LIGHT = """
import sys
from vinecast.cli import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
heavy = {"numpy", "rich", "numba", "scipy", "pyarrow", "pandas", "pyspark", "matplotlib"} & set(sys.modules)
sys.exit(f"imported {heavy}" if heavy else 0)
"""


@pytest.mark.parametrize("arguments", [["--help"], ["sim", "run", "--help"], ["--version"], ["nonsense"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIGHT, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["sim"],
        ["bench"],
        ["nonsense"],
        ["sim", "run"],
        ["sim", "run", "s.toml", "--threads", "0"],
        ["sim", "run", "s.toml", "--threads", "two"],
        ["sim", "run", "s.toml", "--seed", "x"],
        ["sim", "run", "s.toml", "--nonsense"],
        ["sim", "workload", "random", "--nodes", "-3"],
        ["bench", "sim", "--repeat", "0"],
        ["reproduce", "--scale", "huge"],
    ],
    ids=" ".join,
)
def test_wrong_usage(here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert " --help)" in refused(capsys, *arguments)
    assert files_below(here) == {"s.toml"}


# Standard output and standard error.


def test_head_has_seen_enough(a_run: Path) -> None:
    command = f"{shlex.quote(sys.executable)} -m vinecast sim show {shlex.quote(str(a_run))} | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1


def with_nobody_reading(*arguments: str) -> tuple[int, str]:
    cursor, writing = os.pipe()
    os.close(cursor)
    try:
        done = child(*arguments, stdout=writing)
    finally:
        os.close(writing)
    return done.returncode, done.stderr


def test_nobody_reads_the_json(a_run: Path) -> None:
    assert with_nobody_reading("sim", "show", str(a_run), "--json") == (0, "")


@pytest.mark.parametrize("arguments", [["sim", "show", "r"], ["reproduce"]], ids=" ".join)
def test_nobody_reads_the_table(a_run: Path, arguments: list[str]) -> None:
    arguments = [str(a_run) if word == "r" else word for word in arguments]
    assert with_nobody_reading(*arguments) == (0, "")


def test_no_progress_where_there_is_no_terminal(here: Path) -> None:
    done = child("sim", "run", "s.toml", cwd=here, environment={"FORCE_COLOR": "1"})
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("arguments", [["sim", "show", "r"], ["sim", "workload", "--help"]], ids=" ".join)
def test_a_terminal_that_knows_only_ascii(a_run: Path, arguments: list[str]) -> None:
    done = child(*arguments, cwd=a_run.parent, environment={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("arguments", [["sim", "show", "r"], ["sim", "show", "r", "--json"]], ids=" ".join)
def test_standard_output_is_full(a_run: Path, arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = child(*arguments, cwd=a_run.parent, stdout=full)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


TWO_KILOBYTES = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
from vinecast.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_the_disk_is_full(here: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TWO_KILOBYTES, "sim", "run", "s.toml", "--out", "r"],
        cwd=here,
        env={**os.environ, "VINECAST_COMPILE": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert files_below(here) == {"s.toml"}
    text = complaint(done.returncode, (done.stdout, done.stderr))
    assert text.startswith("r: cannot be written")


# Extras that are not installed.

BLOCKED = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
from vinecast.cli import main
sys.exit(main(sys.argv[2:]))
"""


def without(modules: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", BLOCKED, modules, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("module", "arguments", "what"),
    [
        ("pyarrow", ["sim", "run", "s.toml"], "running a scenario"),
        ("tomli_w", ["sim", "run", "s.toml"], "running a scenario"),
        ("scipy", ["sim", "run", "s.toml"], "vinecast sim run"),
        ("pyarrow", ["sim", "show", "r"], "reading a run"),
        ("scipy", ["sim", "workload", "low"], "vinecast sim workload"),
        ("scipy", ["reproduce"], "vinecast reproduce"),
        ("scipy", ["bench", "sim"], "vinecast bench sim"),
    ],
    ids=str,
)
def test_an_extra_that_is_not_installed(here: Path, module: str, arguments: list[str], what: str) -> None:
    done = without(f"{module},numba", *arguments, cwd=here)
    text = complaint(done.returncode, (done.stdout, done.stderr))
    assert text == f"{what} needs the extra 'sim' ({module} is not installed): pip install 'vinecast[sim]'"
    assert files_below(here) == {"s.toml"}


@pytest.mark.parametrize(
    "arguments",
    [["sim", "run", "s.toml"], ["sim", "show", "r"], ["reproduce", "CY-1", "--scale", "small"]],
    ids=str,
)
def test_figures_without_matplotlib_are_refused_before_the_work(here: Path, arguments: list[str]) -> None:
    done = without("matplotlib", *arguments, "--figures", "f", cwd=here)
    text = complaint(done.returncode, (done.stdout, done.stderr))
    wanted = "drawing figures needs the extra 'figures' (matplotlib is not installed)"
    assert text == f"{wanted}: pip install 'vinecast[figures]'"
    assert files_below(here) == {"s.toml"}


def test_without_numba_it_just_works(a_run: Path) -> None:
    done = without("numba,llvmlite", "sim", "run", "s.toml", "--out", "plain", cwd=a_run.parent)
    assert (done.returncode, done.stderr) == (0, "")
    for name in FILES:
        assert (a_run.parent / "plain" / name).read_bytes() == (a_run / name).read_bytes()


def test_an_import_error_of_our_own_is_not_hidden() -> None:
    from vinecast.cli.output import need

    with pytest.raises(ModuleNotFoundError), need("this", "sim"):
        raise ModuleNotFoundError("no vinecast.nonsense", name="vinecast.nonsense")
