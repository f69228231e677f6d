"""Runs that claims need, as one Spark sweep: a task for what is done in one go.

Results lie in the folder that keeps them, which all machines of the cluster must share; Spark carries nothing
back but who is done. A task that is lost is tried again by Spark, and finds what was kept of it.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from vinecast.core.errors import InputError
from vinecast.lab.runs.run_cache import Go, attempt, is_kept
from vinecast.pipeline.session import SessionConfig, open_session

if TYPE_CHECKING:
    import pyarrow as pa

POLL_S = 0.5
"""Seconds between two looks at what is there."""


def do_goes(master: str, goes: Sequence[Go], note: Callable[[Go], object]) -> None:
    """Do these on a cluster, or on this machine (``local``). note: told of each when it is done"""
    with open_session(SessionConfig(master=None if master == "local" else master)) as spark:
        frame = spark.range(0, len(goes), 1, len(goes)).mapInArrow(partial(_work, list(goes)), "id long")
        failures: list[Exception] = []

        def act() -> None:
            try:
                frame.toArrow()
            except Exception as error:
                failures.append(error)

        thread = threading.Thread(target=act, name="goes", daemon=True)
        thread.start()
        waiting = list(goes)
        while thread.is_alive():
            thread.join(POLL_S)
            for go in [go for go in waiting if all(map(is_kept, go))]:
                waiting.remove(go)
                note(go)
    if failures:
        reason = str(failures[0]).strip().partition("\n")[0]
        raise InputError(f"Spark gave up on the runs: {reason}") from failures[0]
    for go in waiting:  # what cannot be done: the claim that asks for it says why
        note(go)


def _work(goes: list[Go], batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """For ``mapInArrow`` over the numbers of goes, one a partition."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            attempt(goes[number])
        yield batch
