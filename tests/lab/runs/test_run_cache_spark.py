"""Runs that claims need, as one Spark sweep: the same results, in the same folder."""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from support.spark_tests import SPARK

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

import test_run_cache
from pyspark import cloudpickle
from test_run_cache import Square

from vinecast.cli import main
from vinecast.core.errors import InputError
from vinecast.lab.claims.grid import rings
from vinecast.lab.claims.grid.runs import RingsRun
from vinecast.lab.claims.quasar import points
from vinecast.lab.claims.registry import Setup
from vinecast.lab.runs import run_cache
from vinecast.lab.runs.run_cache import do, fetch, is_kept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_cache, "_done", {})


def test_without_a_folder_it_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "RE-7", "--scale", "small", "--spark"]) == 2
    said = capsys.readouterr().err
    assert said == "vinecast: Spark's tasks need a folder for what they find: give one with --keep DIR\n"


class TestSpark:
    pytestmark = SPARK

    def test_doing_many(self, spark: "SparkSession", tmp_path: Path) -> None:
        notes, folder = tmp_path / "notes", tmp_path / "kept"
        notes.mkdir()
        jobs = [Square(number, folder, notes) for number in (3, 4, 1, 2, 3, 5)]
        cannot = Square(13, folder, notes, fails=True)
        told: list[int] = []
        pickling: Any = cloudpickle
        pickling.register_pickle_by_value(test_run_cache)  # the workers do not know the tests
        try:
            do([*jobs, cannot], 2, lambda done, *_: told.append(done), spark="local")
        finally:
            pickling.unregister_pickle_by_value(test_run_cache)
        assert told == sorted(told)
        assert told[-1] == 6
        assert all(map(is_kept, jobs))
        assert [int(fetch(job)["square"][0]) for job in jobs] == [9, 16, 1, 4, 9, 25]
        assert test_run_cache._done_in(notes) == ["3+1+5", "4+2"]
        with pytest.raises(InputError, match="no squares here"):
            fetch(cannot)

    def test_the_grid_of_regular_rings(self, spark: "SparkSession", tmp_path: Path) -> None:
        setup = Setup("small", keep=tmp_path)
        needs = [job for job in rings.CLAIMS[1].needs(setup) if isinstance(job, RingsRun)]
        jobs = [
            dataclasses.replace(job, scene=dataclasses.replace(job.scene, cycles=15))
            for job in needs
            if job.scene.period_s == needs[0].scene.period_s
        ]
        do(jobs, 2, spark="local")
        assert len(list(tmp_path.glob("*.npz"))) == len(set(jobs))
        alone = dataclasses.replace(jobs[-1], scene=dataclasses.replace(jobs[-1].scene, keep=None))
        here, there = fetch(alone), fetch(jobs[-1])
        assert here.keys() == there.keys()
        for name, array in here.items():
            assert np.array_equal(array, there[name], equal_nan=array.dtype.kind == "f")

    def test_quasars_claims_are_one_sweep(
        self,
        spark: "SparkSession",
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """QU-1 … QU-5 on populations so small that what they show is of no interest."""
        monkeypatch.setitem(points.SIZES, "small", (64, 128))
        monkeypatch.setitem(points.POPULATIONS, "small", 1)
        monkeypatch.setitem(points.GROUPS, "small", 2)
        claims = [f"QU-{n}" for n in range(1, 6)]
        kept_at = ["--scale", "small", "--keep", str(tmp_path), "--json"]
        assert main(["reproduce", *claims, *kept_at, "--spark"]) in (0, 1)
        swept = json.loads(capsys.readouterr().out)
        assert len(list(tmp_path.glob("*.npz"))) >= 6
        monkeypatch.setattr(run_cache, "_done", {})
        for file in tmp_path.glob("*.npz"):
            file.unlink()
        assert main(["reproduce", *claims, *kept_at]) in (0, 1)
        assert json.loads(capsys.readouterr().out) == swept
        assert len(swept) == len(claims)
