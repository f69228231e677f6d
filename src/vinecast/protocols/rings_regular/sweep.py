"""Rows that change with the slots, for a whole population. Everybody is in the same slot.

Rows: [pool, place]; stored: [pool, slot, place]. ``table`` has everybody's topics, whether regular or not.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Table
from vinecast.core.arrays.view import Peers, View, rows_of
from vinecast.core.machine import NOBODY
from vinecast.core.rule import rule
from vinecast.protocols.rings_regular import rules
from vinecast.protocols.rings_regular.rules import Regular

Online = NDArray[np.bool_]


class RegularLayer(NamedTuple):
    """Everybody's rows of the present slot, and of all slots."""

    rows: View
    """[pool, place]"""
    stored: View
    """[pool, slot, place]"""
    used: Online
    """[node], whether it is regular"""
    lost: Online
    """[node], whether everybody known is to be considered again"""
    online: Online
    table: Table
    regular: Regular
    """[node, slot]"""


@rule
def enter_slot(layer: RegularLayer, before: NDArray[np.int32], slot: int, begin: int, end: int) -> None:
    """``change_slots`` for whoever is on line and was in another slot. before: [node], its slot, or −1

    Whoever came to another slot, or is regular and was not, considers everybody it knows again.
    """
    table, regular, used = layer.table, layer.regular, layer.used
    for p in range(begin, end):
        if not layer.online[p]:
            continue
        if before[p] != slot:
            rows, stored = rows_of(layer.rows, p, table), rows_of(layer.stored, p, table)
            rules.change_slots(p, rows, stored, int(before[p]), slot, table, regular)
        layer.lost[p] |= before[p] != slot or used[p] != regular[p, slot]
        used[p] = regular[p, slot]


@rule
def put_back(partner: Peers, rows: View, table: Table, begin: int, end: int) -> None:
    """Let those who were just asked stand where they stood. partner: [node]; table: who is regular now"""
    for p in range(begin, end):
        if partner[p] != NOBODY:
            own = rows_of(rows, p, table)
            rules.put_back(p, int(partner[p]), own.peers, own.ages, table)


@rule
def add_slot(layer: RegularLayer, slot: int) -> None:
    """Let everybody's neighbours of another slot serve too. layer: with copies of the rows"""
    for p in range(layer.online.size):
        if layer.online[p]:
            rows, stored = rows_of(layer.rows, p, layer.table), rows_of(layer.stored, p, layer.table)
            rules.add_slot(p, rows, stored.peers, slot, layer.table, layer.regular)
