"""The judges: one function a promise, each of which looks at a run that has ended."""

from collections import Counter
from collections.abc import Callable

from vinecast.core.log.batch_signature import SignedEvent
from vinecast.lab.campaign.history import Opening, PublicationRecord, fits
from vinecast.lab.campaign.payloads import is_wanted
from vinecast.lab.campaign.plan import (
    FAULTS,
    TOPICS,
    AnyStep,
    BeginStep,
    CrashStep,
    DiskFullStep,
    GoodbyeStep,
    PauseStep,
    ReadsFailStep,
    ReadStep,
    Step,
    ends_s,
)
from vinecast.lab.campaign.promises import ANSWER_S, HEIGHT_MAX, READY_S, Judgement, Truth, name_of

CALM_BEFORE_S, CALM_AFTER_S = 12.0, 3.0
"""So long nothing goes wrong, comes or goes around a volatile event that everybody must get (ours)."""
EXCUSES: dict[str, tuple[type[Step], ...]] = {
    "OverloadedError": FAULTS,
    "UnsafeError": (DiskFullStep, PauseStep),
    "ClosedError": (GoodbyeStep,),
}
"""What a publisher may be told, and what must have been going on then. A full disk and a goodbye are its own
node's, and a peer that floods may overload anybody."""
EXCUSED_S = 40.0
"""So long what is over still explains an error (ours): a disk is tried again after 30 s at the latest."""


def acknowledged_is_safe(truth: Truth, found: Judgement) -> None:
    """D1."""
    liars = len(truth.plan.nodes) - len(truth.plan.honest)
    for facts in truth.history.receipts:
        event, holders = facts.event, facts.event.holders
        what = f"{name_of(event.cid)} of publication {event.publication.step.number}"
        if not facts.own_is_safe:
            found.note("D1", "acknowledged before it was safe here", f"{what}: not synced on its publisher")
        in_memory = facts.in_memory + _ended_in_memory(truth, event.publication)
        if holders > facts.on_disk + in_memory + liars:
            kind = "counts holders that do not hold"
        elif holders > facts.on_disk + in_memory:
            kind = "counts liars"
        elif holders > facts.on_disk:
            kind = "counts holders without a disk"
        else:
            continue
        held = f"{facts.on_disk} on disk and {facts.in_memory} in memory"
        found.note("D1", kind, f"{what}: holders {holders}, held by {held}")


def _ended_in_memory(truth: Truth, publication: PublicationRecord) -> int:
    """Nodes without a disk that ended while a publisher waited: they may have held what is gone with them."""
    until_s = truth.world.now_s if publication.answered_s is None else publication.answered_s
    ended = {
        step.node
        for step in truth.plan.of(CrashStep, GoodbyeStep)
        if truth.plan.nodes[step.node].memory and publication.at_s <= step.at_s <= until_s
    }
    return len(ended)


def acknowledged_is_kept(truth: Truth, found: Judgement) -> None:
    """D1: nothing acknowledged is gone while one of those is there who had it on disk, undamaged."""
    if truth.plan.kept_events:
        return
    disks = {node.number: node.disk for node in truth.there if not node.setup.disk.is_memory}
    for facts in truth.history.receipts:
        event = facts.event
        had = [n for n in sorted(facts.who) if n in disks and event.cid not in disks[n].damaged]
        if had and event.cid not in truth.kept.get(event.topic, {}):
            what = f"{name_of(event.cid)} of publication {event.publication.step.number}"
            found.note("D1", "acknowledged event is gone", f"{what}: nodes {had} had it")


def room_is_fair(truth: Truth, found: Judgement) -> None:
    """D11: what one publisher has in a stream is not pushed out by what a stranger publishes there."""
    if not truth.plan.kept_events:
        return
    for topic, newest in truth.newest_acknowledged().items():
        gone = [event for event in newest if event.cid not in truth.kept.get(topic, {})]
        held = [event for event in gone if truth.was_held(event)]
        if held:
            names = ", ".join(name_of(event.cid) for event in held[:4])
            text = f"{len(held)} of the {len(newest)} newest events of {topic} are nowhere ({names} …)"
            found.note("D11", "pushed out of a stream", text, topic=topic)


def nothing_is_missing(truth: Truth, found: Judgement) -> None:
    """D3 to D8: what is due to readers."""
    for opening in truth.openings():
        read, by_kind = opening.read, dict[str, list[bytes]]()
        for cid in truth.missing(opening):
            by_kind.setdefault(_how_missing(truth, opening, cid), []).append(cid)
        for kind, missing in sorted(by_kind.items()):
            what = ", ".join(sorted(map(name_of, missing))[:4])
            text = f"{_name_of(read)} lacks {len(missing)} events ({what} …)"
            found.note(_promise_of(truth, opening, missing), kind, text, read=read)


def _reads_pattern(opening: Opening) -> bool:
    topic = opening.read.topic
    return topic not in TOPICS and any(mark in topic for mark in "+#")


def _name_of(read: ReadStep) -> str:
    return f"reader {read.reader} of {read.topic} on node {read.node}"


def _promise_of(truth: Truth, opening: Opening, missing: list[bytes]) -> str:
    """Which promise is broken when a reader lacks something."""
    read = opening.read
    if _reads_pattern(opening):
        return "D8"
    damaged = truth.world.nodes[read.node].disk.damaged
    if damaged and {truth.signed(cid).record.topic for cid in missing} & truth.topics_of(damaged):
        return "D7"
    if read.start == "event":
        return "D6"
    if read.consumer:
        return "D5"
    return "D4" if read.start == "now" else "D3"


def _how_missing(truth: Truth, opening: Opening, cid: bytes) -> str:
    """Where an event stands that a reader lacks."""
    disk, signed = truth.world.nodes[opening.read.node].disk, truth.signed(cid)
    position = disk.position_of(cid)
    if position and opening.after and position <= disk.position_of(opening.after):
        return "an event that its node kept before the cursor's is not handed over"
    if position:
        return "an event that its node keeps is not handed over"
    if signed.record.height <= disk.state(signed.record.topic).floor:
        return "an event lies below the floor of its node"
    return "an event does not come to its node"


def level_is_level(truth: Truth, found: Judgement) -> None:
    """D3: whoever is told that it has all of a stream has it."""
    for facts in truth.history.level:
        read, lies = facts.opening.read, len(truth.plan.honest) < len(truth.plan.nodes)
        floor = "is too high" if facts.told_floor or lies else "nobody told"
        part = ", of a stream that it had in part" if facts.opening.was_here else ""
        for kind, lacking in (
            (f"said to be level above a floor that {floor}", facts.below),
            (f"said to be level and is not{part}", facts.above),
        ):
            if lacking:
                text = f"{_name_of(read)} at {facts.at_s:.2f} s lacks {lacking} acknowledged events"
                found.note("D3", kind, text, read=read)


def acknowledged_comes_once(truth: Truth, found: Judgement) -> None:
    """D5: what a consumer acknowledged, and was told that this is noted, does not come again."""
    done: dict[int, set[bytes]] = {}
    for opening in truth.history.openings:
        if not opening.read.consumer or truth.plan.nodes[opening.read.node].memory:
            continue
        before = done.setdefault(opening.read.reader, set())
        again = before.intersection(signed.cid for _, signed, _ in opening.handed)
        if again:
            text = f"reader {opening.read.reader} was handed {len(again)} events that it had acknowledged"
            found.note("D5", "acknowledged and handed again", text, read=opening.read)
        before |= {cid for cid, is_noted in opening.acknowledged.items() if is_noted}


def handed_is_genuine(truth: Truth, found: Judgement) -> None:
    """D13 and V: only what was published, on its topic, once, parents first."""
    liars = {
        truth.world.nodes[n].setup.identity.public for n, one in enumerate(truth.plan.nodes) if one.hostile
    }
    for opening in truth.history.openings:
        read, place = opening.read, dict[bytes, int]()
        for number, (_, signed, _) in enumerate(opening.handed):
            record, what = signed.record, f"{_name_of(read)} was handed {name_of(signed.cid)}"
            event = truth.history.by_payload.get(record.payload)
            genuine = event is not None and event.cid == signed.cid and event.topic == record.topic
            if not genuine and record.publisher not in liars:
                found.note("D13", "handed what nobody published", what, read=read)
            if not fits(read.topic, record.topic):
                found.note("V", "handed an event of another topic", what, read=read)
            elif genuine and not is_wanted(read.wanted, record.payload):
                found.note("V", "handed an event that its filter leaves out", what, read=read)
            if signed.cid in place:
                found.note("D5" if record.height else "V", "handed twice to one reader", what, read=read)
            place[signed.cid] = number
        _check_order(truth, opening, place, found)


def _check_order(truth: Truth, opening: Opening, place: dict[bytes, int], found: Judgement) -> None:
    for _, signed, position in opening.handed:
        for parent in signed.record.parents if position else ():
            if place.get(parent, -1) > place[signed.cid]:
                text = f"{_name_of(opening.read)}: {name_of(signed.cid)} before {name_of(parent)}"
                found.note("D6", _how_early(truth, opening, signed), text, read=opening.read)


def _how_early(truth: Truth, opening: Opening, signed: SignedEvent) -> str:
    """Why an event may have been handed over before one that it follows."""
    node, record = opening.read.node, signed.record
    if truth.looks_back(node, record.topic):
        return "handed before its parents by a node that had later ones"
    if record.height <= truth.world.nodes[node].disk.state(record.topic).floor + 1:
        return "handed before its parents, which lie below the floor of its node"
    return "handed before its parents"


def handed_is_safe(truth: Truth, found: Judgement) -> None:
    """D1: what a reader is handed of a stream does not go with a crash of its node."""
    for at_s, opening, signed in truth.history.unsafe:
        text = f"{_name_of(opening.read)} was handed {name_of(signed.cid)} at {at_s:.2f} s"
        found.note("D1", "handed before it was safe here", text, read=opening.read)


def streams_stay_low(truth: Truth, found: Judgement) -> None:
    """D13: nobody's word lifts a stream."""
    for topic, kept in truth.kept.items():
        highest = max((signed.record.height for signed in kept.values()), default=0)
        if highest > HEIGHT_MAX:
            found.note("D13", "a stream was lifted", f"{topic} has an event at height {highest}", topic=topic)
    for node in truth.there:
        for topic in node.disk.topics():
            floor, highest = node.disk.state(topic).floor, truth.highest.get(topic, 0)
            if floor > highest + 1:  # one above is the next event, which is not lost
                text = f"{topic} begins above {floor} on node {node.number}; nothing is above {highest}"
                found.note("D13", "a stream begins above all that was published", text, node.number, topic)


def publishing_works(truth: Truth, found: Judgement) -> None:
    """D13 and L: whoever publishes is answered, and not refused."""
    up = {node.number: node.lives for node in truth.there}
    for publication in truth.history.publications:
        what = (
            f"publication {publication.step.number} on {publication.step.topic} at {publication.at_s:.2f} s"
        )
        node, topic = publication.step.node, publication.step.topic
        errors = {publication.error, *(event.error for event in publication.events)} - {""}
        for error in sorted(errors):
            if not error.startswith(tuple(EXCUSES)):
                found.note("D13", "publishing fails", f"{what}: {error}", node, topic)
            elif not _is_excused(truth, publication, error):
                found.note("L", "publishing fails where nothing is wrong", f"{what}: {error}", node, topic)
        waits = publication.answered_s is None and up.get(publication.step.node) == publication.life
        if waits and truth.world.now_s > _last_pause_s(truth, publication) + ANSWER_S:
            found.note("L", "a publisher is not answered", what, node, topic)


def _is_excused(truth: Truth, publication: PublicationRecord, error: str) -> bool:
    """Whether something that explains such an error was going on while a publisher waited."""
    begins_s = publication.at_s - EXCUSED_S
    ended_s = truth.world.now_s if publication.answered_s is None else publication.answered_s
    kinds = next(kinds for name, kinds in EXCUSES.items() if error.startswith(name))
    own = (DiskFullStep, GoodbyeStep)
    for step in truth.plan.of(*kinds):
        is_here = not isinstance(step, own) or step.node == publication.step.node
        if is_here and step.at_s <= ended_s and ends_s(step) >= begins_s:
            return True
    return error.startswith("OverloadedError") and len(truth.plan.honest) < len(truth.plan.nodes)


def _last_pause_s(truth: Truth, publication: PublicationRecord) -> float:
    pauses = [ends_s(step) for step in truth.plan.of(PauseStep) if step.node == publication.step.node]
    return max((publication.at_s, *pauses))


def holders_are_found(truth: Truth, found: Judgement) -> None:
    """D2: where nothing goes wrong, as many hold an event as its publisher asked for."""
    if truth.plan.of(*FAULTS) or truth.plan.honest != list(range(len(truth.plan.nodes))):
        return
    begun = [step.at_s for step in truth.plan.of(BeginStep)]
    for facts in truth.history.receipts:
        event = facts.event
        others = sum(at_s < event.publication.at_s - 10 for at_s in begun) - 1
        if event.holders < min(truth.plan.holders, others):
            text = f"publication {event.publication.step.number}: {event.holders} of {others} other nodes"
            found.note("D2", "too few holders where nothing is wrong", text)


def readers_are_ready(truth: Truth, found: Judgement) -> None:
    """L: whoever reads is ready some time, and can be opened."""
    for opening in truth.history.openings:
        what = f"{_name_of(opening.read)}: {opening.refused}"
        if opening.refused and opening.read.start == "event" and not opening.has_after:
            found.note("D6", "a cursor means nothing on another node", what, read=opening.read)
        elif opening.refused and not _cannot_be_read(truth, opening):
            found.note("L", "a reader is refused", what, read=opening.read)
    for opening in truth.openings():
        if opening.ready_s is None and truth.world.now_s > opening.opened_s + READY_S:
            kind = "a reader is never ready" + (" where peers are shunned" if truth.history.shunned else "")
            found.note("L", kind, _name_of(opening.read), read=opening.read)
        damaged = truth.world.nodes[opening.read.node].disk.damaged
        if opening.failed and not damaged and not _cannot_be_read(truth, opening):
            text = f"{_name_of(opening.read)}: {opening.failed}"
            found.note("D7", "a reader cannot go on", text, read=opening.read)


def _cannot_be_read(truth: Truth, opening: Opening) -> bool:
    """Whether nothing could be read on a reader's node while it was open."""
    closed_s = truth.world.now_s if opening.closed_s is None else opening.closed_s
    return any(
        step.node == opening.read.node and step.at_s <= closed_s and ends_s(step) >= opening.opened_s
        for step in truth.plan.of(ReadsFailStep)
    )


def volatile_arrives(truth: Truth, found: Judgement) -> None:
    """V and D8: where nothing goes wrong, comes or goes, an event outside of streams reaches every ready
    reader."""
    if truth.plan.honest != list(range(len(truth.plan.nodes))):
        return
    for publication in truth.history.publications:
        if publication.error or not _is_calm(truth, publication.at_s):
            continue
        for opening in truth.history.openings:
            if publication.step.durable and not truth.is_routed(opening):
                continue  # it is due in the end, calm or not
            if not _reads_then(opening, publication):
                continue
            got = Counter(signed.record.payload for _, signed, _ in opening.handed)
            for event in publication.events:
                if is_wanted(opening.read.wanted, event.payload) and not got[event.payload]:
                    text = f"{_name_of(opening.read)} lacks an event of publication {publication.step.number}"
                    promise = "D8" if _reads_pattern(opening) else "V"
                    found.note(promise, "an event does not arrive", text, read=opening.read)


def _is_calm(truth: Truth, at_s: float) -> bool:
    def is_near(step: AnyStep) -> bool:
        ends = [step.at_s, ends_s(step)]
        if isinstance(step, ReadStep) and step.until_s:
            ends.append(step.until_s)
        if isinstance(step, FAULTS):
            ends.append(ends_s(step) + CALM_BEFORE_S)  # what is lost shows later
        return min(ends) <= at_s + CALM_AFTER_S and max(ends) >= at_s - CALM_BEFORE_S

    steps = truth.plan.of(*FAULTS, ReadStep, BeginStep)
    return at_s >= CALM_BEFORE_S and not any(map(is_near, steps))


def _reads_then(opening: Opening, publication: PublicationRecord) -> bool:
    ready = opening.ready_s is not None and opening.ready_s <= publication.at_s - CALM_AFTER_S
    closed_s = opening.closed_s
    stays = closed_s is None or closed_s > publication.at_s + CALM_AFTER_S
    return ready and stays and fits(opening.read.topic, publication.step.topic)


def nobody_raises(truth: Truth, found: Judgement) -> None:
    """R."""
    for at_s, node, what in truth.history.raised:
        if not truth.plan.nodes[node].hostile:
            found.note("R", "a peer raised", f"node {node} at {at_s:.2f} s: {what}", node)


def honest_are_not_shunned(truth: Truth, found: Judgement) -> None:
    """S."""
    honest = set(truth.plan.honest)
    for at_s, who, whom in truth.history.shunned:
        if who in honest and whom in honest:
            found.note("S", "an honest peer is shunned", f"node {who} shuns node {whom} at {at_s:.2f} s", who)


JUDGES: tuple[Callable[[Truth, Judgement], None], ...] = (
    acknowledged_is_safe,
    acknowledged_is_kept,
    room_is_fair,
    handed_is_safe,
    holders_are_found,
    nothing_is_missing,
    level_is_level,
    acknowledged_comes_once,
    handed_is_genuine,
    streams_stay_low,
    publishing_works,
    readers_are_ready,
    volatile_arrives,
    nobody_raises,
    honest_are_not_shunned,
)


def judge(truth: Truth) -> Judgement:
    """Which promises were broken in a run that has ended."""
    found = Judgement()
    for judge_one in JUDGES:
        judge_one(truth, found)
    history = truth.history
    found.figures = {
        "published": len(history.by_payload),
        "acknowledged": sum(event.is_acknowledged for event in history.by_payload.values()),
        "readers": len(history.openings),
        "handed": sum(len(opening.handed) for opening in history.openings),
        "inputs": history.inputs,
    }
    return found
