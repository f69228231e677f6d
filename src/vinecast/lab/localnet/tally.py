"""The tally of a local network: who is up, which rings are right, which deliveries were due and made.

Pure: it is told what happened and when. What became of events is measured from the nodes' traces, as in a
simulation (sim/measure/peer_runs.py). Of rings the tally knows every node, and so knows where a node only
believes: a *link* of a ring is right when it leads to the nearest subscriber that is up, on its side; a ring
is complete when all its links are. Somebody from outside may join: a link that leads to a stranger in between
is right too.
"""

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count, islice

from vinecast.core.machine import SECOND_US
from vinecast.lab.localnet.messages import WorkerReport
from vinecast.peer.identity import node_id_of
from vinecast.sim.measure.peer_runs import JudgedEvent, PeerRunMeter

LATEST = 6
"""Judged events that are shown."""
JUDGED_MAX = 100_000
"""… and that are remembered, the latest ones (ours)."""

_CIRCLE = 1 << 64


@dataclass
class NetMember:
    """A node as the parent knows it."""

    number: int
    topics: tuple[str, ...]
    point: int = -1
    address: str = ""
    key: bytes = b""
    """Its public key."""
    up: bool = False
    up_s: float = 0.0
    """When it came up for the first time."""
    contacts: tuple[int, ...] = ()
    """The nodes that it was told to join when it was started."""
    ready: bool = False
    neighbours: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of an event."""

    number: int
    topic: str
    publisher: int
    at_s: float
    due: int
    got: int
    hops_mean: float
    due_at: int = 0
    """The nodes that it was due at, as a set of bits: many events are remembered."""
    got_by: int = 0
    """All that it was delivered to in time, in the same way."""


def bits_of(nodes: Iterable[int]) -> int:
    """Numbers as a set of bits."""
    return sum(1 << node for node in nodes)


def numbers_of(bits: int) -> frozenset[int]:
    """The numbers in a set of bits."""
    return frozenset(number for number in range(bits.bit_length()) if bits >> number & 1)


class NetTally:
    """See the module's text. ``patience_s``: how long after its publication an event is judged; ``period_s``:
    a cycle; ``has_rings``: whether the nodes' system has any; ``begun_us``: when the network began."""

    def __init__(
        self,
        subscriptions: list[tuple[str, ...]],
        patience_s: float,
        period_s: float = 1.0,
        has_rings: bool = True,
        begun_us: int = 0,
    ) -> None:
        self.members = [NetMember(number, topics) for number, topics in enumerate(subscriptions)]
        self.meter = PeerRunMeter(round(patience_s * SECOND_US), round(period_s * SECOND_US))
        """What the nodes' traces tell."""
        self.judged: deque[Judged] = deque(maxlen=JUDGED_MAX)
        self.reports: dict[int, WorkerReport] = {}
        """The latest of each process."""
        self.highest_bytes: dict[int, int] = {}
        """The most that each process was seen to hold since this was last cleared."""
        self.strays = self.left = self.came_back = 0
        """Deliveries to nodes that do not subscribe to the topic; nodes that left, and that came back."""
        self._has_rings, self._begun_us = has_rings, begun_us
        self._subscribers: dict[str, list[int]] = {}
        for member in self.members:
            for topic in member.topics:
                self._subscribers.setdefault(topic, []).append(member.number)
        self._upto_us: dict[int, int] = {}
        """Process → up to when all is known that happened to its nodes"""
        self._numbers = count()
        self._known: set[int] = set()
        """Points of the network's own nodes, whether up or not."""

    # What happened.

    def on_up(self, number: int, point: int, address: str, key: bytes = b"") -> None:
        """A node is up."""
        member = self.members[number]
        self.came_back += member.point != -1
        member.point, member.address, member.key, member.up = point, address, key, True
        self._known.add(point)
        self.meter.know(node_id_of(key), number)

    def on_ready(self, number: int) -> None:
        """A node's subscriptions are ready."""
        self.members[number].ready = self.members[number].up

    def on_leaving(self, number: int) -> None:
        """A node is about to leave."""
        member = self.members[number]
        self.left += member.up
        member.up = member.ready = False
        member.neighbours.clear()

    def on_killed(self, number: int, now_us: int) -> None:
        """A node is gone, and cannot tell so itself."""
        self.on_leaving(number)
        self.meter.leave("", number, now_us)

    def on_ended(self, process: int) -> None:
        """A process is gone: nothing more will be known of its nodes."""
        self._upto_us.pop(process, None)

    def on_report(self, process: int, report: WorkerReport) -> None:
        """A process told what happened in it."""
        self.reports[process] = report
        self.highest_bytes[process] = max(self.highest_bytes.get(process, 0), report.resident_bytes)
        for node, topic, lower, higher in report.neighbours:
            if self.members[node].up:
                self.members[node].neighbours[topic] = (lower, higher)
        self.meter.add(report.facts)
        for topic, node, at_us, is_in in report.facts.changes:
            member = self.members[node]
            if is_in and not topic and not member.up_s:
                member.up_s = (at_us - self._begun_us) / SECOND_US
        self._upto_us[process] = report.facts.upto_us
        self._note(self.meter.judge(min(self._upto_us.values())))

    def finish(self) -> None:
        """The run is over: judge what is left."""
        self._note(self.meter.finish())

    def _note(self, judged: Iterable[JudgedEvent]) -> None:
        for one in judged:
            number, at_s = next(self._numbers), (one.at_us - self._begun_us) / SECOND_US
            mine = self._subscribers.get(one.topic, ())
            self.strays += sum(node not in mine for node in one.got_by)
            who = bits_of(one.due_at), bits_of(one.got_by)
            self.judged.append(
                Judged(number, one.topic, one.publisher, at_s, one.due, one.got, one.hops_mean, *who)
            )

    # What is true.

    @property
    def up(self) -> list[NetMember]:
        """The nodes that are up."""
        return [member for member in self.members if member.up]

    @property
    def latest(self) -> list[Judged]:
        """The events that were judged last."""
        return list(islice(reversed(self.judged), LATEST))[::-1]

    @property
    def on_their_way(self) -> int:
        """Events that are not judged yet."""
        return self.meter.under_way

    @property
    def all_arrived(self) -> bool:
        """Whether nothing is missing of those, as far as is known."""
        return self.meter.all_arrived

    def rings(self) -> tuple[int, int, int, int]:
        """Rings complete, rings, links right, links. A topic with fewer than two subscribers has no ring."""
        complete = rings = right = links = 0
        for topic, subscribers in self._subscribers.items() if self._has_rings else ():
            points = sorted(self.members[one].point for one in subscribers if self.members[one].up)
            if len(points) < 2:
                continue
            good = sum(self._links_right(self.members[one], topic, points) for one in subscribers)
            rings, links, right = rings + 1, links + 2 * len(points), right + good
            complete += good == 2 * len(points)
        return complete, rings, right, links

    def _links_right(self, member: NetMember, topic: str, points: list[int]) -> int:
        if not member.up:
            return 0
        lower, higher = member.neighbours.get(topic, (-1, -1))
        at = bisect_left(points, member.point)
        before, after = points[at - 1], points[(at + 1) % len(points)]
        return self._leads_well(lower, member.point, before, -1) + self._leads_well(
            higher, member.point, after, 1
        )

    def _leads_well(self, found: int, me: int, wanted: int, step: int) -> bool:
        """Whether a link goes to whom it should, or to a stranger on the way there."""
        if found == wanted:
            return True
        if found == -1 or found in self._known:
            return False
        return step * (found - me) % _CIRCLE < step * (wanted - me) % _CIRCLE

    def between(self, begin_s: float, end_s: float) -> dict[str, int]:
        """Deliveries of the events that were published in a time: expected, and got."""
        found = [event for event in self.judged if begin_s <= event.at_s < end_s]
        return {"expected": sum(event.due for event in found), "got": sum(event.got for event in found)}

    def refused(self) -> Counter[str]:
        """What nodes refused or dropped, by reason."""
        total: Counter[str] = Counter()
        for report in self.reports.values():
            total.update(report.refused)
        return total
