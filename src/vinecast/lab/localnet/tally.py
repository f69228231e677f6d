"""The tally of a local network: who is up, which rings are right, which deliveries were due and made.

Pure: it is told what happened and when. It knows every node, and so knows where a node only believes:

- A *link* of a ring is right when it leads to the nearest subscriber that is up, on its side; a ring is
  complete when all its links are. Somebody from outside may join: a link that leads to a stranger in between
  is right too.
- A delivery is *due* from every subscriber that was ready when the event was published, unless it leaves
  before the event is judged, some seconds later.
- ``hops`` and ``duplication`` are defined as in the simulator: hops over deliveries other than the
  publisher's own; copies received over subscribers that have the event, the publisher among them.
"""

from bisect import bisect_left
from collections import Counter, deque
from dataclasses import dataclass, field
from itertools import islice

from vinecast.lab.localnet.messages import WorkerReport

LATEST = 6
"""Judged events that are shown."""
JUDGED_MAX = 100_000
"""… and that are remembered, the latest ones (ours)."""

LATENCIES_MAX = 10_000
"""Latencies that are remembered, the latest ones (ours)."""

_CIRCLE = 1 << 64


@dataclass
class NetMember:
    """A node as the parent knows it."""

    number: int
    topics: tuple[str, ...]
    point: int = -1
    address: str = ""
    up: bool = False
    ready: bool = False
    neighbours: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass
class EventInFlight:
    """A published event, who should get it, and who has."""

    number: int
    topic: str
    publisher: int
    at_s: float
    due: set[int]
    got: dict[int, int] = field(default_factory=dict)
    """Node -> hops."""


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


@dataclass
class Totals:
    """Over all judged events."""

    events: int = 0
    due: int = 0
    got: int = 0
    repeated: int = 0
    """Deliveries of an event that the same node had already."""
    strays: int = 0
    """Deliveries to nodes that do not subscribe to the topic."""
    hops: int = 0
    received: int = 0
    hops_max: int = 0


class NetTally:
    """See the module's text. ``patience_s``: how long after its publication an event is judged;
    ``has_rings``: whether the nodes' system has any."""

    def __init__(
        self, subscriptions: list[tuple[str, ...]], patience_s: float, has_rings: bool = True
    ) -> None:
        self.members = [NetMember(number, topics) for number, topics in enumerate(subscriptions)]
        self.totals = Totals()
        self.judged: deque[Judged] = deque(maxlen=JUDGED_MAX)
        self.reports: dict[int, WorkerReport] = {}
        """The latest of each process."""
        self.highest_bytes: dict[int, int] = {}
        """The most that each process was seen to hold since this was last cleared."""
        self.latencies_us: deque[int] = deque(maxlen=LATENCIES_MAX)
        """What events took over one link; some of them."""
        self.delivered = self.left = self.came_back = 0
        self._patience_s, self._has_rings = patience_s, has_rings
        self._subscribers: dict[str, list[int]] = {}
        for member in self.members:
            for topic in member.topics:
                self._subscribers.setdefault(topic, []).append(member.number)
        self._open: dict[int, EventInFlight] = {}
        self._known: set[int] = set()
        """Points of the network's own nodes, whether up or not."""

    # What happened.

    def on_up(self, number: int, point: int, address: str) -> None:
        """A node is up."""
        member = self.members[number]
        self.came_back += member.point != -1
        member.point, member.address, member.up = point, address, True
        self._known.add(point)

    def on_ready(self, number: int) -> None:
        """A node's subscriptions are ready."""
        self.members[number].ready = self.members[number].up

    def on_leaving(self, number: int) -> None:
        """A node is about to leave: nothing is due from it any more."""
        member = self.members[number]
        self.left += member.up
        member.up = member.ready = False
        member.neighbours.clear()
        for event in self._open.values():
            event.due.discard(number)

    def on_published(self, number: int, topic: str, publisher: int, now_s: float) -> None:
        """A node was told to publish."""
        due = {one for one in self._subscribers.get(topic, ()) if self.members[one].ready}
        self._open[number] = EventInFlight(number, topic, publisher, now_s, due)

    def on_report(self, process: int, report: WorkerReport) -> None:
        """A process told what happened in it."""
        self.reports[process] = report
        self.highest_bytes[process] = max(self.highest_bytes.get(process, 0), report.resident_bytes)
        self.latencies_us.extend(max(latency, 0) for latency in report.latencies_us)
        for node, topic, lower, higher in report.neighbours:
            if self.members[node].up:
                self.members[node].neighbours[topic] = (lower, higher)
        for number, node, hops in report.deliveries:
            self._on_delivery(number, node, hops)

    def _on_delivery(self, number: int, node: int, hops: int) -> None:
        self.delivered += 1
        event = self._open.get(number)
        if event is None:  # judged long ago: late, or once more
            return
        if event.topic not in self.members[node].topics:
            self.totals.strays += 1
        elif node in event.got:
            self.totals.repeated += 1
        else:
            event.got[node] = hops

    def judge(self, now_s: float, everything: bool = False) -> None:
        """Close the tally of events that had their time."""
        for number, event in list(self._open.items()):
            if everything or now_s - event.at_s >= self._patience_s:
                del self._open[number]
                self._close(event)

    def _close(self, event: EventInFlight) -> None:
        totals, got = self.totals, len(event.due & event.got.keys())
        hops = [hops for node, hops in event.got.items() if node != event.publisher]
        totals.events += 1
        totals.due += len(event.due)
        totals.got += got
        totals.hops += sum(hops)
        totals.received += len(hops)
        totals.hops_max = max(totals.hops_max, *hops, 0)
        mean = sum(hops) / len(hops) if hops else 0.0
        self.judged.append(
            Judged(event.number, event.topic, event.publisher, event.at_s, len(event.due), got, mean)
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
        return len(self._open)

    @property
    def all_arrived(self) -> bool:
        """Whether nothing is missing of those."""
        return all(event.due <= event.got.keys() for event in self._open.values())

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

    def hops_mean(self) -> float:
        """Links that an event's first copy travelled."""
        return self.totals.hops / self.totals.received if self.totals.received else 0.0

    def duplication(self) -> float:
        """Copies received for each node that has an event."""
        reports = self.reports.values()
        first, again = sum(one.first for one in reports), sum(one.again for one in reports)
        have = first + sum(one.published for one in reports)
        return (first + again) / have if have else 0.0

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
