"""What is known to be broken, by name, with seeds that show it; and what does not exist yet.

Both lists only get shorter. A broken promise that is on the first list, in a run to which its condition
applies, is expected; every other one is a bug that nobody has seen before. What mends a known failure takes
its line away, and a test (tests/lab/campaign/test_known.py) fails as long as a line stands here that none of
its seeds shows.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from vinecast.lab.campaign.history import fits
from vinecast.lab.campaign.plan import (
    CrashStep,
    FlipStep,
    GoodbyeStep,
    Plan,
    PublishStep,
    ReadStep,
    SetClockStep,
)
from vinecast.lab.campaign.promises import BrokenPromise
from vinecast.sim.peers.hostile import LIES

Condition = Callable[[Plan, BrokenPromise], bool]


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """A way in which a promise is known to be broken, where a condition applies."""

    name: str
    """The broken promise's."""
    why: str
    """What is wrong, in a sentence."""
    seeds: tuple[int, ...]
    """Runs that show it."""
    applies: Condition
    """Whether a run may show it there: on that node, that topic, to that reader."""


# Conditions: on the run, and on where in it the promise was broken.


def always(plan: Plan, fault: BrokenPromise) -> bool:
    """The name of the fault says all that there is to know."""
    return True


def has_memory(plan: Plan, fault: BrokenPromise) -> bool:
    """Whether some node has no disk."""
    return any(node.memory for node in plan.nodes)


def _read_of(plan: Plan, fault: BrokenPromise) -> ReadStep:
    """The reader that a fault is about."""
    reads: list[ReadStep] = plan.of(ReadStep)
    return next(read for read in reads if read.reader == fault.reader)


def _overlap(one: str, other: str) -> bool:
    """Whether two readers may ask for the same topic."""
    return fits(one, other) or fits(other, one)


def reads_now_by_wrong_clocks(plan: Plan, fault: BrokenPromise) -> bool:
    """Whether the reader begins now, and some clock is wrong, from the beginning or later."""
    wrong = any(node.ahead_s for node in plan.nodes) or bool(plan.of(SetClockStep))
    return wrong and _read_of(plan, fault).start == "now"


def reads_back_after_crash(plan: Plan, fault: BrokenPromise) -> bool:
    """Whether the reader's node dies, and somebody reads the topic there from the earliest on."""
    died = {step.node for step in plan.of(CrashStep)}
    return fault.node in died and any(
        read.start == "earliest" and read.node == fault.node and _overlap(read.topic, fault.topic)
        for read in plan.of(ReadStep)
    )


def has_it_in_part(plan: Plan, fault: BrokenPromise) -> bool:
    """Whether the reader begins at the earliest, and its node takes part in the topic from later on, since
    somebody publishes on it there or reads it from now on."""
    mine = _read_of(plan, fault)
    publishes = any(step.node == mine.node and fits(mine.topic, step.topic) for step in plan.of(PublishStep))
    reads = any(
        other.node == mine.node and _overlap(other.topic, mine.topic) and other.start == "now"
        for other in plan.of(ReadStep)
    )
    return mine.start == "earliest" and (publishes or reads)


def shares_a_stream(plan: Plan, fault: BrokenPromise) -> bool:
    """Whether the reader begins now, and another one of its node reads the topic from earlier on."""
    mine = _read_of(plan, fault)
    return mine.start == "now" and any(
        other.node == mine.node and _overlap(other.topic, mine.topic) and other.start != "now"
        for other in plan.of(ReadStep)
    )


def reads_after_what_goes(plan: Plan, fault: BrokenPromise) -> bool:
    """Whether the reader begins after an event that retention may take since."""
    return plan.kept_events > 0 and _read_of(plan, fault).start == "event"


def consumer_may_die(plan: Plan, fault: BrokenPromise) -> bool:
    """Whether the reader is a named consumer that begins now, and its node ends and comes back."""
    mine, ended = _read_of(plan, fault), {step.node for step in plan.of(CrashStep, GoodbyeStep)}
    return bool(mine.consumer) and mine.start == "now" and mine.node in ended


def consumer_dies(plan: Plan, fault: BrokenPromise) -> bool:
    """Whether the reader is a named consumer, and its node dies."""
    mine, died = _read_of(plan, fault), {step.node for step in plan.of(CrashStep)}
    return bool(mine.consumer) and mine.node in died


def has_damage(plan: Plan, fault: BrokenPromise) -> bool:
    """Whether a bit flips on the node's disk."""
    return any(step.node == fault.node for step in plan.of(FlipStep))


def has_liars(plan: Plan, fault: BrokenPromise) -> bool:
    """Whether somebody lies."""
    return any(node.hostile for node in plan.nodes)


def lies(promise: str) -> Condition:
    """Whether somebody lies in a way that is known to break a promise."""
    breaking = {name for name, lie in LIES.items() if promise in lie.breaks}
    return lambda plan, fault: any(breaking.intersection(node.hostile) for node in plan.nodes)


def has_idle_connections(plan: Plan, fault: BrokenPromise) -> bool:
    """Whether nothing keeps connections from being idle: by flooding nodes only speak when there is news."""
    return plan.system == "flooding"


def any_of(*conditions: Condition) -> Condition:
    """Whether one of these applies."""
    return lambda plan, fault: any(condition(plan, fault) for condition in conditions)


KEPT_NOT_HANDED = "an event that its node keeps is not handed over"
BELOW_FLOOR = "an event lies below the floor of its node"
DOES_NOT_COME = "an event does not come to its node"

KNOWN: tuple[KnownFailure, ...] = (
    KnownFailure(
        "D1: counts holders without a disk",
        "a receipt counts nodes that keep the event in memory only",
        (100,),
        has_memory,
    ),
    KnownFailure(
        "D1: counts liars",
        "a receipt counts whoever says that it holds the event; nobody asks it to prove that",
        (136,),
        lies("D1"),
    ),
    KnownFailure(
        "D3: said to be level above a floor that is too high",
        "those who joined late tell a floor, which hides what others keep from whoever asks them",
        (187,),
        always,
    ),
    KnownFailure(f"D3: {BELOW_FLOOR}", "the same", (1515,), always),
    KnownFailure(
        "D3: said to be level and is not",
        "the same as below, where the node publishes on the stream as the reader begins; and others "
        "believe what liars tell of a stream",
        (7509,),
        any_of(has_it_in_part, lies("D3")),
    ),
    KnownFailure(
        "D3: said to be level and is not, of a stream that it had in part",
        "a node that has a stream from later on looks through what one other node has of it, and believes "
        "that this is all there is",
        (774,),
        always,
    ),
    KnownFailure(
        f"D3: {DOES_NOT_COME}",
        "a node that looks through a stream from its beginning forgets that when it crashes, and goes on "
        "where it was before; a node that has a stream from later on looks through what one other node has; "
        "others believe what liars tell of a stream, and ask for what does not exist",
        (1481,),
        any_of(reads_back_after_crash, has_it_in_part, lies("D3")),
    ),
    KnownFailure(
        f"D4: {KEPT_NOT_HANDED}",
        "where another reader of the node takes up the topic from earlier on, the first event is taken for "
        "old; events whose publishers' clocks are behind count as old when they had to be fetched",
        (857,),
        any_of(shares_a_stream, reads_now_by_wrong_clocks, lies("D4")),
    ),
    KnownFailure(
        f"D4: {BELOW_FLOOR}",
        "where a stream begins for a reader from now on is decided when others tell of it: what was "
        "published meanwhile, while the network was cut for example, counts as older",
        (1822,),
        always,
    ),
    KnownFailure(
        f"D5: {KEPT_NOT_HANDED}",
        "as above, and a consumer whose node ends before the first acknowledgement begins from now on again",
        (1568,),
        any_of(shares_a_stream, consumer_may_die, reads_now_by_wrong_clocks, lies("D5")),
    ),
    KnownFailure(f"D5: {BELOW_FLOOR}", "as D3 and D4", (683,), always),
    KnownFailure(
        "D6: a cursor means nothing on another node",
        "reading after an event is refused by a node that does not keep it yet",
        (135,),
        always,
    ),
    KnownFailure(
        "D6: an event that its node kept before the cursor's is not handed over",
        "reading after an event goes by the order in which this node happened to keep events",
        (115,),
        always,
    ),
    KnownFailure(
        f"D6: {KEPT_NOT_HANDED}",
        "the same, where retention has taken the cursor's event since",
        (1182,),
        reads_after_what_goes,
    ),
    KnownFailure(
        f"D6: {BELOW_FLOOR}",
        "reading after an event does not ask for what lies below the floor of the node",
        (76,),
        always,
    ),
    KnownFailure(
        "D6: handed before its parents by a node that had later ones",
        "a node that has a stream from later on and then from earlier on appends what is older behind it",
        (338,),
        always,
    ),
    KnownFailure(
        "D6: handed before its parents, which lie below the floor of its node",
        "as D4: whoever begins a stream that others publish on meanwhile takes the first of these events for "
        "old",
        (439,),
        always,
    ),
    KnownFailure(
        f"D7: {KEPT_NOT_HANDED}",
        "one damaged event makes all of a stream behind it unreadable, and nobody fetches it again",
        (662,),
        has_damage,
    ),
    KnownFailure(
        f"D8: {KEPT_NOT_HANDED}",
        "a pattern finds topics that somebody reads by name, not those that somebody publishes on",
        (11,),
        always,
    ),
    KnownFailure(f"D8: {DOES_NOT_COME}", "the same", (112,), always),
    KnownFailure(f"D8: {BELOW_FLOOR}", "the same", (1393,), always),
    KnownFailure("D8: an event does not arrive", "the same, outside of streams", (184,), always),
    KnownFailure(
        "D5: acknowledged and handed again",
        "an acknowledgement is answered before it is safe on the disk",
        (3761,),
        consumer_dies,
    ),
    KnownFailure(
        "D11: pushed out of a stream",
        "the newest events of a stream are kept, whoever published them: a stranger's push out all others",
        (1234,),
        has_liars,
    ),
    KnownFailure(
        "D13: a stream begins above all that was published",
        "whoever begins a stream believes what liars tell of it",
        (766,),
        lies("D13"),
    ),
    KnownFailure(
        "D13: a stream was lifted",
        "an event of a liar's own that stands near the last of all heights is taken where its parents are "
        "not known",
        (5804,),
        lies("D13"),
    ),
    KnownFailure(
        "D13: publishing fails", "no event can follow one at the last of all heights", (5804,), lies("D13")
    ),
    *(
        KnownFailure(
            f"{promise}: {DOES_NOT_COME}",
            "whoever believes what liars tell of a stream asks for what does not exist instead of what does; "
            "and as D3",
            (seed,),
            any_of(has_it_in_part, lies(promise)),
        )
        for promise, seed in (("D4", 703), ("D5", 1379), ("D6", 669))
    ),
    KnownFailure(
        "V: an event does not arrive",
        "what is sent in the moment in which the other side closes an idle connection is lost",
        (6334,),
        has_idle_connections,
    ),
    KnownFailure(
        "L: a reader is never ready where peers are shunned",
        "cards of peers that are shunned take the places of real neighbours",
        (66,),
        has_liars,
    ),
    KnownFailure(
        "L: a reader is never ready",
        "cards of invented peers, and peers that come and go all the time, take the places of real "
        "neighbours",
        (1287,),
        lies("L"),
    ),
)
"""In the order of promises."""

ABSENT: dict[str, str] = {
    "D2": "strict receipts: publish(…, strict=True)",
    "D6": "cursors that are cuts: subscribe(…, start=cut)",
    "D7": "repair: vinecast stream verify",
    "D9": "groups",
    "D10": "idempotent publishing: publish(…, dedup=…)",
    "D12": "purge, delete, mirror, export and import",
}
"""Promises whose operations do not exist."""


def unexpected_in(plan: Plan, faults: Iterable[BrokenPromise]) -> list[str]:
    """Names of the broken promises that are not known to be possible where they were broken."""
    known = {failure.name: failure for failure in KNOWN}
    odd = (one for one in faults if one.name not in known or not known[one.name].applies(plan, one))
    return sorted({fault.name for fault in odd})
