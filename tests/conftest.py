"""What all tests share: reproducible Hypothesis runs, and where the real data lies."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from support.command_line import TINY
from support.paths import ROOT
from support.processes import Process, Start
from vinecast.cli import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("vinecast", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("vinecast")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with real traces and graphs; tests that need it are skipped where it is absent."""
    named = os.environ.get("VINECAST_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no data folder: set VINECAST_DATA")
    return folder


@pytest.fixture
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder with real data is set."""
    monkeypatch.delenv("VINECAST_DATA", raising=False)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to stand in, with a tiny scenario."""
    (tmp_path / "s.toml").write_text(TINY, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def a_run(here: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The folder of a run of the tiny scenario."""
    assert main(["sim", "run", "s.toml", "--out", "r"]) == 0
    capsys.readouterr()
    return here / "r"


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """The one Spark session of the suite; tests that use it say ``pytestmark = SPARK``."""
    pytest.importorskip("pyspark", reason="needs the extra 'spark'")
    from vinecast.pipeline.session import SessionConfig, open_session

    config = SessionConfig(
        master="local[2,4]",
        memory="1g",
        partitions=2,
        java_options="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        settings={"spark.sql.adaptive.enabled": "false"},
    )
    with open_session(config) as session:
        yield session


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts commands as real processes, which end with the test."""
    started: list[Process] = []

    def begin(*arguments: str, **environment: str) -> Process:
        started.append(Process(*arguments, **environment))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
