"""What is compared: who, in which scenarios, and how large."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vinecast.core.errors import InputError

PARTS = ("one-to-ten", "one-to-one", "ten-to-ten", "paced")
RIVALS = ("jetstream", "nats", "zenoh", "redis", "mosquitto")
RATES = (50, 200, 1000)
HAND = 256  # events that Node.publish_all signs together
ONE_BY_ONE_PART = 10  # ours: so many times fewer events where each waits for the one before


@dataclass(frozen=True, slots=True)
class Contender:
    """Somebody who takes part: Vinecast or a rival, with or without keeping what is published."""

    name: str
    title: str
    durable: bool
    kind: str
    """Which member its processes run."""
    package: tuple[str, str, str] | None = None
    """Of Python, if it needs one: module, name and extra."""

    @property
    def is_ours(self) -> bool:
        """Whether it is Vinecast."""
        return self.kind == "vinecast"


OURS = (
    Contender("vinecast-durable", "Vinecast durable", True, "vinecast"),
    Contender("vinecast-volatile", "Vinecast volatile", False, "vinecast"),
)
_NATS, _MORE = ("nats", "nats-py", "bench"), "bench-rivals"
THEIRS = (
    Contender("jetstream", "JetStream (file)", True, "nats", _NATS),
    Contender("redis", "Redis streams", True, "redis", ("redis", "redis-py", _MORE)),
    Contender("nats", "NATS core", False, "nats", _NATS),
    Contender("zenoh", "zenoh", False, "zenoh", ("zenoh", "eclipse-zenoh", _MORE)),
    Contender("mosquitto", "Mosquitto", False, "mosquitto", ("paho", "paho-mqtt", _MORE)),
)


@dataclass(frozen=True, slots=True)
class RivalScenario:
    """Who publishes how much to how many."""

    part: str
    publishers: int
    subscribers: int
    hand: int
    """Events that a publisher takes in hand, where it goes as fast as it can."""
    rate: int = 0
    """Events a second; 0: as fast as it goes."""

    @property
    def title(self) -> str:
        """For the table."""
        how = f"{self.hand} in hand" if self.hand > 1 else "one by one"
        if self.rate:
            how = f"{self.rate:,} a second"
        return f"{self.publishers} → {self.subscribers}, {how}"


@dataclass(frozen=True, slots=True)
class RivalPlan:
    """Which parts of the comparison are run, against whom, and how large they are."""

    parts: Sequence[str] = PARTS
    rivals: Sequence[str] = RIVALS
    events: int = 10_000
    """Of a run that goes as fast as it can; of one by one a tenth."""
    repeat: int = 3
    """Turns; the median of them counts."""
    seconds: int = 5
    """How long a rate is published at."""
    folder: Path | None = None
    """Where streams are kept meanwhile; None: where temporary files go."""
    many: int = 10
    """How many ten are."""
    rates: Sequence[int] = RATES
    """Events a second."""
    period_s: float = 0.0
    """Of our nodes' gossip; 0: as they come."""

    def __post_init__(self) -> None:
        for given, known in ((self.parts, PARTS), (self.rivals, RIVALS)):
            for name in given:
                if name not in known:
                    raise InputError(f"the benchmark does not know {name!r}: {', '.join(known)}")
        if self.folder is not None and not self.folder.is_dir():
            raise InputError(f"cannot measure in {self.folder}: it is not a folder")

    def contenders(self) -> list[Contender]:
        """Ours first, then those who are asked for."""
        return [*OURS, *(one for one in THEIRS if one.name in self.rivals)]

    def scenarios(self) -> list[RivalScenario]:
        """Those of the parts that are run; with as many publishers and subscribers, one after the other."""
        many = self.many
        found = [RivalScenario("one-to-ten", 1, many, hand) for hand in (HAND, 16, 1)]
        found += [RivalScenario("paced", 1, many, 1, rate) for rate in self.rates]
        found += [RivalScenario("one-to-one", 1, 1, hand) for hand in (HAND, 1)]
        found += [RivalScenario("ten-to-ten", many, many, hand) for hand in (HAND, 1)]
        return [scenario for scenario in found if scenario.part in self.parts]

    def events_of(self, scenario: RivalScenario) -> int:
        """Of each publisher in a scenario."""
        if scenario.rate:
            return scenario.rate * self.seconds
        events = self.events if scenario.hand > 1 else self.events // ONE_BY_ONE_PART
        return max(1, events // scenario.publishers)
