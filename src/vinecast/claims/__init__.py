"""The papers' claims as executable checks: one module per source, one entry per claim.

``vinecast reproduce`` prints the paper's value next to ours and says whether the condition holds; it never
adjusts either.
"""

from collections.abc import Sequence

from vinecast.claims import (
    cyclon,
    grid,
    poldercast,
    pulsarcast,
    pulsarcast_costs,
    quasar,
    scribe,
    vinifera,
    vitis,
)
from vinecast.claims.claim import Claim, Setup, check_claim
from vinecast.core.errors import InputError

__all__ = ["CLAIMS", "Claim", "Setup", "check_claim", "select_claims"]

CLAIMS: dict[str, Claim] = {
    claim.id: claim
    for claim in (
        *cyclon.CLAIMS,
        *poldercast.CLAIMS,
        *scribe.CLAIMS,
        *grid.CLAIMS,
        *pulsarcast.CLAIMS,
        *pulsarcast_costs.CLAIMS,
        *vitis.CLAIMS,
        *quasar.CLAIMS,
        *vinifera.CLAIMS,
    )
}


def select_claims(ids: Sequence[str]) -> list[Claim]:
    """The claims of these ids, in this order; ``all`` stands for every one."""
    if [name.lower() for name in ids] == ["all"]:
        return list(CLAIMS.values())
    unknown = [name for name in ids if name.upper() not in CLAIMS]
    if unknown:
        raise InputError(f"unknown claim {unknown[0]} (known: {', '.join(CLAIMS)})")
    return [CLAIMS[name] for name in dict.fromkeys(name.upper() for name in ids)]
