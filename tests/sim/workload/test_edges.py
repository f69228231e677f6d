"""Edge lists: strict reading, dense numbering, and the subscriptions that follow from them."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.paths import ROOT
from vinecast.core.errors import InputError
from vinecast.sim.workload.edges import Edges, read_edges, subscriptions_from


@pytest.fixture(scope="module")
def data() -> Path:
    folder = Path(os.environ.get("VINECAST_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("no data folder: set VINECAST_DATA")
    return folder


def edges_in(path: Path, content: str) -> Edges:
    path.write_text(content, encoding="utf-8")
    return read_edges(path)


users = st.sampled_from([0, 1, 2, 3, 9, 10, 11, 100, 10**18 - 1])
separators = st.sampled_from(["\t", " ", ",", "  ", ", ", " ,", " \t"])
lines = st.tuples(users, separators, users)


@given(
    pairs=st.lists(lines, min_size=1, max_size=30),
    packed=st.booleans(),
    ending=st.sampled_from(["\n", "\r\n"]),
)
def test_edges_are_distinct_and_numbered_densely(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[int, str, int]], packed: bool, ending: str
) -> None:
    path = tmp_path_factory.mktemp("graph") / "graph.txt"
    text = "# from to" + ending + ending.join(f"{a}{separator}{b}" for a, separator, b in pairs)
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    edges = read_edges(path)
    links = [(a, b) for a, _, b in pairs if a != b]
    assert edges.names.tolist() == sorted({user for a, _, b in pairs for user in (a, b)})
    named = zip(edges.names[edges.source].tolist(), edges.names[edges.target].tolist(), strict=True)
    assert list(named) == sorted(set(links))
    assert edges.nodes == edges.names.size
    assert edges.loops_dropped == len(pairs) - len(links)
    assert edges.duplicates_dropped == len(links) - len(set(links))


@given(pairs=st.lists(st.tuples(users, users), min_size=1, max_size=30), directed=st.booleans())
def test_following_is_subscribing(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[int, int]], directed: bool
) -> None:
    path = tmp_path_factory.mktemp("graph") / "graph.txt"
    edges = edges_in(path, "".join(f"{a} {b}\n" for a, b in pairs))
    subscriptions = subscriptions_from(edges, directed)
    both = pairs if directed else pairs + [(b, a) for a, b in pairs]
    for node, name in enumerate(edges.names.tolist()):
        followed = edges.names[subscriptions.of(node)].tolist()
        assert followed == sorted({b for a, b in both if a == name and b != name})
    assert subscriptions.nodes == subscriptions.topic_count == edges.nodes


def test_comments_blanks_and_names_in_numeric_order(tmp_path: Path) -> None:
    edges = edges_in(tmp_path / "graph.txt", "# snap\n% konect\n\n  10\t9 \n 007 10\n\t# indented\n")
    assert edges.names.tolist() == [7, 9, 10]
    assert (edges.source.tolist(), edges.target.tolist()) == ([0, 2], [2, 1])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1", "an edge is two users"),
        ("1 2 3", "an edge is two users"),
        ("1,,2", "an edge is two users"),
        ("1,2,", "an edge is two users"),
        (",1 2", "an edge is two users"),
        ("1 x", "not 'x'"),
        ("1;2", "not '1;2'"),
        ("-1 2", "not '-1'"),
        ("1.5 2", "not '1.5'"),
        ("1 1_0", "not '1_0'"),
        ("1 ٣", "not '٣'"),
        ("1 9999999999999999999", "at most 18 digits"),
        ("1 2 # friends", "not '#'"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: str, reason: str) -> None:
    with pytest.raises(InputError, match=rf"bad\.txt:3: .*{reason}"):
        edges_in(tmp_path / "bad.txt", f"# graph\n1 2\n{line}\n3 4\n")


def test_a_file_that_is_no_graph(tmp_path: Path) -> None:
    packed = gzip.compress(b"1 2\n3 4\n" * 100)
    files = {
        "empty": b"",
        "comments": b"# nothing\n",
        "truncated": packed[: len(packed) // 2],
        "latin1": b"1 2\n\xe9 3\n",
    }
    (tmp_path / "folder").mkdir()
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    for name in [*files, "folder", "missing"]:
        with pytest.raises(InputError, match=name) as caught:
            read_edges(tmp_path / name)
        assert "\n" not in str(caught.value)


def test_only_loops_leave_users_without_subscriptions(tmp_path: Path) -> None:
    edges = edges_in(tmp_path / "graph.txt", "1 1\n2 2\n")
    subscriptions = subscriptions_from(edges, directed=True)
    assert (edges.nodes, edges.loops_dropped, subscriptions.count) == (2, 2, 0)


@pytest.mark.parametrize(
    ("name", "directed", "nodes", "edge_count", "loops", "subscriptions"),
    [
        ("facebook-cornell5", False, 18_660, 790_777, 0, 2 * 790_777),
        ("soc-Slashdot0902", True, 82_168, 870_161, 78_303, 870_161),
        ("twitter-bofa", True, 13_688, 68_328, 0, 68_328),
    ],
)
def test_the_real_graphs(
    data: Path, name: str, directed: bool, nodes: int, edge_count: int, loops: int, subscriptions: int
) -> None:
    edges = read_edges(data / f"{name}.txt.gz")
    assert (edges.nodes, edges.source.size) == (nodes, edge_count)
    assert (edges.loops_dropped, edges.duplicates_dropped) == (loops, 0)
    made = subscriptions_from(edges, directed)
    assert made.count == subscriptions
    start, subscribers = made.by_topic()
    if not directed:  # friendship is symmetric: who follows me is whom I follow
        assert np.array_equal(start, made.start)
        assert np.array_equal(subscribers, made.topics)
