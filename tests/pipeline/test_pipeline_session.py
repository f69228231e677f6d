"""Spark sessions: settings, one at a time, and the package for a cluster."""

import ast
import os
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import vinecast
from support.spark_tests import SPARK
from vinecast.core.errors import InputError

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

from pyspark.sql import SparkSession

from vinecast.pipeline.doctor import examine
from vinecast.pipeline.session import SessionConfig, check_reachable, cores, open_session, spark_settings
from vinecast.pipeline.ship import pack

pytestmark = SPARK


def test_one_worker_of_the_suite_runs_all_spark_tests(request: pytest.FixtureRequest) -> None:
    """With ``--dist loadgroup``; where pytest and its plugin do not fit together, groups are ignored."""
    if not request.config.getoption("loadgroup", default=False):
        pytest.skip("needs pytest -n … --dist loadgroup")
    assert request.node.nodeid.endswith("@spark")


def test_local_mode_fits_the_machine() -> None:
    settings = spark_settings(SessionConfig())
    assert SessionConfig().address == f"local[{cores()},4]"
    masters = ("local", "local[2]", "local[*]", "local[2,1]", "yarn")
    told = ["local[1,4]", "local[2,4]", "local[*,4]", "local[2,1]", "yarn"]
    assert [SessionConfig(master=master).address for master in masters] == told, "a task is tried again"
    assert settings["spark.sql.shuffle.partitions"] == str(4 * cores())
    assert 1024 <= int(settings["spark.driver.memory"].removesuffix("m")) <= 4096
    assert settings["spark.ui.enabled"] == "false"


def test_a_cluster_keeps_its_own_defaults_and_gets_the_executors_memory() -> None:
    settings = spark_settings(SessionConfig(master="spark://host:7077", memory="3g"))
    assert settings["spark.executor.memory"] == "3g"
    assert "spark.driver.memory" not in settings
    assert "spark.sql.shuffle.partitions" not in settings
    assert "spark.driver.host" not in settings


def test_connect_gets_no_settings_of_a_jvm_and_the_users_settings_win() -> None:
    settings = spark_settings(
        SessionConfig(remote="sc://host", settings={"spark.sql.session.timeZone": "CET"})
    )
    assert settings == {
        "spark.sql.session.timeZone": "CET",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"master": "local", "remote": "sc://host"}, "not both"),
        ({"remote": "spark://host"}, "begins with sc://"),
        ({"master": "nonsense"}, "a master is local, .* but here is 'nonsense'"),
        ({"memory": "2 gigs"}, "memory is a number with k, m, g or t"),
    ],
)
def test_a_wrong_value_is_one_sentence(config: dict[str, str], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        SessionConfig(**config)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "config",
    [
        SessionConfig(master="spark://127.0.0.1:1,127.0.0.1:2"),
        SessionConfig(remote="sc://127.0.0.1:1/;user_id=me"),
    ],
    ids=["master", "connect"],
)
def test_where_nobody_listens_spark_is_not_started(config: SessionConfig, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nobody answers at s.* \(127\.0\.0\.1:1: Connection refused"):
        check_reachable(config)
    findings = {finding.what: finding for finding in examine(config, tmp_path)}
    assert not findings["master"].ok
    assert ("grpcio" in findings) == (config.remote is not None)


def test_whoever_listens_is_reachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        check_reachable(SessionConfig(master=f"spark://127.0.0.1:1,127.0.0.1:{port}"))
        check_reachable(SessionConfig(remote=f"sc://127.0.0.1:{port}/;use_ssl=true"))
    check_reachable(SessionConfig())


def test_stages_use_nothing_that_spark_connect_lacks() -> None:
    """It has no Java beside it: no context, no RDDs."""
    lacking = {"sparkContext", "_sc", "_jvm", "_jsc", "_jdf", "_jsparkSession", "rdd", "toDebugString"}
    folder = Path(vinecast.__file__).parent / "pipeline"
    used = {
        f"{path.relative_to(folder)}:{node.lineno} {node.attr}"
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in lacking
    }
    assert used == set()


def test_a_second_session_is_the_first_and_does_not_close_it(spark: SparkSession) -> None:
    with open_session(SessionConfig(memory="3g")) as again:
        assert again is spark
    assert spark.range(3).count() == 3


def test_workers_run_the_drivers_python(spark: SparkSession) -> None:
    def interpreter(batches):  # type: ignore[no-untyped-def]
        import sys

        import pyarrow as pa

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable]})

    found = spark.range(0, 1, 1, 1).mapInArrow(interpreter, "python string").first()
    assert found is not None
    assert found.python == sys.executable


def test_the_package_that_is_sent_unpacks_once_and_is_the_package(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    path = pack(first)
    assert path.read_bytes() == pack(second).read_bytes()
    assert sorted(zipfile.ZipFile(path).namelist()) == ["package.zip", "vinecast/__init__.py"]
    job = (
        f"import sys; sys.path.insert(0, {str(path)!r})\n"
        "import vinecast, vinecast.core.rule as rule, vinecast.pipeline.session as session\n"
        "from vinecast.core.circle import __doc__ as about\n"
        "print(vinecast.__version__, vinecast.__file__, session.__file__, rule._cached)\n"
    )
    for number in range(20):
        (tmp_path / "cache" / f"shipped-{number}").mkdir(parents=True)
        os.utime(tmp_path / "cache" / f"shipped-{number}", (number, number))
    environment = {"VINECAST_CACHE_DIR": str(tmp_path / "cache"), "PATH": "/bin"}
    command = [sys.executable, "-P", "-c", job]
    both = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = [process.communicate()[0].split() for process in both]
    assert told[0] == told[1]
    version, package, module, cached = told[0]
    assert (version, cached) == (vinecast.__version__, "True")
    assert Path(module).is_relative_to(Path(package).parent)
    assert Path(package).is_relative_to(tmp_path / "cache")
    assert [folder.name for folder in (tmp_path / "cache").glob(".shipped-*")] == []
    kept = {folder.name for folder in (tmp_path / "cache").glob("shipped-*")}
    assert kept == {Path(package).parents[1].name, *(f"shipped-{number}" for number in range(13, 20))}
