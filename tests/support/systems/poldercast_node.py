"""A node of PolderCast that stands alone, and what it meets."""

from typing import Any

import numpy as np

from support.systems.conformance import filter_sets
from support.systems.conformance_systems import poldercast_config
from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.topic_overlap import make_scratch
from vinecast.core.events import Effect, Received, Send, Start
from vinecast.protocols.rings import RingsRequest
from vinecast.systems.poldercast.machine import PolderCast

PEERS, TOPICS = 12, 4


def make_node(
    me: int, lists: list[list[int]] | None = None, contacts: tuple[int, ...] = (), **config: Any
) -> PolderCast:
    """One node among PEERS, all of whom want topic 0 unless told otherwise."""
    wishes = filter_sets([[0]] * PEERS if lists is None else lists, TOPICS)
    profiles = Profiles.simulated(1, wishes.start, wishes.topics, TOPICS)
    chosen = poldercast_config(**config)
    node = PolderCast(chosen, 1, me, profiles, make_scratch(PEERS, TOPICS, TOPICS, chosen.most))
    node.handle(Start(contacts), 0)
    return node


def sends(effects: list[Effect]) -> list[Send]:
    return [effect for effect in effects if isinstance(effect, Send)]


def ring_message(cycle: int, peers: list[int]) -> tuple[int, Any, Any]:
    return cycle, np.array(peers, dtype=np.int32), np.zeros(len(peers), dtype=np.uint16)


def meet_on_rings(node: PolderCast, peers: list[int]) -> None:
    """Let Rings hear of these, the first of whom says so."""
    node.handle(Received(peers[0], RingsRequest(*ring_message(1, peers[1:]))), 0)
