"""Pastry on one node: the rules, driven by a timer and by messages.

*Joining.* A join travels to the newcomer's own id through a contact. Every node on the way adds itself and
the rows that it can give, the last one its leaf set. With that the newcomer has joined: it announces itself
to all it now knows and compares leaf sets with its nearest neighbours (Pastry §2.4). Every few periods the
node looks itself up again, through somebody else; that finds whom it should have known, after a crowd joined
at once or a partition healed.

*Staying.* Once a period the node compares leaf sets with the nearest peer on each side, who see what it sees,
and with the farthest of one side, who sees beyond. A few others, in turn, are asked for a row of their
tables. Whoever stays silent is gone, and leaves a hole that the answers of the others fill. A leaf that is
gone is a rumour for the other leafs, who see for themselves. There is no acknowledgement of hops: what was
sent to a dead peer before it was found out is lost.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.circle import BITS
from vinecast.core.events import (
    Count,
    Effect,
    Event,
    PeerLost,
    Received,
    Send,
    SetTimer,
    Start,
    Stop,
    TimerFired,
)
from vinecast.core.machine import NOBODY
from vinecast.protocols.pastry import rules
from vinecast.protocols.pastry.config import PastryConfig
from vinecast.protocols.pastry.messages import (
    PastryAnnounce,
    PastryAnswer,
    PastryExchange,
    PastryGone,
    PastryGoodbye,
    PastryJoin,
    PastryProbe,
    PastryRow,
    PastryWelcome,
)
from vinecast.protocols.pastry.rules import HIGHER, LEAF, LOWER, NEAREST, Peers

TIMER = "pastry"
JOIN_TIMER = "pastry.join"

GATHERED_MAX = 512
"""Peers in one message, at most (ours: all rows and leafs of a node would be 288)."""
STEPS_MAX = 64
"""Hops of a join, at most (ours: about log₁₆ N are needed, each is nearer, and so only liars get here)."""
CONTACTS_MAX = 32
"""Contacts that are remembered (ours)."""
GONE_MAX = 128
"""Peers that are remembered as gone, at most (ours: a few leaf sets)."""
GONE_PERIODS = 30
"""For how long (ours). With four probes a period about eighty peers are asked in two thirds of that: hearsay
is refused for longer than anybody spreads it. With 4 periods the dead went round for ever."""
GONE_ASKED_PERIODS = 4
"""How often hearsay about a peer that is gone makes the node ask it again (ours): silence can be bad luck."""


class Pastry:
    """The machine. ``me`` is the node's own number, ``seed`` keys its draws, ``profiles`` has the ids."""

    def __init__(self, config: PastryConfig, seed: int, me: int, profiles: Profiles) -> None:
        self.config = config
        self.seed = seed
        self.me = me
        self.profiles = profiles
        rows, columns = BITS // config.digit_bits, 1 << config.digit_bits
        self.leafs: Peers = np.full((2, config.leaf_size // 2), NOBODY, dtype=np.int32)
        self.table: Peers = np.full((rows, columns), NOBODY, dtype=np.int32)
        self.joined = False
        self.changes = 0
        """Grows with every change of the leaf set: whoever is nearest to a key may be another now."""
        self.asked: dict[int, int] = {}
        """Peers whose answer is awaited, and since when."""
        self.gone: dict[int, int] = {}
        """Peers found silent, and until when hearsay about them is not believed."""
        self._ask_gone: dict[int, int] = {}
        self.contacts: list[int] = []
        self.cycle = 0
        self._gone: Peers = np.full(GONE_MAX, NOBODY, dtype=np.int32)
        self._rumoured: dict[int, None] = {}
        self._number = 0
        self._lookups = 0
        self._turns: list[int] = []
        self._every_period = SetTimer(TIMER, config.period_us)
        self._one = np.empty(1, dtype=np.int32)
        self._leaf_copy: Peers = np.empty(0, dtype=np.int32)
        self._listed = self.changes

    # What a system asks.

    def next_hop(self, key: int) -> int:
        """The next peer on the way to a key; itself when it is the nearest; NOBODY before it has joined."""
        if not self.joined:
            return NOBODY
        return rules.next_hop(self.profiles.ids, self.me, self.leafs, self.table, np.uint64(key), NOBODY)  # type: ignore[arg-type]

    def hear(self, peer: int, now_us: int) -> list[Effect]:
        """A message of some other protocol came from this peer: it is not silent."""
        self.asked.pop(peer, None)
        return []

    def say_goodbye(self, others: Iterable[int] = ()) -> list[Effect]:
        """Leave in good order: tell all it knows, and others of whom the system says that they know it."""
        return [Send(peer, PastryGoodbye()) for peer in dict.fromkeys([*self.known, *others])]

    @property
    def known(self) -> list[int]:
        """All peers in its tables, each once: leafs first."""
        found = dict.fromkeys(self.leafs.ravel().tolist() + self.table.ravel().tolist())
        found.pop(NOBODY, None)
        return list(found)

    @property
    def peers(self) -> Peers:
        """All peers in its tables, each once, in a row of fixed length; empty slots hold NOBODY."""
        row = np.full(self.leafs.size + self.table.size, NOBODY, dtype=np.int32)
        known = self.known
        row[: len(known)] = known
        return row

    # The machine.

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        match event:
            case Received(sender, message):
                self.asked.pop(sender, None)
                return self._receive(sender, message, now_us)
            case TimerFired(name) if name == TIMER:
                return self._keep_up(now_us)
            case TimerFired(name) if name == JOIN_TIMER:
                return [] if self.joined else self._look_up()
            case Start(contacts):
                return self._start(contacts)
            case PeerLost(peer):
                return self._lose(peer, now_us)
            case Stop():
                return self.say_goodbye()
            case _:
                return []

    def _receive(self, sender: int, message: object, now_us: int) -> list[Effect]:
        match message:
            case PastryExchange(peers):
                answer = PastryAnswer(self._leaf_list())
                return [Send(sender, answer), *self._learn(sender, peers, now_us)]
            case PastryAnswer(peers) | PastryRow(peers):
                return self._learn(sender, peers, now_us)
            case PastryProbe(row):
                return self._give_row(sender, row)
            case PastryAnnounce():
                self._meet(sender)
                return []
            case PastryJoin():
                return self._pass_on(sender, message)
            case PastryWelcome(number, peers):
                return self._enter(sender, number, peers, now_us)
            case PastryGone(peers):
                return self._verify(peers, now_us)
            case PastryGoodbye():
                self._forget(sender, now_us)
                return []
            case _:
                return []

    # Joining.

    def _start(self, contacts: tuple[int, ...]) -> list[Effect]:
        """Whom it knew before counts as a contact: much may have changed while it was away."""
        valid = (contact for contact in contacts if 0 <= contact < self.profiles.peers and contact != self.me)
        self.contacts = list(dict.fromkeys([*valid, *self.known]))[:CONTACTS_MAX]
        self.leafs.fill(NOBODY)
        self.table.fill(NOBODY)
        self.asked.clear()
        self.gone.clear()
        self._ask_gone.clear()
        self._gone.fill(NOBODY)
        self._rumoured.clear()
        self._turns = []
        self.changes += 1
        self._hear_of(np.array(self.contacts, dtype=np.int32))
        self.joined = not self.contacts
        return [self._every_period] if self.joined else [self._every_period, *self._look_up()]

    def _look_up(self) -> list[Effect]:
        """Send a join on its way, through contacts and peers in turn."""
        contacts = list(dict.fromkeys(self.contacts + self.known))
        if not contacts:
            return []
        contact = contacts[self._lookups % len(contacts)]
        self._lookups += 1
        self._number = self._lookups
        join = PastryJoin(self.me, self._number, 0, 1, np.empty(0, dtype=np.int32))
        effects: list[Effect] = [Send(contact, join)]
        if not self.joined:
            effects.append(SetTimer(JOIN_TIMER, self.config.timeout_us))
        return effects

    def _pass_on(self, sender: int, join: PastryJoin) -> list[Effect]:
        """Add what it has for the joiner; hand the join on, or welcome the joiner if nobody is nearer."""
        ids, me, joiner = self.profiles.ids, self.me, join.joiner
        rows = self.table.shape[0]
        if not 0 <= joiner < ids.size or joiner == me or not 0 <= join.row <= rows:
            return [Count("pastry.refused")]
        if not 0 < join.steps < STEPS_MAX or join.peers.size > GATHERED_MAX:
            return [Count("pastry.refused")]
        gathered = np.empty(GATHERED_MAX, dtype=np.int32)
        gathered[: join.peers.size] = join.peers
        count, row = rules.collect_rows(ids, me, self.table, joiner, join.row, gathered, join.peers.size)
        hop = rules.next_hop(ids, me, self.leafs, self.table, ids[joiner], joiner)
        if hop not in (me, sender):
            return [Send(hop, PastryJoin(joiner, join.number, row, join.steps + 1, gathered[:count]))]
        found = np.concatenate([gathered[:count], self._leaf_list()])[:GATHERED_MAX]
        return [Send(joiner, PastryWelcome(join.number, found))]

    def _enter(self, sender: int, number: int, peers: Peers, now_us: int) -> list[Effect]:
        """The answer to a join: it is in, and says so to all it knows, the first time."""
        if number != self._number:
            return [Count("pastry.late")]
        self._number = 0
        effects = self._learn(sender, peers, now_us)
        if self.joined:
            return effects
        self.joined = True
        self.changes += 1
        neighbours = self._ends(0)
        told: list[Effect] = [Send(peer, PastryAnnounce()) for peer in self.known if peer not in neighbours]
        return effects + told + self._ask_leafs(neighbours, now_us)

    # Staying.

    def _keep_up(self, now_us: int) -> list[Effect]:
        """A round: find the silent, compare leaf sets with the nearest, ask some others for a row."""
        self.cycle += 1
        effects: list[Effect] = [self._every_period]
        silent_leafs = self._find_silent(now_us)
        if silent_leafs:
            effects += self._spread_rumour(silent_leafs)
        nearest, farthest = self._ends(0), self._ends(-1)
        beyond = farthest if silent_leafs else farthest[self.cycle % 2 :][:1]
        again = [peer for peer, since_us in self.asked.items() if since_us <= now_us - self.config.timeout_us]
        effects += self._ask_leafs(list(dict.fromkeys(nearest + beyond)), now_us)
        known = self.known
        turn = self._take_turns(known)
        for peer in dict.fromkeys(again + turn):
            effects += self._probe(peer, now_us)
        alone = not known and bool(self.contacts)
        if self.joined and (alone or (self.cycle + self.me) % self.config.lookup_periods == 0):
            effects += self._look_up()
        return effects

    def _take_turns(self, known: list[int]) -> list[int]:
        """Whom to ask for a row: everybody comes up before the first comes again."""
        still = dict.fromkeys(known)
        waiting = [peer for peer in self._turns if peer in still]
        if len(waiting) < self.config.probes:
            waiting = list(dict.fromkeys(waiting + known))
        self._turns = waiting[self.config.probes :]
        return waiting[: self.config.probes]

    def _find_silent(self, now_us: int) -> list[int]:
        """Drop those who did not answer in time; returns the leafs among them that nobody else spoke of."""
        for peer in [peer for peer, until in self.gone.items() if until <= now_us]:
            self._unlist(peer)
        due_us = now_us - self.config.timeout_us - (self.config.patience - 1) * self.config.period_us
        leafs = []
        for peer in [peer for peer, since_us in self.asked.items() if since_us <= due_us]:
            rumoured = peer in self._rumoured
            if self._forget(peer, now_us) & LEAF and not rumoured:
                leafs.append(peer)
        self._rumoured = {peer: None for peer in self._rumoured if peer in self.asked}
        return leafs

    def _lose(self, peer: int, now_us: int) -> list[Effect]:
        """Drop a peer at once; if it was a leaf, tell the others and see who is next."""
        if not self._forget(peer, now_us) & LEAF:
            return []
        return self._spread_rumour([peer]) + self._ask_leafs(self._ends(0), now_us)

    def _spread_rumour(self, silent: list[int]) -> list[Effect]:
        rumour = PastryGone(np.array(silent, dtype=np.int32))
        return [Send(peer, rumour) for peer in self._leaf_list().tolist()]

    def _verify(self, peers: Peers, now_us: int) -> list[Effect]:
        """Somebody says that these are gone. Ask them, if they matter here."""
        known = dict.fromkeys(self.known)
        effects: list[Effect] = []
        for peer in dict.fromkeys(peers[:GATHERED_MAX].tolist()):
            if peer in known and peer not in self.asked:
                self._rumoured[peer] = None
                effects += self._probe(peer, now_us)
        return effects

    def _ask_leafs(self, peers: list[int], now_us: int) -> list[Effect]:
        exchange = PastryExchange(self._leaf_list())
        for peer in peers:
            self.asked.setdefault(peer, now_us)
        return [Send(peer, exchange) for peer in peers]

    def _probe(self, peer: int, now_us: int) -> list[Effect]:
        ids = self.profiles.ids
        self.asked.setdefault(peer, now_us)
        return [Send(peer, PastryProbe(rules.shared_digits(ids[self.me], ids[peer], self.table.shape[0])))]

    def _give_row(self, sender: int, row: int) -> list[Effect]:
        if not 0 <= row < self.table.shape[0]:
            return [Count("pastry.refused")]
        peers = self.table[row]
        return [Send(sender, PastryRow(peers[peers != NOBODY]))]

    # Knowing.

    def _learn(self, sender: int, peers: Peers, now_us: int) -> list[Effect]:
        """A peer spoke, of others. A neighbour that is nearer than any before is asked at once."""
        peers = peers[:GATHERED_MAX]
        before = self._ends(0)
        self._meet(sender)
        effects = self._doubt(peers, now_us) if self.gone else []
        if self._hear_of(peers) & NEAREST:
            found = [peer for peer in self._ends(0) if peer != sender and peer not in before]
            effects += self._ask_leafs(found, now_us)
        return effects

    def _doubt(self, peers: Peers, now_us: int) -> list[Effect]:
        """Somebody speaks of peers that are gone: ask them, now and then."""
        effects: list[Effect] = []
        for peer in peers.tolist():
            if self._ask_gone.get(peer, now_us) < now_us:
                self._ask_gone[peer] = now_us + GONE_ASKED_PERIODS * self.config.period_us
                effects += self._probe(peer, now_us)
        return effects

    def _meet(self, peer: int) -> None:
        """A peer spoke: it is there, whatever was said of it."""
        if peer in self.gone:
            self._unlist(peer)
        self._one[0] = peer
        self._note(rules.learn(*self._mine(), self._gone, self._one, True))

    def _hear_of(self, peers: Peers) -> int:
        changes = rules.learn(*self._mine(), self._gone, peers, False)
        self._note(changes)
        return changes

    def _forget(self, peer: int, now_us: int) -> int:
        """Drop a peer, and believe nobody who speaks of it for a while. Returns what changed."""
        period_us = self.config.period_us
        self.asked.pop(peer, None)
        self.gone.pop(peer, None)
        if len(self.gone) >= GONE_MAX:
            self._unlist(next(iter(self.gone)))
        self.gone[peer] = now_us + GONE_PERIODS * period_us
        self._ask_gone[peer] = now_us + GONE_ASKED_PERIODS * period_us
        self._list_gone()
        changes = rules.forget(*self._mine(), peer)
        self._note(changes)
        return changes

    def _mine(self) -> tuple[NDArray[np.uint64], int, int, Peers, Peers]:
        return self.profiles.ids, self.me, self.seed, self.leafs, self.table

    def _note(self, changes: int) -> None:
        if changes:
            self.changes += 1

    def _unlist(self, peer: int) -> None:
        del self.gone[peer]
        del self._ask_gone[peer]
        self._list_gone()

    def _list_gone(self) -> None:
        self._gone.fill(NOBODY)
        self._gone[: len(self.gone)] = list(self.gone)

    def _leaf_list(self) -> Peers:
        """The leafs, those on both sides of a small circle once: a copy, made anew when they change."""
        if self._listed != self.changes:
            self._listed = self.changes
            lower, higher = self.leafs
            if NOBODY in (lower[-1], higher[-1]) or lower[-1] in higher:
                self._leaf_copy = np.setdiff1d(self.leafs, [NOBODY]).astype(np.int32)
            else:
                self._leaf_copy = self.leafs.ravel().copy()
        return self._leaf_copy

    def _ends(self, slot: int) -> list[int]:
        """The nearest leaf of each side (slot 0) or the farthest (slot −1), if there is one."""
        found = dict.fromkeys([int(self.leafs[LOWER, slot]), int(self.leafs[HIGHER, slot])])
        found.pop(NOBODY, None)
        return list(found)
