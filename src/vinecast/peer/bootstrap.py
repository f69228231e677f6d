"""Bootstrap: finding others, and finding them again.

A node calls on everybody whose address it was given, until all of them were met: it must not rest because
somebody came to it first, or two groups that began at the same time would never hear of each other. From then
on it calls, now and then, on somebody whom it knows from before and has no connection to: those who lost each
other come together again there. A node that knows nobody calls on those it met last, before a restart
perhaps.
"""

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from vinecast.core.draws import below, purpose, stream, unit
from vinecast.core.machine import NOBODY, SECOND_US
from vinecast.peer.address import Address
from vinecast.peer.links import Links
from vinecast.peer.outputs import DialAddress, PeerOutput
from vinecast.peer.routing import Routing
from vinecast.peer.table.peer_table import PeerTable
from vinecast.systems.common.router import ME

WAIT_S, WAIT_S_MAX, ALONE_WAIT_S_MAX = 0.1, 60.0, 10.0  # ours: between two tries, doubled each time
REMEMBERED_PEERS = 64  # ours: addresses of those met lately
AGAIN_CYCLES = 30  # ours: cycles between two calls on somebody known from before

BOOTSTRAP_TIMER = "bootstrap"
_CALLS = purpose("peer.bootstrap")


class BootstrapHost(Protocol):
    """The peer, as far as it is needed here."""

    address: Address
    links: Links
    system: Routing
    peer_table: PeerTable
    out: list[PeerOutput]

    def now_us(self) -> int:
        """The time, of a clock that never goes back."""

    def set_timer(self, name: str, after_us: int) -> None:
        """Have a timer run out after so long."""

    def welcome(self, peer: bytes) -> bool:
        """Gossip with a peer that was called on; False while it has not introduced itself."""


class Bootstrap:
    """Finds other nodes for one node."""

    def __init__(self, host: BootstrapHost, seed: int) -> None:
        self._host, self._seed = host, seed
        self.trouble: dict[str, str] = {}
        """Address of ``addresses`` → why nobody was met there, when last tried."""
        self._join: tuple[Address, ...] = ()
        self._missing: dict[Address, None] = {}
        """Addresses that it was given where nobody was met yet."""
        self._remembered: dict[Address, None] = {}
        """Of those met lately, the last first, and before a restart."""
        self._untried: deque[Address] = deque()
        """Of those, who are still to be called on in this round."""
        self._calling: dict[Address, int] = {}
        """Address that is being called on → since when."""
        self._greeting: dict[Address, bytes] = {}
        """Address → the peer that was reached there, and has not introduced itself."""
        self._is_joining = True
        self._wait_s = WAIT_S
        self._cycles = self._draws = 0

    @property
    def addresses(self) -> list[Address]:
        """Where others are or were, as far as it was told."""
        return list(dict.fromkeys((*self._join, *self._remembered)))

    @property
    def expects_one(self) -> bool:
        """Whether somebody may be there whom it was told of: not everybody was called on in vain."""
        return any(str(address) not in self.trouble for address in self.addresses)

    # What happens.

    def begin(self, join: Iterable[Address], remembered: Iterable[Address]) -> None:
        """The node comes up."""
        self._join = tuple(join)
        self._missing = dict.fromkeys(self._join)
        self._remembered = dict.fromkeys(remembered)
        self._begin_round()

    def reached(self, address: Address, peer: bytes) -> None:
        """Somebody answers there; it has been met when it has introduced itself."""
        if address in self._calling:
            self._greeting[address] = peer
            self.met(peer)

    def met(self, peer: bytes) -> None:
        """A peer may have introduced itself."""
        number = self._host.peer_table.number_of(peer)
        address = None if number == NOBODY else self._host.peer_table.address_of(number)
        if address is not None and number != ME:
            self._remembered = {address: None, **self._remembered}
            if len(self._remembered) > REMEMBERED_PEERS:
                self._remembered.popitem()
        if peer in self._greeting.values() and self._host.welcome(peer):
            self._settle_all(self._reached_as(peer), "")

    def lost(self, peer: bytes) -> None:
        """A connection is gone."""
        self._settle_all(self._reached_as(peer), "it left without a word")

    def failed(self, address: Address, reason: str) -> None:
        """Nobody was reached there."""
        if address in self._calling:
            self._settle(address, reason)

    def fire(self) -> None:
        """It is time to look: at those who do not answer, or for the next round."""
        if not self._calling:
            if self._is_joining:
                self._begin_round()
            return
        now_us, dial_us = self._host.now_us(), round(self._host.links.limits.dial_s * SECOND_US)
        late = [address for address in self._greeting if self._is_late(address, now_us - dial_us)]
        self._settle_all(late, "no answer in time")
        if self._calling:
            self._host.set_timer(BOOTSTRAP_TIMER, dial_us)

    def end_cycle(self) -> None:
        """A cycle of gossip is over."""
        if self._is_joining:
            return
        self._cycles += 1
        if self._is_alone():
            self._is_joining, self._wait_s, self._missing = True, WAIT_S, dict.fromkeys(self._join)
            self._begin_round()
        elif self._cycles >= AGAIN_CYCLES:
            self._cycles = 0
            self._call_again()

    # Rounds of calls.

    def _begin_round(self) -> None:
        self._untried = deque(self._remembered)
        self._call(list(self._missing))
        self._go_on()

    def _go_on(self) -> None:
        """Where nobody is being called on: the next one, the next round, or that is all."""
        while not self._calling and self._is_joining:
            if self._is_alone() and self._untried:
                self._call([self._untried.popleft()])
                continue
            if not self._missing and not self._is_alone():
                self._is_joining, self._cycles = False, 0
                return
            self._host.set_timer(BOOTSTRAP_TIMER, round(self._wait_s * (0.5 + self._unit()) * SECOND_US))
            longest = ALONE_WAIT_S_MAX if self._is_alone() else WAIT_S_MAX
            self._wait_s = min(2 * self._wait_s, longest)
            return

    def _call_again(self) -> None:
        """Call on somebody known from before to whom there is no connection."""
        table = self._host.peer_table
        numbers = (table.number_of(peer) for peer in self._host.links.up)
        connected = {table.address_of(number) for number in numbers if number != NOBODY}
        strangers = [address for address in self.addresses if address not in connected]
        if strangers:
            self._call([strangers[below(self._key(), self._draws, len(strangers))]])

    def _call(self, addresses: Iterable[Address]) -> None:
        """Call on whoever is there."""
        for address in addresses:
            if address == self._host.address:
                self._missing.pop(address, None)
            elif address not in self._calling:
                if not self._calling:
                    dial_us = round(self._host.links.limits.dial_s * SECOND_US)
                    self._host.set_timer(BOOTSTRAP_TIMER, 2 * dial_us)
                self._calling[address] = self._host.now_us()
                self._host.out.append(DialAddress(address))

    def _reached_as(self, peer: bytes) -> list[Address]:
        """Where a peer was reached that has not introduced itself; it may have several names."""
        return [address for address, reached in self._greeting.items() if reached == peer]

    def _settle_all(self, addresses: Iterable[Address], trouble: str) -> None:
        for address in addresses:
            del self._greeting[address]
            self._settle(address, trouble)

    def _settle(self, address: Address, trouble: str) -> None:
        """What came of a call; no trouble: somebody was met."""
        self._calling.pop(address, None)
        self.trouble.pop(str(address), None)
        if trouble:
            self.trouble[str(address)] = trouble
        else:
            self._missing.pop(address, None)
        known = set(map(str, self.addresses))
        self.trouble = {told: why for told, why in self.trouble.items() if told in known}
        self._go_on()

    def _is_late(self, address: Address, before_us: int) -> bool:
        return self._calling.get(address, 0) <= before_us

    def _is_alone(self) -> bool:
        return self._host.system.knows_nobody()

    def _key(self) -> int:
        self._draws += 1
        return stream(self._seed, _CALLS, 0, ME)

    def _unit(self) -> float:
        return unit(self._key(), self._draws)
