"""Working memory of rules. They leave it as they found it, so that the peers of one thread share it."""

from functools import lru_cache

from vinecast.core.arrays.topic_overlap import make_scratch

SIZES_MAX = 16
"""Sizes of working memory that are kept (ours): the peers of a process mostly have the same settings."""


class ScratchPool:
    """Working memory of one thread. ``take`` has the parameters of ``make_scratch``, and returns the same
    memory for the same."""

    def __init__(self) -> None:
        self.take = lru_cache(maxsize=SIZES_MAX)(make_scratch)
