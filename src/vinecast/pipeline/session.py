"""The one place that makes a Spark session.

Local mode is the default: all cores, each task tried up to four times, a heap that fits the machine. With
``master`` the same code runs on a cluster, with ``remote`` through Spark Connect. One session a process: a
session that is asked for while one is open is that one, with the settings it was opened with.
"""

import logging
import os
import re
import socket
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from vinecast.core.errors import InputError
from vinecast.pipeline.java import find_java, java_home
from vinecast.pipeline.ship import shipped_package

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MIB = 1 << 20
_TRIES = 4  # how often Spark tries a task before it gives up; in local mode it would be once
_LOCAL_TABLES = {
    "spark.sql.files.maxPartitionBytes": "32m",  # ours: several tasks a core, and few groups in each
    "spark.sql.codegen.aggregate.fastHashMap.capacityBit": "20",  # ours: groups of a task, most of the time
}
_LOCAL_HEAP_MIB_MAX = 4096  # ours: no stage needs more, and the Python workers want the rest

_PLAIN_LOCAL = re.compile(r"local(?:\[([0-9]+|\*)\])?")
_MASTER = re.compile(r"local$|local\[|local-cluster\[|spark://|k8s://|yarn$")
_MEMORY = re.compile(r"[1-9][0-9]*[kmgtKMGT]")
_PORTS = {"spark": 7077, "sc": 15002}  # Spark's own, where an address names none
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
_ANSWER_S = 10  # ours: how long somebody may take to answer
_LOUD_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")  # they print what is raised anyway


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """Where and how Spark runs."""

    master: str | None = None
    """A Spark master such as spark://host:7077, yarn or k8s://…; None: local mode, all cores."""
    remote: str | None = None
    """A Spark Connect address such as sc://host:15002, instead of a master."""
    memory: str | None = None
    """The JVM's heap (the driver's in local mode, an executor's on a cluster), such as 2g; None: local mode
    takes a quarter of the machine, at most 4g; a cluster has its own default."""
    partitions: int | None = None
    """Partitions after a shuffle; None: four a core in local mode, Spark's own default on a cluster."""
    python: str | None = None
    """The Python of the workers; None: this one in local mode, $PYSPARK_PYTHON or python3 on a cluster."""
    ship: bool = True
    """Whether a cluster is sent this package; without it the executors need it installed."""
    ui: bool = False
    """Whether Spark's web page is served."""
    java_options: str = ""
    """More options for the driver's JVM."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Any Spark settings; they win over ours."""

    def __post_init__(self) -> None:
        if self.master is not None and self.remote is not None:
            raise InputError("a session has a master or a Spark Connect address, not both")
        if self.master is not None and not _MASTER.match(self.master):
            raise InputError(f"a master is local, spark://…, k8s://… or yarn, but here is {self.master!r}")
        if self.memory is not None and not _MEMORY.fullmatch(self.memory):
            raise InputError(f"memory is a number with k, m, g or t, such as 2g, but here is {self.memory!r}")
        if self.remote is not None and not self.remote.startswith("sc://"):
            raise InputError(f"a Spark Connect address begins with sc://, but here is {self.remote!r}")

    @property
    def is_local(self) -> bool:
        """Whether everything runs in this machine's one JVM."""
        if self.remote is not None:
            return False
        return self.master is None or self.master == "local" or self.master.startswith("local[")

    @property
    def address(self) -> str:
        """What Spark is told to connect to."""
        if self.master is not None and (plain := _PLAIN_LOCAL.fullmatch(self.master)):
            return f"local[{plain[1] or 1},{_TRIES}]"
        return self.remote or self.master or f"local[{cores()},{_TRIES}]"

    @property
    def heap(self) -> str | None:
        """The heap that Spark is told to take, None for its own default."""
        if self.memory is not None or not self.is_local:
            return self.memory
        return f"{max(1024, min(_LOCAL_HEAP_MIB_MAX, machine_memory() // _MIB // 4))}m"


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine_memory() -> int:
    """The machine's memory in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def spark_settings(config: SessionConfig) -> dict[str, str]:
    """All settings of a session, by Spark's names for them."""
    settings = {"spark.sql.session.timeZone": "UTC", "spark.sql.execution.arrow.pyspark.enabled": "true"}
    if config.partitions is not None:
        settings["spark.sql.shuffle.partitions"] = str(config.partitions)
    if config.remote is None:
        settings |= _own_jvm_settings(config)
    return settings | dict(config.settings)


def _own_jvm_settings(config: SessionConfig) -> dict[str, str]:
    """What goes to the JVM that this process starts."""
    quiet = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    settings = {
        "spark.app.name": "vinecast",
        "spark.ui.enabled": str(config.ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"{quiet} {config.java_options}".strip(),
    }
    if config.is_local:
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        settings |= _LOCAL_TABLES
        if config.partitions is None:
            settings["spark.sql.shuffle.partitions"] = str(4 * cores())
    if config.heap is not None:
        settings["spark.driver.memory" if config.is_local else "spark.executor.memory"] = config.heap
    return settings


@contextmanager
def open_session(config: SessionConfig | None = None) -> "Iterator[SparkSession]":
    """A Spark session; closed at the end by whoever opened it first."""
    from pyspark.sql import SparkSession

    config = config or SessionConfig()
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    session = _start(config)
    try:
        with shipped_package(session) if config.ship and not config.is_local else nullcontext():
            yield session
    finally:
        session.stop()


def _start(config: SessionConfig) -> "SparkSession":
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    check_reachable(config)
    for name in _LOUD_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # Our windows without partitions are small and meant so; through Connect, Python would say it aloud.
    warnings.filterwarnings("ignore", message=".*No Partition Defined for Window")
    builder = SparkSession.builder
    builder = builder.remote(config.remote) if config.remote else builder.master(config.address)
    for key, value in spark_settings(config).items():
        builder = builder.config(key, value)
    try:
        with _environment(_variables(config)):
            return builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        raise InputError(f"Spark does not start at {config.address} ({_first_line(error)})") from error


def check_reachable(config: SessionConfig) -> None:
    """InputError where nobody listens at the address: Spark would try for minutes and then say little."""
    scheme, _, rest = config.address.partition("://")
    if scheme not in _PORTS or (scheme == "sc" and any(os.environ.get(name) for name in _PROXIES)):
        return
    silent = []
    for place in rest.split(",") if scheme == "spark" else [rest.partition("/")[0]]:
        try:
            parts = urlsplit(f"//{place}")
            address = (parts.hostname or "", parts.port or _PORTS[scheme])
            with socket.create_connection(address, timeout=_ANSWER_S):
                return
        except (OSError, ValueError) as error:
            silent.append(f"{place}: {getattr(error, 'strerror', None) or error}")
    raise InputError(f"nobody answers at {config.address} ({'; '.join(silent)})")


def _variables(config: SessionConfig) -> dict[str, str]:
    """The environment that Spark starts in."""
    if config.remote is not None:
        return {}
    variables = {"JAVA_HOME": str(java_home(find_java()))}
    python = config.python or (sys.executable if config.is_local else None)
    if python is not None:
        variables["PYSPARK_PYTHON"] = python
    if config.is_local:
        variables["SPARK_LOCAL_IP"] = "127.0.0.1"
    return variables


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Environment variables for a while; Spark reads them when it starts and not later."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if "Exception: " in line]
    return (causes or lines or [type(error).__name__])[-1 if causes else 0]
