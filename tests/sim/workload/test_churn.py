"""Churn: traces are read strictly, cycles agree with instants, synthetic churn is stationary."""

import gzip
import hashlib
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.paths import ROOT
from vinecast.core.errors import InputError
from vinecast.sim.workload.churn import Availability, on_off, read_avt


@pytest.fixture(scope="module")
def data() -> Path:
    folder = Path(os.environ.get("VINECAST_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("no data folder: set VINECAST_DATA")
    return folder


@pytest.fixture(scope="module")
def skype(data: Path) -> Availability:
    return read_avt(data / "skype.avt.gz")


Trace = list[list[tuple[float, float]]]


def sessions_of(times: list[float]) -> list[tuple[float, float]]:
    """Consecutive pairs of sorted times: sessions that may touch or have no length."""
    ordered = sorted(times)
    return list(zip(ordered[0::2], ordered[1::2], strict=False))


whole = st.lists(st.integers(0, 40).map(float), max_size=12)
fractions = st.lists(st.floats(0, 1e9, allow_subnormal=False), max_size=12)
traces: st.SearchStrategy[Trace] = st.lists((whole | fractions).map(sessions_of), min_size=1, max_size=6)


def text_of(trace: Trace) -> str:
    lines = [
        f"node-{number}\t{len(sessions)}\t " + " ".join(f"{on!r} {off!r}" for on, off in sessions)
        for number, sessions in enumerate(trace)
    ]
    return "# a comment\n\n" + "\n".join(lines) + "\n"


def availability_of(trace: Trace) -> Availability:
    flat = np.array([session for sessions in trace for session in sessions], dtype=np.float64).reshape(-1, 2)
    start = np.cumsum([0] + [len(sessions) for sessions in trace])
    return Availability(start, flat[:, 0], flat[:, 1], float(flat.max(initial=0.0)))


def digest_of(availability: Availability) -> str:
    arrays = (availability.start, availability.on_s, availability.off_s)
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


@given(trace=traces, packed=st.booleans())
def test_a_written_trace_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, trace: Trace, packed: bool
) -> None:
    path = tmp_path_factory.mktemp("trace") / "trace.avt"
    content = text_of(trace).encode()
    path.write_bytes(gzip.compress(content) if packed else content)
    read, expected = read_avt(path), availability_of(trace)
    assert digest_of(read) == digest_of(expected)
    assert read.horizon_s == expected.horizon_s
    assert (read.nodes, read.sessions) == (len(trace), sum(map(len, trace)))


@given(
    trace=traces,
    period_s=st.sampled_from([0.1, 0.3, 1.0, 2.0, 7.5]) | st.floats(0.01, 1e8),
    cycles=st.integers(0, 50),
)
def test_cycles_agree_with_instants(trace: Trace, period_s: float, cycles: int) -> None:
    availability = availability_of(trace)
    masks = list(availability.at_cycles(period_s, cycles))
    assert len(masks) == cycles
    for cycle, mask in enumerate(masks):
        assert np.array_equal(mask, availability.online_at(cycle * period_s))


@given(trace=traces, t_s=st.integers(-1, 41).map(float))
def test_an_instant_agrees_with_the_sessions(trace: Trace, t_s: float) -> None:
    expected = [any(on <= t_s < off for on, off in sessions) for sessions in trace]
    assert availability_of(trace).online_at(t_s).tolist() == expected


def test_sessions_that_touch_and_sessions_without_length() -> None:
    availability = availability_of([[(0, 10), (10, 20)], [(5, 5)]])
    assert [mask.tolist() for mask in availability.at_cycles(5, 5)] == [
        [True, False], [True, False], [True, False], [True, False], [False, False],
    ]  # fmt: skip
    assert availability.mean_online() == 1.0
    assert availability_of([[]]).mean_online() == 0.0


def test_a_mask_is_the_callers_to_keep() -> None:
    first, second = availability_of([[(0, 10)]]).at_cycles(1, 2)
    first[0] = False
    assert second[0]


def test_taking_the_first_nodes() -> None:
    availability = availability_of([[(0, 10)], [(5, 6), (7, 20)], [(0, 30)]])
    taken = availability.take(2)
    assert (taken.nodes, taken.sessions, taken.horizon_s) == (2, 3, 30)
    assert taken.online_at(8).tolist() == [True, True]
    for count in (0, 4):
        with pytest.raises(InputError, match=f"has 3 nodes, so {count}"):
            availability.take(count)


@pytest.mark.parametrize("period_s", [0.0, -1.0, float("nan"), float("inf")])
def test_a_cycle_has_a_length(period_s: float) -> None:
    with pytest.raises(InputError, match="period"):
        availability_of([[]]).at_cycles(period_s, 1)


def test_cycles_are_not_negative() -> None:
    with pytest.raises(InputError, match="cycles"):
        availability_of([[]]).at_cycles(1, -1)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("b", "number of sessions is missing"),
        ("b x", "must be a whole number, not 'x'"),
        ("b -1", "must be a whole number, not '-1'"),
        ("b 1.0 0 1", "must be a whole number, not '1.0'"),
        ("b 99999999999999999999 0 1", "must be a whole number"),
        ("b 2 0 1", "2 sessions need 4 times, not 2"),
        ("b 1 0 1 2", "1 sessions need 2 times, not 3"),
        ("b 1 0 x", "here is 'x'"),
        ("b 1 0 nan", "here is 'nan'"),
        ("b 1 0 inf", "here is 'inf'"),
        ("b 1 0 1e999", "here is '1e999'"),
        ("b 1 -1 1", "here is '-1'"),
        ("b 1 0 1_0", "here is '1_0'"),
        ("b 1 0 ٣", "here is '٣'"),
        ("b 1 5 4", r"session 1 ends \(4\) before it starts \(5\)"),
        ("b 2 0 10 5 20", r"session 2 starts \(5\) before its predecessor ends \(10\)"),
        ("b 2 30 40 0 10", r"session 2 starts \(0\) before its predecessor ends \(40\)"),
        ("a 1 0 1", "node a stands in line 2 already"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "bad.avt"
    path.write_text(f"# AVT\na 1 0 1\n\n{line}\nc 1 0 1\n", encoding="utf-8")
    with pytest.raises(InputError, match=rf"bad\.avt:4: .*{reason}"):
        read_avt(path)


def test_a_file_that_is_no_trace(tmp_path: Path) -> None:
    packed = gzip.compress(b"a 1 0 1\n" * 100)
    files = {
        "empty": b"",
        "comments": b"# nothing\n\n",
        "truncated": packed[: len(packed) // 2],
        "latin1": b"a 1 0 1\nb\xe9 1 0 1\n",
        "binary": bytes(range(256)),
    }
    (tmp_path / "folder").mkdir()
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    for name in [*files, "folder", "missing"]:
        with pytest.raises(InputError, match=name) as caught:
            read_avt(tmp_path / name)
        assert "\n" not in str(caught.value)


def test_the_skype_trace(skype: Availability) -> None:
    assert (skype.nodes, skype.sessions) == (2081, 29217)
    assert round(skype.horizon_s / 86400, 2) == 28.68
    assert round(skype.mean_online(), 1) == 690.5
    assert np.all(skype.on_s < skype.off_s)
    # The measurement itself sets in late (README of the data): few nodes at first, then eight hundred.
    assert np.count_nonzero(skype.online_at(5_000)) == pytest.approx(133, abs=5)
    assert np.count_nonzero(skype.online_at(14_000)) == 805


def test_the_skype_trace_in_one_minute_cycles(skype: Availability) -> None:
    online = [int(np.count_nonzero(mask)) for mask in skype.at_cycles(60, 41_300)]
    assert np.mean(online) == pytest.approx(skype.mean_online(), rel=1e-3)
    for cycle in (0, 1, 233, 234, 20_000, 41_299):
        assert online[cycle] == np.count_nonzero(skype.online_at(cycle * 60))


def test_synthetic_churn_is_stationary() -> None:
    nodes, share = 20_000, 1 / 3
    churn = on_off(7, nodes, horizon_s=50_000, mean_on_s=1_000, mean_off_s=2_000)
    deviation = (share * (1 - share) / nodes) ** 0.5
    for t_s in (0, 500, 10_000, 49_999):
        assert churn.online_at(t_s).mean() == pytest.approx(share, abs=4 * deviation)
    assert churn.mean_online() / nodes == pytest.approx(share, rel=0.01)
    complete = (churn.on_s > 0) & (churn.on_s < 25_000)  # long ones cannot be cut by the horizon there
    length = (churn.off_s - churn.on_s)[complete]
    assert length.mean() == pytest.approx(1_000, rel=0.01)
    assert length.std() == pytest.approx(1_000, rel=0.01)
    assert churn.horizon_s == 50_000


@given(
    seed=st.integers(0, 2**63 - 1), nodes=st.integers(1, 20), on=st.floats(0.5, 50), off=st.floats(0.5, 50),
    horizon_s=st.floats(0.001, 200),
)  # fmt: skip
def test_synthetic_sessions_are_in_order(
    seed: int, nodes: int, on: float, off: float, horizon_s: float
) -> None:
    churn = on_off(seed, nodes, horizon_s, on, off)
    assert churn.nodes == nodes
    for low, high in pairwise(churn.start.tolist()):
        times = np.stack([churn.on_s[low:high], churn.off_s[low:high]], axis=1).ravel()
        assert np.all(np.diff(times) > 0)
        assert np.all((times >= 0) & (times <= churn.horizon_s))


def test_a_nodes_churn_depends_on_nobody_else() -> None:
    few, many = on_off(3, 5, 1000, 10, 20), on_off(3, 50, 1000, 10, 20)
    assert digest_of(few) == digest_of(many.take(5))
    assert digest_of(few) != digest_of(on_off(4, 5, 1000, 10, 20))


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"nodes": 0}, "at least one node"),
        ({"horizon_s": 0.0}, "horizon"),
        ({"horizon_s": float("inf")}, "horizon"),
        ({"mean_on_s": -1.0}, "on-line time"),
        ({"mean_off_s": float("nan")}, "off-line time"),
        ({"mean_on_s": 1e-5, "mean_off_s": 1e-5, "horizon_s": 1e6}, "too many"),
    ],
)
def test_impossible_churn(changed: dict[str, float], reason: str) -> None:
    arguments = {"seed": 1, "nodes": 10, "horizon_s": 100.0, "mean_on_s": 1.0, "mean_off_s": 1.0} | changed
    with pytest.raises(InputError, match=reason):
        on_off(**arguments)  # type: ignore[arg-type]


def test_the_same_seed_gives_the_same_bytes_elsewhere() -> None:
    """Another process, another hash seed, no compiled rules."""
    code = (
        "import hashlib; from vinecast.sim.workload.churn import on_off; c = on_off(11, 300, 5000, 100, 300);"
        "print(hashlib.sha256(b''.join(a.tobytes() for a in (c.start, c.on_s, c.off_s))).hexdigest())"
    )
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "src"), "PYTHONHASHSEED": "77", "VINECAST_COMPILE": "0",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == digest_of(on_off(11, 300, 5000, 100, 300))
