"""What becomes of a group's message in a population of Quasar at rest: published, passed on, polled for.

The same rules as the machines', on the same draws (``tests/systems/quasar/test_quasar_parity.py``).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vinecast.core.dissemination import MISSED
from vinecast.core.draws import substream
from vinecast.core.rule import rule
from vinecast.protocols.directed_walk.rules import take_in
from vinecast.protocols.directed_walk.sweep import (
    AGAIN,
    NOTICED,
    SENT,
    UNKNOWN,
    Copies,
    Departure,
    Field,
    Sight,
    Tally,
    Walking,
    go_on,
    in_order,
    set_out,
)


class Members(NamedTuple):
    """A group's members, and how they fare. place: their order."""

    node: NDArray[np.int32]
    """[place], ascending"""
    place_of: NDArray[np.int32]
    """[node], NOBODY for strangers"""
    hops: NDArray[np.int32]
    """[place], of the first copy; MISSED where none came"""
    copies: NDArray[np.int32]
    """[place], copies received"""
    asked: NDArray[np.uint64]
    """[place, id], members that answered a poll lately"""
    asked_count: NDArray[np.int32]
    """[place]"""
    waiting: NDArray[np.bool_]
    """[place], whether the last poll has not been answered"""


@rule
def publish(
    publisher: int,
    message: int,
    field: Field,
    walking: Walking,
    sight: Sight,
    members: Members,
    copies: Copies,
    tally: Tally,
) -> None:
    """Publish a message, and let it spread until no copy is left (S1 §3.2)."""
    sight.masks[:] = UNKNOWN
    place = members.place_of[publisher]
    if place >= 0:
        members.hops[place] = 0
    made = set_out(publisher, message, -1, walking.branching, field, walking, copies, Departure(0, 0, 0))
    ahead, hop = made, 0
    while ahead > 0:
        hop += 1
        in_order(copies, 0, ahead)
        found = 0
        tally[SENT] += ahead
        for i in range(ahead):
            copy = int(copies.ahead[0, i])
            node = int(copies.at[copy])
            place = members.place_of[node]
            if place < 0:
                if go_on(copy, field, walking, sight, copies, tally):
                    copies.ahead[1, found] = copy
                    found += 1
                continue
            members.copies[place] += 1
            tally[NOTICED] += int(copies.false[copy])
            if members.hops[place] != MISSED:
                tally[AGAIN] += 1
                continue
            members.hops[place] = hop
            where = Departure(made, 1, found)
            sent = set_out(node, message, copy, walking.branching, field, walking, copies, where)
            made += sent
            found += sent
        ahead = found
        for i in range(ahead):
            copies.ahead[0, i] = copies.ahead[1, i]


@rule
def poll(
    count: int, field: Field, walking: Walking, sight: Sight, members: Members, copies: Copies, tally: Tally
) -> int:
    """Let every member poll once, for the ``count``-th time; how many messages that took, answers included.

    A poll is a walk that is not drawn by the member that sends it, nor by those that it asked lately. The
    copy of the member at a place has the place's number; an answer is the same copy on its way back.
    """
    sight.masks[:] = UNKNOWN
    size, ahead, messages, hop = members.node.size, 0, 0, 0
    message = substream(sight.item, count)
    for place in range(size):
        if members.waiting[place]:
            members.asked_count[place] = 0
        members.waiting[place] = True
        node, known = int(members.node[place]), int(members.asked_count[place])
        for j in range(known):
            copies.negative[place, j] = members.asked[place, j]
        copies.known[place] = known
        where = Departure(place, 0, ahead)
        ahead += set_out(node, message, place, 1, field, walking, copies, where)
    while ahead > 0:
        hop += 1
        in_order(copies, 0, ahead)
        found = 0
        messages += ahead
        for i in range(ahead):
            copy = int(copies.ahead[0, i])
            node, asker = int(copies.at[copy]), int(members.node[copy])
            if copies.ttl[copy] < 0:  # an answer
                other = int(copies.sender[copy])
                had = members.hops[copy] != MISSED
                if copies.bears[copy] and not had:
                    members.hops[copy] = hop
                members.waiting[copy] = False
                members.asked_count[copy] = take_in(
                    members.asked[copy], int(members.asked_count[copy]), field.ids[other]
                )
                continue
            place = members.place_of[node]
            avoided = False
            for j in range(copies.known[copy]):
                avoided |= copies.negative[copy, j] == field.ids[node]
            if place >= 0 and not avoided:
                copies.bears[copy] = members.hops[place] != MISSED
                copies.at[copy], copies.sender[copy], copies.ttl[copy] = asker, node, -1
                copies.ahead[1, found] = copy
                found += 1
            elif go_on(copy, field, walking, sight, copies, tally):
                copies.ahead[1, found] = copy
                found += 1
        ahead = found
        for i in range(ahead):
            copies.ahead[0, i] = copies.ahead[1, i]
    return messages
