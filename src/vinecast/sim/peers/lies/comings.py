"""Lies of one that is never there for long: it leaves and comes back, and breaks its connections."""

from vinecast.core.machine import SECOND_US
from vinecast.sim.peers.lies.liar import Liar
from vinecast.sim.peers.lies.lie import Lie, breaking

AWAY_S = 0.3
"""Between leaving and coming back (ours)."""


def come_and_go(me: Liar) -> None:
    """Leave, in good order or not, and come back at once."""
    me.attacks[me.lying] += 1
    if me.draw(2):
        me.leave()
    else:
        me.crash()
    me.come_back(round(AWAY_S * SECOND_US))


def reconnect(me: Liar) -> None:
    """Break connections, and make them again."""
    for peer in me.others()[:3]:
        address = me.address_of(peer)
        me.break_with(peer)
        if address is not None:
            me.world_links.connect(me.number, address)
        me.attacks[me.lying] += 1


COMING_LIES: dict[str, Lie] = {
    "leaving and coming back": Lie(come_and_go, every_ms=2500),
    "reconnecting all the time": Lie(reconnect, breaks=breaking("L")),
}
