"""A standalone Spark cluster of real processes, from the installed PySpark: a master and some workers.

PySpark's wheel has no scripts that start one, but ``spark-class`` runs the same two programs. Everything
listens on the loopback address, on ports that are free; a program says in its log which one it got.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark

from vinecast.pipeline.java import find_java, java_home

HOST = "127.0.0.1"
PATIENCE_S = 60
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # for a JVM that lives a minute
SPARK_HOME = Path(pyspark.__file__).parent


@dataclass(frozen=True)
class Cluster:
    """A cluster that is up."""

    master: str
    workers: tuple[int, ...]
    """Process ids."""
    python: Path
    """A Python for the executors that has all that Vinecast needs, but not Vinecast."""
    cache: Path
    """The executors' cache folder."""
    options: tuple[str, ...]
    """What a command of the pipeline is given to run here."""

    def executors(self) -> list[int]:
        """The process ids of the executors that are running."""
        return [child for worker in self.workers for child in _children(worker)]


@contextmanager
def start_cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """Start a master and workers of one core each; all of them are gone at the end."""
    python, cache = bare_python(folder / "python"), folder / "cache"
    settings = (
        f"spark.driver.host={HOST}",
        "spark.driver.memory=512m",
        "spark.sql.shuffle.partitions=3",
        f"spark.executor.extraJavaOptions={QUICK_START}",
    )
    options = ["--python", str(python), "--memory", "512m"]
    options += [word for setting in settings for word in ("--conf", setting)]
    with ExitStack() as running:

        def start(program: str, *arguments: str) -> tuple[int, Path]:
            name = f"org.apache.spark.deploy.{program.lower()}.{program}"
            log = folder / f"{program.lower()}-{len(list(folder.glob('*.log')))}.log"
            command = [str(SPARK_HOME / "bin" / "spark-class"), name, "--host", HOST, "--port", "0"]
            with log.open("wb") as output:
                process = subprocess.Popen(
                    [*command, "--webui-port", "0", *arguments],
                    env=_environment(cache),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            running.callback(_end, process)
            return process.pid, log

        _, log = start("Master")
        master = _wait_for(log, rf"Starting Spark master at (spark://{HOST}:\d+)")
        started = [
            start("Worker", "--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work"), master)
            for _ in range(workers)
        ]
        for _, log in started:
            _wait_for(log, r"Successfully (registered) with master")
        yield Cluster(master, tuple(pid for pid, _ in started), python, cache, ("--master", master, *options))


def bare_python(folder: Path) -> Path:
    """A virtual environment that sees what is installed here, without Vinecast.

    A folder that is named in a ``.pth`` file is searched for modules but not for more such files, and an
    editable install is one.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    (site / "here.pth").write_text(f"{SPARK_HOME.parent}\n")
    return folder / "bin" / "python"


def _environment(cache: Path) -> dict[str, str]:
    """What executors inherit. Plain Python instead of a minute of compilation: the results are the same."""
    settings = ("spark.master.rest.enabled=false", "spark.worker.cleanup.enabled=false")
    return {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),
        "JAVA_HOME": str(java_home(find_java())),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": "128m",
        "SPARK_DAEMON_JAVA_OPTS": " ".join(f"-D{setting}" for setting in settings) + f" {QUICK_START}",
        "VINECAST_CACHE_DIR": str(cache),
        "VINECAST_COMPILE": "0",
    }


def _wait_for(log: Path, pattern: str) -> str:
    """The first group of a pattern, as soon as it stands in a log."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if found := re.search(pattern, log.read_text(errors="replace")):
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"no {pattern!r} within {PATIENCE_S} s:\n{log.read_text(errors='replace')[-4000:]}")


def _children(parent: int) -> list[int]:
    """The processes that a process has started and that still run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, mother = stat.read_text().rpartition(") ")[2].split()[:2]
        except OSError:  # gone meanwhile
            continue
        if int(mother) == parent and state != "Z":
            found.append(int(stat.parent.name))
    return found


def _end(process: "subprocess.Popen[bytes]") -> None:
    """A worker that is asked to end ends its executors; whoever does not listen is killed with them."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=10)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
