"""Where things are in the repository."""

from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
SCENARIOS = ROOT / "scenarios"
PIPELINES = ROOT / "pipelines"
DOCS = ROOT / "docs"
GOLDEN = TESTS / "golden"
