"""How the topics of PolderCast's sweeps are measured."""

from vinecast.core.machine import NOBODY
from vinecast.systems.common.measures import Occasion, Published, SweepMeasures
from vinecast.systems.poldercast.sweep import PolderCastSweep


def _publish(sweep: PolderCastSweep, occasion: Occasion) -> Published:
    rings = sweep.publish(occasion.cycle, delays=occasion.delays, publishers=occasion.publishers)
    rings.dissemination.publisher[occasion.events == 0] = NOBODY
    return Published(rings.run(occasion.divide), None)


MEASURES = SweepMeasures(_publish, has_rings=True, counts_messages=True, takes_delays=True)
