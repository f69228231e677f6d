"""Rows of Rings as lists, and an obvious twin of them."""

import numpy as np

from vinecast.core.arrays.profiles import Profiles, Table
from vinecast.core.machine import NOBODY
from vinecast.protocols.rings.rules import Ages, Peers

Entries = list[tuple[int, int]]
PEERS, TOPICS = 12, 5


def arrays_of(entries: Entries) -> tuple[Peers, Ages]:
    peers = np.array([peer for peer, _ in entries], dtype=np.int32)
    return peers, np.array([age for _, age in entries], dtype=np.uint16)


def entries_of(peers: Peers, ages: Ages) -> Entries:
    return [e for e in zip(peers.tolist(), ages.tolist(), strict=True) if e[0] != NOBODY]


def empty_rows(rows: int = 1, size: int = 4) -> tuple[Peers, Ages]:
    return np.full((rows, size), NOBODY, dtype=np.int32), np.zeros((rows, size), dtype=np.uint16)


def nearest(me: int, peers: set[int], size: int, population: int) -> list[int]:
    """The twin: sort everybody by distance, each way round, and take half of the places on either side."""
    half = size // 2
    lower = sorted(peers - {me}, key=lambda peer: (me - peer) % population)[:half]
    higher = sorted(peers - {me}, key=lambda peer: (peer - me) % population)[:half]
    pad = [NOBODY] * half
    return (lower + pad)[:half] + (higher + pad)[:half]


def circle_of(population: int) -> Table:
    """Nobody has a topic, but everybody a place."""
    return Profiles(np.arange(population, dtype=np.uint64), np.zeros(0, dtype=np.uint64)).table
