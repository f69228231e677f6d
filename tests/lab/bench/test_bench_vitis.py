"""The benchmark of Vitis and RVR, on populations that take no time."""

import pytest

from vinecast.core.errors import InputError
from vinecast.lab.bench.vitis import CONFIGS, bench_vitis, measure_alone


@pytest.mark.parametrize("system", CONFIGS)
def test_what_is_measured(system: str) -> None:
    found = measure_alone(system, "random", 100, 2, 1)
    assert found["cycle"] > 0
    assert found["published"] > 0
    assert 0.5 < found["hit"] <= 1
    assert 0 < found["gb"] < 8


def test_too_few_nodes() -> None:
    with pytest.raises(InputError, match="at least 100 nodes"):
        list(bench_vitis(10, 1))
