"""The Higgs activity as content: who retweeted, mentioned or answered whom in a week of 2012, and when.

A line of SNAP's file is ``actor target unix-time kind``. As an event an act has four attributes:

    time     when it was
    actor    who acted, by rank: 1 acted most often
    target   whom it concerned, by rank: 1 was concerned most often
    kind     RT, MT or RE

A node is a user, the likelier the more often it acted, and publishes acts of its own. The trace does not say
who reads what, so wishes are made of acts too (ours): a filter is made around one of the node's own and wants
either whatever concerns the same user, or acts of the same kind within some hours, or acts of those about as
active upon those about as well known. So both events and filters have the skew of what people did: a few
users whom everybody spoke of, and a few hours in which most was said.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vinecast.core.content.filters import Filter, make_filter
from vinecast.core.content.schemas import Attribute, Event, Schema
from vinecast.core.draws import below_array, purpose, shuffled, stream, unit_array
from vinecast.core.errors import InputError
from vinecast.sim.workload.textfile import lines_of

FILE = "higgs-activity_time.txt.gz"
"""Its name in the data folder."""
KINDS = ("MT", "RE", "RT")
"""Mentions, replies, retweets."""
SECOND_US = 1_000_000
WITHIN_US = 3 * 3600 * SECOND_US  # ours: around an act, whose like is wanted
ABOUT = 2  # ours: ranks from a half to twice as high are alike
NUMBER_MAX = 2**32 - 1  # ours
WEEK_S = 7 * 24 * 3600
SHARES = (0.3, 0.07, 0.63)  # of kinds, about the trace's

_ORDER = purpose("higgs.order")
_WISHES = purpose("higgs.wishes")
_MADE = purpose("higgs.made")

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Acts:
    """One act each. [act]"""

    actor: Numbers
    """By rank, as is the target."""
    target: Numbers
    time_us: Numbers
    kind: Numbers
    """The place among ``KINDS``."""

    @property
    def users(self) -> int:
        """How many acted."""
        return int(self.actor.max())

    def schema(self) -> Schema:
        """What acts look like as events."""
        return Schema(
            "activity",
            (
                Attribute("time", "time", int(self.time_us.min()), int(self.time_us.max())),
                Attribute("actor", "integer", 1, self.users),
                Attribute("target", "integer", 1, int(self.target.max())),
                Attribute("kind", "string"),
            ),
        )

    def event(self, act: int) -> Event:
        """An act as an event of the schema."""
        time_us, actor, target = (int(column[act]) for column in (self.time_us, self.actor, self.target))
        return time_us, actor, target, KINDS[self.kind[act]]


def acts_of(actor: Numbers, target: Numbers, time_s: Numbers, kind: Numbers) -> Acts:
    """Acts of users by any numbers. All [act]"""
    return Acts(_ranks(actor), _ranks(target), time_s * SECOND_US, kind)


def _ranks(users: Numbers) -> Numbers:
    """The most frequent is 1; of equally frequent ones the lower number comes first."""
    _, inverse, count = np.unique(users, return_inverse=True, return_counts=True)
    rank = np.empty(count.size, dtype=np.int64)
    rank[np.argsort(-count, kind="stable")] = np.arange(1, count.size + 1)
    return np.asarray(rank[inverse])


def read_acts(data: Path | None) -> Acts:
    """The trace in a data folder."""
    if data is None:
        raise InputError(f'the content "higgs" needs {FILE}: give the folder that holds it with --data DIR')
    path = data / FILE
    if not path.is_file():
        raise InputError(f'the content "higgs" needs {FILE}, which is not in {data} (--data DIR)')
    return parse_acts(path)


@lru_cache(maxsize=1)
def parse_acts(path: Path) -> Acts:
    """Read a trace, plain or gzipped; a line that is not as above is refused with its number."""
    kinds = {name: number for number, name in enumerate(KINDS)}
    rows: list[tuple[int, int, int, int]] = []
    for number, line in lines_of(path):
        try:
            actor, target, time_s, kind = line.split()
            row = int(actor), int(target), int(time_s), kinds[kind]
        except (ValueError, KeyError):
            raise InputError(
                f"{path}:{number}: not two users, a time and one of {', '.join(KINDS)}"
            ) from None
        if not 0 <= min(row) <= max(row) <= NUMBER_MAX:
            raise InputError(f"{path}:{number}: users and times are numbers from 0 to {NUMBER_MAX:,}")
        rows.append(row)
    if not rows:
        raise InputError(f"{path}: the trace has no act")
    return acts_of(*np.array(rows, dtype=np.int64).T)


def made_acts(seed: int, count: int) -> Acts:
    """Acts of a similar shape, where there is no trace: ranks by Zipf, half of all within a day."""
    units = unit_array(stream(seed, _MADE, 0, 0), np.arange(5 * count)).reshape(5, count)
    actor, target = ((count ** units[row]).astype(np.int64) for row in (0, 1))
    day = np.where(units[2] < 0.5, 3 / 7 + units[3] / 7, units[3])
    kind = np.searchsorted(np.cumsum(SHARES[:-1]), units[4], side="right")
    return acts_of(actor, target, (day * WEEK_S).astype(np.int64), kind)


def population(
    acts: Acts, seed: int, nodes: int, each: int
) -> tuple[Schema, tuple[tuple[Filter, ...], ...], tuple[tuple[Event, ...], ...]]:
    """The schema; by node up to so many filters, and the acts that are its own."""
    if nodes > acts.users:
        raise InputError(f'the content "higgs" has only {acts.users:,} users, not {nodes:,}')
    order = shuffled(stream(seed, _ORDER, 0, 0), acts.actor.size)
    users, first = np.unique(acts.actor[order], return_index=True)
    chosen = users[np.argsort(first)[:nodes]]
    by_actor = np.argsort(acts.actor, kind="stable")
    starts = np.searchsorted(acts.actor[by_actor], chosen, side="left")
    ends = np.searchsorted(acts.actor[by_actor], chosen, side="right")
    own = [by_actor[start:end].tolist() for start, end in zip(starts, ends, strict=True)]
    schema = acts.schema()
    units = unit_array(stream(seed, _WISHES, 0, 0), np.arange(nodes * each)).reshape(nodes, each)
    forms = below_array(stream(seed, _WISHES, 1, 0), np.arange(nodes * each), len(_FORMS))
    filters = tuple(
        tuple(
            dict.fromkeys(
                _FORMS[form](schema, acts.event(mine[int(unit * len(mine))]))
                for unit, form in zip(row.tolist(), wanted.tolist(), strict=True)
            )
        )
        for mine, row, wanted in zip(own, units, forms.reshape(nodes, each), strict=True)
    )
    return schema, filters, tuple(tuple(map(acts.event, mine)) for mine in own)


def _same_target(schema: Schema, act: Event) -> Filter:
    return make_filter(schema, {"target": (act[2], act[2])})


def _same_time(schema: Schema, act: Event) -> Filter:
    time, within = schema.attributes[0], (int(act[0]) - WITHIN_US, int(act[0]) + WITHIN_US)
    ends = max(within[0], time.low), min(within[1], time.high)
    return make_filter(schema, {"time": ends, "kind": (act[3], act[3])})


def _same_rank(schema: Schema, act: Event) -> Filter:
    ranges = {}
    for place in (1, 2):
        attribute, rank = schema.attributes[place], int(act[place])
        ranges[attribute.name] = -(-rank // ABOUT), min(rank * ABOUT, attribute.high)
    return make_filter(schema, ranges)


_FORMS: tuple[Callable[[Schema, Event], Filter], ...] = (_same_target, _same_time, _same_rank)
