"""Settings with which searches are quick, and what is counted of them."""

from vinecast.core.events import Count, Effect
from vinecast.protocols.gravity import GravityConfig
from vinecast.systems.common.anycast import AnycastConfig

SECOND = 1_000_000
GRAVITY = GravityConfig(degree=6, crowded=0.5, period_s=2.0)
ON = AnycastConfig(on=True, gravity=GRAVITY)


def counts(effects: list[Effect]) -> list[str]:
    return [effect.name for effect in effects if isinstance(effect, Count)]
