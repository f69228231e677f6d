"""Rules: the same results compiled and plain, and compiled code that is never older than its sources.

Every way of running is a child process of its own, on a copy of the package that nobody else edits.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import vinecast
from vinecast.core.rule import (
    CACHE_GENERATIONS_KEPT,
    COMPILED,
    ROOMS,
    WORD_MASK,
    inner_rule,
    rule,
    rule_on_words,
    rule_sources,
    word,
)

pytest.importorskip("numba")

PROBE = """
import json
import numpy as np
import vinecast
from vinecast.core import circle, draws, exchange
from vinecast.core.rule import COMPILED

edges = (0, 1, 2**31, 2**32 + 1, 2**63 - 1, 2**63, 2**64 - 1)
results = {}
for function in (circle.clockwise, circle.distance, draws.substream, draws.draw, draws.unit):
    results[function.__name__] = [function(a, b) for a in edges for b in edges]
results["mix"] = [draws.mix(a) for a in edges]
results["between"] = [circle.between(x, a, b) for x in edges for a in edges for b in edges]
results["stream"] = [draws.stream(a, draws.purpose("x"), b, 3) for a in edges for b in edges]
results["below"] = [draws.below(a, b, n) for a in edges for b in edges for n in (1, 7, 2**32 - 1)]
results["turn_word"] = [exchange.turn_word(a, b, 2**31) for a in edges for b in edges]
results["turn_order"] = [exchange.turn_order(7, instant, 50).tolist() for instant in range(5)]
start, initiator = np.empty(12, dtype=np.int32), np.empty(10, dtype=np.int32)
exchange.group_requests(np.array([3, 3, -1, 0, 9, 3, -1, -1, 9, 0], dtype=np.int32), start, initiator)
results["group_requests"] = [start.tolist(), initiator[:7].tolist()]
kinds = {name: sorted({type(value).__name__ for value in values}) for name, values in results.items()}
stats = exchange.turn_words.stats if COMPILED else ()
loaded = [sum(stats.cache_hits.values()), sum(stats.cache_misses.values())] if COMPILED else []
print(json.dumps([COMPILED, vinecast.__file__, results, kinds, loaded]))
"""


@dataclass(frozen=True)
class Answer:
    """What a child says of itself, and what its rules return."""

    compiled: bool
    package: str
    results: dict[str, Any]
    kinds: dict[str, list[str]]
    loaded: list[int]
    """How many specialisations of turn_words came from the cache, and how many did not."""


def run(script: str, package: Path, **env: str) -> str:
    """Run a script on a copy of the package, with nothing of ours in the environment but what is given."""
    clean = {key: value for key, value in os.environ.items() if not re.match("VINECAST_|NUMBA_|XDG_", key)}
    # Python's own cache would miss an edit of the same length within the same second.
    clean |= {"PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1", **env}
    child = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], env=clean, capture_output=True, text=True, timeout=120
    )
    assert child.returncode == 0, child.stderr
    return child.stdout


def probe(package: Path, **env: str) -> Answer:
    answer = Answer(*json.loads(run(PROBE, package, **env)))
    assert Path(answer.package) == package / "__init__.py"
    return answer


def copy_package(folder: Path) -> Path:
    source = Path(vinecast.__file__).parent
    return shutil.copytree(source, folder / "vinecast", ignore=shutil.ignore_patterns("__pycache__"))


def contents(cache: Path) -> set[tuple[str, int]]:
    """Every file, and when it was written."""
    return {(str(path), path.stat().st_mtime_ns) for path in cache.rglob("*") if path.is_file()}


@dataclass(frozen=True)
class Story:
    """A package is run, run again, edited, and run twice more, always with the same cache."""

    package: Path
    cache: Path
    first: Answer
    first_files: set[tuple[str, int]]
    again: Answer
    again_files: set[tuple[str, int]]
    plain: Answer
    edited: Answer
    edited_plain: Answer
    generations: list[int]
    """Folders in the cache after each compiled run."""


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    package = copy_package(tmp_path_factory.mktemp("package"))
    cache = tmp_path_factory.mktemp("cache")
    generations = []

    def compiled() -> Answer:
        answer = probe(package, VINECAST_CACHE_DIR=str(cache))
        generations.append(len(list(cache.iterdir())))
        return answer

    first, first_files = compiled(), contents(cache)
    again, again_files = compiled(), contents(cache)
    plain = probe(package, VINECAST_COMPILE="0", VINECAST_CACHE_DIR=str(cache))
    draws = package / "core" / "draws.py"
    text, edits = re.subn(r"(?m)^(GOLDEN = word\(0x.*)15\)$", r"\g<1>17)", draws.read_text("utf-8"))
    assert edits == 1
    draws.write_text(text, encoding="utf-8")
    edited = compiled()
    edited_plain = probe(package, VINECAST_COMPILE="0")
    return Story(
        package, cache, first, first_files, again, again_files, plain, edited, edited_plain, generations
    )


# Compiled and plain


def test_compiled_and_plain_rules_agree(story: Story) -> None:
    assert story.first.compiled
    assert not story.plain.compiled
    assert story.first.results == story.plain.results
    assert story.first.kinds == story.plain.kinds


def test_plain_runs_leave_no_cache(story: Story) -> None:
    assert story.plain.loaded == []
    assert story.generations[1] == 1


def test_numbas_own_switch_is_honoured(story: Story) -> None:
    answer = probe(story.package, NUMBA_DISABLE_JIT="1")
    assert not answer.compiled
    assert answer.results == story.edited_plain.results


def test_without_numba_rules_are_plain(story: Story) -> None:
    hidden = "import sys\nsys.modules['numba'] = None\n" + PROBE
    answer = Answer(*json.loads(run(hidden, story.package)))
    assert not answer.compiled
    assert answer.results == story.edited_plain.results


def scale(values: NDArray[np.int64], by: int, out: NDArray[np.int64]) -> int:
    total = 0
    for at in range(values.size):
        out[at] = int(values[at]) * by
        total += int(out[at])
    return total


def rotate(x: int, by: int) -> int:
    return ((word(x) << word(by)) | (word(x) >> (word(64) - word(by)))) & WORD_MASK


def test_a_rule_is_the_function_that_it_was() -> None:
    compiled = rule(scale)
    assert (compiled is scale) is not COMPILED
    assert compiled.__name__ == "scale"
    values = np.arange(10)
    ours, theirs = np.zeros(10, dtype=np.int64), np.zeros(10, dtype=np.int64)
    assert compiled(values, 3, ours) == scale(values, 3, theirs) == 135
    assert ours.tolist() == theirs.tolist() == (values * 3).tolist()


def test_rules_on_words_take_any_word_at_any_time() -> None:
    compiled = rule_on_words(rotate)
    for x in (1, 2**63, 3, 2**64 - 1, 5, 2**63 - 1):
        assert compiled(x, 1) == (x << 1 | x >> 63) % 2**64
        assert compiled(word(x), word(1)) == compiled(x, 1)


@rule
def _largest_of_copies(numbers: NDArray[np.int64]) -> int:
    """Makes an array, so that references are counted."""
    copies = np.empty(numbers.size, np.int64)
    for i in range(numbers.size):
        copies[i] = numbers[i]
    return _largest(copies)


@inner_rule
def _largest(numbers: NDArray[np.int64]) -> int:
    best = numbers[0]
    for i in range(1, numbers.size):
        best = max(best, numbers[i])
    return int(best)


@rule
def _largest_but_first(numbers: NDArray[np.int64]) -> int:
    """Looks at a part of an array, which makes none."""
    return _largest(numbers[1:])


def test_rules_that_make_arrays_and_rules_that_do_not_call_each_other() -> None:
    numbers = np.array([9, 3, 7, 1])
    before = sys.getrefcount(numbers)
    for _ in range(100):
        assert (_largest_of_copies(numbers), _largest(numbers), _largest_but_first(numbers)) == (9, 9, 7)
    assert sys.getrefcount(numbers) == before


def test_a_rule_may_be_typed_at_the_prompt(story: Story) -> None:
    script = "from vinecast.core.rule import rule\nprint(rule(lambda x: x + 1)(1))"
    assert run(script, story.package, VINECAST_CACHE_DIR=str(story.cache)) == "2\n"


# The cache


def test_an_unchanged_package_uses_its_cache(story: Story) -> None:
    assert story.first_files
    assert story.first.loaded == [0, 1]
    assert story.again.loaded == [1, 0]
    assert story.again_files == story.first_files
    assert story.generations[:2] == [1, 1]
    assert story.again.results == story.first.results


def test_an_edit_in_a_module_that_a_rule_calls_is_noticed(story: Story) -> None:
    assert story.edited.compiled
    assert story.edited.results["turn_order"] != story.first.results["turn_order"]
    assert story.edited.results["clockwise"] == story.first.results["clockwise"]
    assert story.edited.results == story.edited_plain.results
    assert story.generations[2] == 2


def test_rules_run_where_no_cache_can_be_written(story: Story, tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a folder")
    answer = probe(story.package, VINECAST_CACHE_DIR=str(in_the_way))
    assert answer.compiled
    assert answer.results == story.edited_plain.results
    assert in_the_way.read_text() == "not a folder"
    assert not list(story.package.rglob("*.nb?"))


def test_rules_run_when_their_cache_is_cleared_meanwhile(story: Story, tmp_path: Path) -> None:
    cache = shutil.copytree(story.cache, tmp_path / "cache")
    clear = f"import shutil\nimport vinecast.core.exchange\nshutil.rmtree({str(cache)!r})\n"
    answer = Answer(*json.loads(run(clear + PROBE, story.package, VINECAST_CACHE_DIR=str(cache))))
    assert answer.results == story.edited_plain.results


IMPORT = "import vinecast.core.rule as r\nassert r.COMPILED"


def test_the_cache_lies_with_the_users_other_caches(story: Story, tmp_path: Path) -> None:
    run(IMPORT, story.package, XDG_CACHE_HOME=str(tmp_path / "xdg"))
    run(IMPORT, story.package, HOME=str(tmp_path))
    for folder in (tmp_path / "xdg", tmp_path / ".cache"):
        assert [path.name[:6] for path in (folder / "vinecast").iterdir()] == ["rules-"]


def test_rules_run_for_a_user_without_a_home(story: Story) -> None:
    homeless = "import os, pwd\ndel os.environ['HOME']\npwd.getpwuid = {}.__getitem__\n"
    run(homeless + IMPORT, story.package, HOME="")


def test_old_generations_are_cleared_away(story: Story, tmp_path: Path) -> None:
    run(IMPORT, story.package, VINECAST_CACHE_DIR=str(tmp_path))
    (ours,) = tmp_path.iterdir()
    os.utime(ours, (0, 0))  # the oldest of all, but about to be used again
    for age in range(1, 8):
        generation = tmp_path / f"rules-{age}"
        generation.mkdir()
        (generation / "code.nbc").write_text("compiled")
        os.utime(generation, (10**9 - age, 10**9 - age))
    (tmp_path / "notes").mkdir()
    run(IMPORT, story.package, VINECAST_CACHE_DIR=str(tmp_path))
    kept = {ours.name} | {f"rules-{age}" for age in range(1, CACHE_GENERATIONS_KEPT)}
    assert CACHE_GENERATIONS_KEPT == 4
    assert {path.name for path in tmp_path.iterdir()} == kept | {"notes"}
    assert (tmp_path / "rules-1" / "code.nbc").exists()


def test_compiled_code_is_made_of_modules_with_rules_and_of_what_they_import(tmp_path: Path) -> None:
    package = tmp_path / "vinecast"
    some = "from vinecast.sim import (\n    constants,\n    numbers as n,\n)\n"
    sources = {
        "core/__init__": "from vinecast.core.lonely import x\n",
        "core/rules": f"{some}\n@inner_rule\ndef f(): ...\n",
        "core/deep": "from numpy import lonely\n",
        "core/late": "import vinecast.core.rules\n",
        "core/lonely": "from vinecast.core.rules import f\n",
        "sim/__init__": "",
        "sim/constants": "import vinecast.core.deep\n",
        "sim/numbers": "def g():\n    from vinecast.core.late import y\n",
    }
    for room in ("core", "sim"):
        (package / room).mkdir(parents=True)
    for name, text in sources.items():
        (package / f"{name}.py").write_text(text)
    names = ["core.deep", "core.late", "core.rules", "sim", "sim.constants", "sim.numbers"]
    assert list(rule_sources(package)) == [f"vinecast.{name}" for name in names]


def test_what_is_compiled_here() -> None:
    package = Path(vinecast.__file__).parent
    found = rule_sources(package)
    assert {"vinecast.core.draws", "vinecast.core.machine", "vinecast.protocols.rings.rules"} <= found.keys()
    having = {
        path.relative_to(package).parts[0]
        for path in package.rglob("*.py")
        if re.search("^@(rule|inner_rule|rule_on_words)$", path.read_text(), re.MULTILINE)
    }
    assert having <= set(ROOMS)
