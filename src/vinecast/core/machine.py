"""The machine protocol: the one interface between protocols and whoever drives them.

    handle(event, now_us) -> list[Effect]

A machine reads no clock, socket, disk or entropy: the time is an argument (microseconds of the node's own
clock), randomness is keyed by the seed it was built with, and nothing iterates over unordered containers.
Whatever a peer sends, ``handle`` returns: a message that breaks the protocol is counted and dropped.

A system is itself a machine: it owns its protocol machines and hands them what concerns them.
"""

from typing import Protocol

from vinecast.core.events import Effect, Event

SECOND_US = 1_000_000
"""Microseconds in a second: machines measure time in whole microseconds, so that times compare exactly."""

NOBODY = -1
"""The peer number that stands for no peer."""


class Machine(Protocol):
    """A protocol or a system on one node."""

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        """Take one event at the given time; return what should be done about it, in order."""
