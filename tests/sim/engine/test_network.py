"""Latencies, losses, partitions, and the reader of latency matrices."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from vinecast.core.errors import InputError
from vinecast.sim.engine.network import Network, NetworkConfig, Partition, read_matrix, site_latencies


def delays(network: Network, count: int = 4000, nodes: int = 10) -> list[tuple[int, ...]]:
    return [network.transit(i % nodes, (i + 1) % nodes, 0) for i in range(count)]


def test_constant_latency_is_constant() -> None:
    assert set(delays(Network(NetworkConfig(latency_ms=12.5), 1, 10))) == {(12_500,)}


def test_sampled_latency_spreads_over_its_range_and_is_the_same_every_time() -> None:
    config = NetworkConfig(latency="sampled", latency_ms=10.0, latency_ms_max=20.0)
    first = delays(Network(config, 1, 10))
    values = np.array([delay for (delay,) in first])
    assert values.min() >= 10_000
    assert values.max() < 20_000
    assert abs(values.mean() - 15_000) < 200
    assert first == delays(Network(config, 1, 10))
    assert first != delays(Network(config, 2, 10))


@pytest.mark.parametrize("loss", [0.0, 0.1, 0.5, 1.0])
def test_loss_is_as_frequent_as_asked(loss: float) -> None:
    lost = [not copies for copies in delays(Network(NetworkConfig(loss=loss), 1, 10))]
    assert abs(np.mean(lost) - loss) < 0.03


def test_duplicates_are_as_frequent_as_asked() -> None:
    copies = [len(c) for c in delays(Network(NetworkConfig(duplication=0.25), 1, 10))]
    assert set(copies) == {1, 2}
    assert abs(np.mean(copies) - 1.25) < 0.03


def test_reordering_holds_some_messages_back() -> None:
    config = NetworkConfig(latency_ms=1.0, reordering=0.25, reordering_ms=50.0)
    values = np.array([delay for (delay,) in delays(Network(config, 1, 10))])
    assert abs((values > 1000).mean() - 0.25) < 0.03
    assert values.max() <= 51_000


def test_one_senders_luck_does_not_depend_on_others() -> None:
    config = NetworkConfig(loss=0.5)
    alone, crowded = Network(config, 1, 2), Network(config, 1, 2)
    luck = []
    for _ in range(50):
        crowded.transit(1, 0, 0)
        luck.append(alone.transit(0, 1, 0) == crowded.transit(0, 1, 0))
    assert all(luck)


def test_a_partition_cuts_both_ways_for_its_time() -> None:
    network = Network(NetworkConfig(partitions=(Partition(1.0, 2.0, 0.3),)), 1, 1000)
    side = network.cuts[0][2]
    a, b = side.index(True), side.index(False)
    assert abs(sum(side) - 300) < 50
    for now_us, cut in ((999_999, False), (1_000_000, True), (1_999_999, True), (2_000_000, False)):
        assert network.is_cut(a, b, now_us) is cut
        assert network.is_cut(b, a, now_us) is cut
    assert not network.is_cut(a, a, 1_500_000)


def test_a_matrix_gives_half_the_round_trip(tmp_path: Path) -> None:
    rtt = np.array([[0.0, 10.0, 30.0], [10.0, 0.0, 50.0], [30.0, 50.0, 0.0]])
    one_way = site_latencies(rtt)
    assert one_way[0, 1] == 5000
    assert one_way.diagonal().tolist() == [5000, 5000, 15_000]
    network = Network(NetworkConfig(latency="matrix", matrix="m"), 1, 50, rtt)
    used = {network.transit(a, b, 0)[0] for a in range(50) for b in range(50)}
    assert used == {5000, 15_000, 25_000}


def test_matrices_are_read_plain_and_gzipped(tmp_path: Path) -> None:
    text = "# a comment\n0 1.5\n1.5\t0\n\n"
    (tmp_path / "m.txt").write_text(text)
    (tmp_path / "m.gz").write_bytes(gzip.compress(text.encode()))
    assert (
        read_matrix(tmp_path / "m.txt").tolist()
        == read_matrix(tmp_path / "m.gz").tolist()
        == [[0, 1.5], [1.5, 0]]
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 1\n1 x\n", "m.txt:2: not a row of numbers"),
        ("0 1\n1 0 2\n", "m.txt:2: 3 columns where the first row has 2"),
        ("0 -1\n1 0\n", "m.txt:1: a round-trip time must be between"),
        ("0 nan\n1 0\n", "m.txt:1: a round-trip time must be between"),
        ("0 1\n", r"m.txt: not a square matrix \(1 rows, 2 columns\)"),
        ("", r"m.txt: not a square matrix \(0 rows, 0 columns\)"),
    ],
)
def test_a_bad_matrix_is_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "m.txt"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        read_matrix(path)


def test_a_broken_gzip_or_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "m.gz"
    path.write_bytes(gzip.compress(b"0 1\n1 0\n" * 500)[:-20])
    with pytest.raises(InputError, match=r"m\.gz: broken gzip file"):
        read_matrix(path)
    with pytest.raises(InputError, match="nowhere: no such file"):
        read_matrix(tmp_path / "nowhere")
    with pytest.raises(InputError, match="cannot be read"):
        read_matrix(tmp_path)


def test_the_planetlab_matrix(data_folder: Path) -> None:
    rtt = read_matrix(data_folder / "planetlab-490-rtt-ms.txt.gz")
    assert rtt.shape == (490, 490)
    assert 130 < np.median(rtt) < 140
