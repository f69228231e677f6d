"""The plan of a run: who is there, what people do, and what befalls them, all said beforehand.

A plan is data. Its seed decides it (``draw_plan``), it can be written down, read by a person, and made
smaller while it still shows what it showed (``shrink``). Times are seconds since the beginning of the run.
"""

from dataclasses import dataclass, fields
from typing import Any

TOPICS = ("news/now", "news/old", "jobs")
"""Topics of runs, some of them."""
SCHEMA_TOPIC = "trades"
"""The topic whose events have a schema."""


@dataclass(frozen=True, slots=True)
class PeerPlan:
    """One node."""

    memory: bool = False
    """Whether it has no folder: everything is gone when it ends."""
    hostile: tuple[str, ...] = ()
    """In which ways it lies; none: it is honest."""
    ahead_s: float = 0.0
    """By how much its clock is ahead at the beginning."""
    drift: float = 0.0
    """Seconds that its clock counts too many in a second."""


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happens."""

    at_s: float


@dataclass(frozen=True, slots=True)
class BeginStep(Step):
    """A node comes up, told of some others."""

    node: int
    join: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReadStep(Step):
    """Somebody reads a topic, a pattern or a schema, on one node, again after each restart of it."""

    node: int
    reader: int
    """Its number in the plan."""
    topic: str
    start: str
    """``now``, ``earliest``, or ``event``: after an event that somebody has read before."""
    consumer: str = ""
    """By which name it acknowledges what it was handed; nothing for none."""
    take_s: float = 0.0
    """How long it takes for each event."""
    wanted: str = ""
    """The filter, where the topic has a schema."""
    until_s: float = 0.0
    """When it reads no more; 0 for never."""


@dataclass(frozen=True, slots=True)
class PublishStep(Step):
    """Somebody publishes."""

    node: int
    number: int
    """Of the publication in the plan."""
    topic: str
    events: int = 1
    durable: bool = True
    size: int = 64
    """Bytes of a payload."""


@dataclass(frozen=True, slots=True)
class CrashStep(Step):
    """A process dies; with ``power``, its machine too, which closes no connection."""

    node: int
    down_s: float
    """How long it is gone; 0 for ever."""
    power: bool = False


@dataclass(frozen=True, slots=True)
class GoodbyeStep(Step):
    """A node is closed in good order."""

    node: int
    down_s: float


@dataclass(frozen=True, slots=True)
class PauseStep(Step):
    """A process is stopped for a while, and goes on."""

    node: int
    for_s: float


@dataclass(frozen=True, slots=True)
class CutOffStep(Step):
    """Nothing passes between some nodes and the others."""

    side: tuple[int, ...]
    for_s: float


@dataclass(frozen=True, slots=True)
class BreakLinkStep(Step):
    """A connection breaks."""

    pick: int
    """Which one of those there are."""


@dataclass(frozen=True, slots=True)
class HalfOpenStep(Step):
    """One end of a connection is lost, and the other does not notice."""

    pick: int


@dataclass(frozen=True, slots=True)
class RefuseStep(Step):
    """A node takes no connections."""

    node: int
    for_s: float


@dataclass(frozen=True, slots=True)
class DiskFullStep(Step):
    """A disk can write nothing."""

    node: int
    for_s: float


@dataclass(frozen=True, slots=True)
class ReadsFailStep(Step):
    """Nothing can be read from a disk."""

    node: int
    for_s: float


@dataclass(frozen=True, slots=True)
class StrikeStep(Step):
    """From now on: at the first receipt that names so many holders its publisher dies for good, and all of
    so many that have the event on their disks but one."""

    holders: int


@dataclass(frozen=True, slots=True)
class FlipStep(Step):
    """A bit of an event flips on a disk."""

    node: int
    pick: int


@dataclass(frozen=True, slots=True)
class SetClockStep(Step):
    """Somebody sets the clock of a node."""

    node: int
    by_s: float


AnyStep = (
    BeginStep
    | ReadStep
    | PublishStep
    | CrashStep
    | GoodbyeStep
    | PauseStep
    | CutOffStep
    | BreakLinkStep
    | HalfOpenStep
    | RefuseStep
    | DiskFullStep
    | ReadsFailStep
    | FlipStep
    | SetClockStep
    | StrikeStep
)
FAULTS = (
    CrashStep,
    GoodbyeStep,
    PauseStep,
    CutOffStep,
    BreakLinkStep,
    HalfOpenStep,
    RefuseStep,
    DiskFullStep,
    ReadsFailStep,
    FlipStep,
    SetClockStep,
    StrikeStep,
)


@dataclass(frozen=True, slots=True)
class Plan:
    """One run."""

    seed: int
    system: str
    nodes: tuple[PeerPlan, ...]
    steps: tuple[AnyStep, ...]
    """In the order of time."""
    period_s: float = 1.0
    holders: int = 1
    """Others that a receipt waits for."""
    wait_s: float = 10.0
    """Seconds for which a publisher waits for them."""
    kept_events: int = 0
    """Events of a stream that a node keeps at the most; 0: all."""
    loss: float = 0.0
    """Share of frames that vanish on their way (``LinkConfig``)."""

    @property
    def honest(self) -> list[int]:
        """Nodes that play fair."""
        return [number for number, node in enumerate(self.nodes) if not node.hostile]

    @property
    def quiet_s(self) -> float:
        """When the last thing has happened, and the last fault is over."""
        return max((ends_s(step) for step in self.steps), default=0.0)

    def of(self, *kinds: type[Step]) -> list[Any]:
        """The steps of some kinds."""
        return [step for step in self.steps if isinstance(step, kinds)]


def ends_s(step: AnyStep) -> float:
    """When a step is over."""
    match step:
        case CrashStep(at_s, _, down_s) | GoodbyeStep(at_s, _, down_s):
            return at_s + down_s
        case (
            PauseStep(at_s, _, for_s)
            | CutOffStep(at_s, _, for_s)
            | RefuseStep(at_s, _, for_s)
            | DiskFullStep(at_s, _, for_s)
            | ReadsFailStep(at_s, _, for_s)
        ):
            return at_s + for_s
    return step.at_s


def told(step: AnyStep) -> str:
    """A step for a person."""
    given = [f"{field.name}={getattr(step, field.name)!r}" for field in fields(step) if field.name != "at_s"]
    name = type(step).__name__.removesuffix("Step")
    return f"{step.at_s:7.2f} s  {name}({', '.join(given)})"
