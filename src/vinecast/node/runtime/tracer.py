"""Where the trace records of a live node go: into files, if it has a folder for them, and to who runs it."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from vinecast.core.machine import SECOND_US
from vinecast.core.trace import NamedRecord
from vinecast.core.trace_lines import TraceHeading
from vinecast.node.runtime.config import NodeConfig
from vinecast.node.storage.trace_files import TraceFiles

TraceSink = Callable[[Sequence[NamedRecord]], object]
"""Takes records, in their order."""


class NodeTrace:
    """The trace of one node. InputError when its folder cannot be written."""

    def __init__(self, config: NodeConfig, node: bytes, sink: TraceSink | None) -> None:
        self.config = replace(config, traced=bool(config.traced or config.trace_folder or sink))
        """The node's settings, with which its peer leaves what is wanted here."""
        self.counters: Counter[str] = Counter()
        """Lines that were written, and lost."""
        self._sink = sink
        self._files: TraceFiles | None = None
        if config.trace_folder:
            heading = TraceHeading(node, config.system, round(config.period_s * SECOND_US))
            self._files = TraceFiles(Path(config.trace_folder), heading, config.trace_bytes)
            self.counters = self._files.counters

    def take(self, records: Sequence[NamedRecord]) -> None:
        """What happened."""
        if self._files is not None:
            self._files.write(records)
        if self._sink is not None:
            self._sink(records)

    def close(self) -> None:
        """Take no more."""
        files, self._files, self._sink = self._files, None, None
        if files is not None:
            files.close()
