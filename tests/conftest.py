"""What all tests share: reproducible Hypothesis runs, and where the real data lies."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("vinecast", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("vinecast")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with real traces and graphs; tests that need it are skipped where it is absent."""
    named = os.environ.get("VINECAST_DATA")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no data folder: set VINECAST_DATA")
    return folder
