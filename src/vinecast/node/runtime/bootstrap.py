"""Bootstrap: finding others, and finding them again.

A node calls on everybody whose address it was given, until all of them were met: it must not rest because
somebody came to it first, or two groups that began at the same time would never hear of each other. From then
on it calls, now and then, on somebody whom it knows from before and has no connection to: those who lost each
other come together again there. A node that knows nobody calls on those it met last, before a restart
perhaps.
"""

import asyncio
import logging
import random
from collections.abc import Sequence

from vinecast.core.errors import RemoteError
from vinecast.node.runtime.driver import Driver
from vinecast.node.storage.store import Store
from vinecast.peer.address import Address

log = logging.getLogger("vinecast.node")

LOOK_S = 0.02  # ours: between two looks whether a peer has introduced itself
WAIT_S, WAIT_S_MAX, ALONE_WAIT_S_MAX = 0.1, 60.0, 10.0  # ours: between two tries, doubled each time
REMEMBERED_PEERS = 64  # ours: of those met lately, so many are written down each minute
AGAIN_CYCLES = 30  # ours: cycles between two calls on somebody known from before


class Bootstrap:
    """Finds other nodes for one node. ``trouble`` is told, by address, why nobody was met there."""

    def __init__(
        self, driver: Driver, store: Store, join: Sequence[Address], dial_s: float, trouble: dict[str, str]
    ) -> None:
        self._driver, self._store, self._join = driver, store, join
        self._dial_s, self._trouble = dial_s, trouble

    async def keep(self) -> None:
        """Keep in touch with others for as long as the node runs."""
        await self._join_all()
        while await self._some_cycles():
            if self._is_alone():
                await self._join_all()
            else:
                await self._call_again()

    def note(self, now_us: int) -> None:
        """Write down who is there, for the time after a restart."""
        for peer, connection in list(self._driver.transport.connections().items())[:REMEMBERED_PEERS]:
            self._store.add_peer(peer, connection.address, now_us)

    def _is_alone(self) -> bool:
        return self._driver.system.knows_nobody()

    async def _join_all(self) -> None:
        """Call on everybody whose address was given, and on those last met while nobody answers."""
        missing, wait_s = list(self._join), WAIT_S
        while True:
            met = await asyncio.gather(*map(self._call_on, missing))
            missing = [address for address, is_met in zip(missing, met, strict=True) if not is_met]
            for peer in self._store.peers() if self._is_alone() else ():
                if await self._call_on(peer.address):
                    break
            if not missing and not self._is_alone():
                return
            await asyncio.sleep(wait_s * (0.5 + random.random()))
            wait_s = min(2 * wait_s, ALONE_WAIT_S_MAX if self._is_alone() else WAIT_S_MAX)

    async def _some_cycles(self) -> bool:
        """Wait until it is time to call on somebody again; False when the node leaves instead."""
        for _ in range(AGAIN_CYCLES):
            if not await self._driver.next_cycle():
                return False
            if self._is_alone():
                break
        return True

    async def _call_again(self) -> None:
        """Call on somebody known from before to whom there is no connection."""
        known = dict.fromkeys((*self._join, *(peer.address for peer in self._store.peers())))
        connected = {connection.address for connection in self._driver.transport.connections().values()}
        strangers = [address for address in known if address not in connected]
        if strangers:
            await self._call_on(random.choice(strangers))

    async def _call_on(self, address: Address) -> bool:
        """Make a connection to whoever is there, and gossip with it; whether it introduced itself."""
        driver = self._driver
        if address == driver.address:
            return True
        try:
            peer = await driver.transport.connect(address)
            async with asyncio.timeout(self._dial_s):
                while not driver.welcome(peer):
                    if not driver.transport.is_connected(peer):
                        raise RemoteError("it left without a word")
                    await asyncio.sleep(LOOK_S)
        except (RemoteError, TimeoutError) as error:
            self._trouble[str(address)] = str(error) or "no answer in time"
            log.info("could not join at %s: %s", address, error)
            return False
        self._trouble.pop(str(address), None)
        return True
