"""When the layers of a system begin their next exchange: a layer whose partner may still answer waits."""

from collections.abc import Callable

from vinecast.core.machine import NOBODY
from vinecast.systems.common.wire import PATIENCE_PERIODS

DIAL_PERIODS = 2
"""Periods that a partner may take for its answer if there is no connection to it yet: it may not exist
(ours)."""
LOOKS_A_PERIOD = 8
"""How often it is looked whether it came (ours)."""


class ExchangeTimers:
    """Holds back the exchanges of one peer. ``partner_of`` says whom the layer of a timer has asked and not
    heard from, ``is_connected`` whether there is a connection to a peer."""

    def __init__(
        self, period_us: int, partner_of: Callable[[str], int], is_connected: Callable[[int], bool]
    ) -> None:
        self._period_us, self._partner_of, self._is_connected = period_us, partner_of, is_connected
        self._fired_us: dict[str, int] = {}
        """Layer → when it last began an exchange."""
        self._gone: set[int] = set()
        """Partners that said goodbye or could not be reached, lately."""

    @property
    def look_us(self) -> int:
        """Between two looks whether an answer came."""
        return self._period_us // LOOKS_A_PERIOD

    def begins(self, layer: str, now_us: int) -> bool:
        """A layer's timer has run out: whether it begins an exchange, or must wait for the last one's answer.

        Where a machine is overloaded answers come late. To gossip more slowly then is better than to take
        everybody for dead.
        """
        partner = self._partner_of(layer)
        if partner != NOBODY and partner not in self._gone:
            periods = PATIENCE_PERIODS if self._is_connected(partner) else DIAL_PERIODS
            if now_us - self._fired_us.get(layer, 0) < periods * self._period_us:
                return False
        self._fired_us[layer] = now_us
        self._gone.discard(partner)
        return True

    def lose(self, peer: int) -> None:
        """A peer is gone: nobody waits for its answer."""
        if any(self._partner_of(layer) == peer for layer in self._fired_us):
            self._gone.add(peer)
