"""Disseminations that were traced, event by event."""

from collections.abc import Iterable

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.dissemination import Dissemination
from vinecast.core.trace import TraceRecord
from vinecast.sim.measure.metrics import DisseminationMeter


def dissemination_of(records: Iterable[TraceRecord], profiles: Profiles, first_event: int) -> Dissemination:
    """The dissemination that trace records tell of; topic t's event is first_event + t."""
    meter = DisseminationMeter(profiles, first_event)
    for record in records:
        meter(record)
    return meter.dissemination
