"""The papers' claims as executable checks: one module per source, one entry per claim.

``vinecast reproduce`` prints the paper's value next to ours and says whether the condition holds; it never
adjusts either.
"""

from collections.abc import Sequence

from vinecast.core.errors import InputError
from vinecast.lab.claims import cyclon, scribe
from vinecast.lab.claims.claim import Claim, Setup, check_claim
from vinecast.lab.claims.grid import claims as grid
from vinecast.lab.claims.poldercast import claims as poldercast
from vinecast.lab.claims.pulsarcast import claims as pulsarcast
from vinecast.lab.claims.pulsarcast import costs
from vinecast.lab.claims.quasar import claims as quasar
from vinecast.lab.claims.vinifera import claims as vinifera
from vinecast.lab.claims.vitis import claims as vitis

__all__ = ["CLAIMS", "Claim", "Setup", "check_claim", "select_claims"]

CLAIMS: dict[str, Claim] = {
    claim.id: claim
    for claim in (
        *cyclon.CLAIMS,
        *poldercast.CLAIMS,
        *scribe.CLAIMS,
        *grid.CLAIMS,
        *pulsarcast.CLAIMS,
        *costs.CLAIMS,
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
