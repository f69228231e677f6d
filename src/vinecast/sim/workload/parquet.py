"""Workloads and traces that somebody else has prepared: Parquet tables, each a file or a folder of files.

Whatever the number of files and the order of their rows, the same rows give the same workload.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vinecast.core.errors import InputError
from vinecast.sim.workload.churn import Availability
from vinecast.sim.workload.subscriptions import Subscriptions, subscribe

_FULL = 0.9  # ours: the last nodes may have no subscription, but a tenth of all cannot by chance


def read_subscriptions(path: Path, nodes: int) -> Subscriptions:
    """Who subscribes to what: ``node`` to ``topic``, both numbered from 0, whatever else the table says."""
    node, topic = (_numbers(path, column) for column in _columns(path, {"node": "", "topic": ""}))
    if node.size == 0:
        raise InputError(f"{path}: nobody subscribes to anything")
    if node.max() >= nodes:
        raise InputError(f"{path} has a node {node.max():,}, but the run has only {nodes:,} nodes")
    if node.max() + 1 < _FULL * nodes:
        raise InputError(f"{path} has only about {node.max() + 1:,} nodes, not {nodes:,}")
    return subscribe(node, topic, nodes, max(nodes, int(topic.max()) + 1))


def read_sessions(path: Path) -> Availability:
    """Who is on line when: a row a ``node``, numbered from 0, with lists ``on_s`` and ``off_s``."""
    columns = _columns(path, {"node": "", "on_s": "list", "off_s": "list"})
    node = _numbers(path, columns[0])
    if node.size == 0:
        raise InputError(f"{path}: the trace names no node")
    order = np.argsort(node, kind="stable")
    if not np.array_equal(node[order], np.arange(node.size)):
        raise InputError(f"{path}: nodes must be numbered from 0, each once")
    on_lists, off_lists = (column.combine_chunks().take(pa.array(order)) for column in columns[1:])
    count, ends = (np.asarray(lists.value_lengths(), dtype=np.int64) for lists in (on_lists, off_lists))
    if not np.array_equal(count, ends):
        raise InputError(f"{path}: a node has as many ends of sessions as it has starts")
    on_s, off_s = (np.asarray(lists.flatten(), dtype=np.float64) for lists in (on_lists, off_lists))
    start = np.concatenate([[0], np.cumsum(count)])
    same = np.repeat(np.arange(node.size), count)
    if (off_s < on_s).any() or ((on_s[1:] < off_s[:-1]) & (same[1:] == same[:-1])).any():
        raise InputError(f"{path}: the sessions of a node must not overlap or go back")
    return Availability(start, on_s, off_s, float(off_s.max(initial=0.0)))


def _columns(path: Path, wanted: dict[str, str]) -> list[Any]:
    """The named columns. Those that are said to be a list are."""
    try:
        table = pq.read_table(path, columns=list(wanted), partitioning=None)
    except (OSError, pa.ArrowException) as error:
        raise InputError(
            f"{path}: not a Parquet table with the columns {', '.join(wanted)} ({error})"
        ) from None
    for name, kind in wanted.items():
        if name not in table.column_names:
            raise InputError(f"{path}: there is no column {name}")
        if kind == "list" and not pa.types.is_list(table.column(name).type):
            raise InputError(f"{path}: the column {name} must hold lists of numbers")
    return [table.column(name) for name in wanted]


def _numbers(path: Path, column: Any) -> Any:
    """A column of numbers of nodes. [row]"""
    if not pa.types.is_integer(column.type) or column.null_count:
        raise InputError(f"{path}: nodes must be whole numbers")
    numbers = column.to_numpy().astype(np.int64)
    if numbers.size and numbers.min() < 0:
        raise InputError(f"{path}: nodes must not be negative, but {numbers.min()} is")
    return numbers
