"""How the topics of the sweeps of Vitis, RVR and OPT are measured."""

from vinecast.core.machine import NOBODY
from vinecast.systems.common.measures import Occasion, Published, SweepMeasures
from vinecast.systems.tman_sweep.events import TManPublication
from vinecast.systems.tman_sweep.sweep import TManSweep


def _publish(sweep: TManSweep, occasion: Occasion) -> Published:
    publication = TManPublication(sweep, occasion.cycle, occasion.events, occasion.publishers)
    publication.dissemination.publisher[occasion.events == 0] = NOBODY
    dissemination = publication.run(occasion.divide)
    sweep.note_events(dissemination, occasion.events)
    return Published(dissemination, publication.received)


MEASURES = SweepMeasures(_publish, learns=True)
