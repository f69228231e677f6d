"""Lies about what is near in PolderCast: homes that have everything, and searches without end."""

from vinecast.sim.peers.lies.liar import Liar
from vinecast.sim.peers.lies.lie import Lie
from vinecast.systems.common import anycast_messages as walks
from vinecast.systems.common.wire import Entry

POLDERCAST = frozenset({"poldercast"})
TTL_MAX = 1000
"""Steps of a walk at the most, as the frame has it."""


def claim_all(me: Liar) -> None:
    """Tell of a home in which every topic is near, or of changes to one that nobody has."""
    full = walks.Home(me.draw(9), me.draw(3), b"\xff" * walks.HOME_BYTES_MAX)
    changed = walks.Home(me.draw(9), me.draw(9), me.noise(me.draw(64)))
    peer = me.victim()
    me.say_own(peer, me.pick((full, changed, walks.AskHome(), walks.RefuseHome(), walks.LeaveHome())))


def walk(me: Liar) -> None:
    """Searches for what nobody has, over as many steps as there may be."""
    negative = me.noise(8 * me.draw(4))
    ttl, level = me.pick((0, 1, TTL_MAX)), me.draw(walks.CONFIG.gravity.depth + 2) - 1
    seek = walks.SeekSubscriber(me.draw(1 << 31), negative, ttl, level, me.draw(1 << 31))
    me.say_own(me.victim(), seek)


def find(me: Liar, peer: bytes, message: object) -> bool:
    """Find a subscriber for whoever searches, who is none."""
    if not isinstance(message, walks.SeekSubscriber):
        return True
    found = Entry(me.pick(me.invented(8)), 0, b"", b"")
    me.say_own(peer, walks.FoundSubscriber(message.number, found))
    return False


WALK_LIES: dict[str, Lie] = {
    "homes that have everything": Lie(claim_all, systems=POLDERCAST),
    "searches without end": Lie(walk, find, systems=POLDERCAST),
}
