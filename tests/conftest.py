"""What all tests share: reproducible Hypothesis runs, and where the real data lies."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from support.paths import ROOT

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
