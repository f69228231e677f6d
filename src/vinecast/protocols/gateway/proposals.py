"""What profiles say about gateways, beside the pool of a table of profiles."""

import numpy as np

from vinecast.core.arrays.profiles import Profiles
from vinecast.protocols.gateway.rules import Proposed


class Proposals:
    """The proposals of everybody in a table of profiles, as each last said them."""

    def __init__(self, profiles: Profiles) -> None:
        self._profiles = profiles
        owner = profiles.owners()
        self._said = Proposed(owner, owner.copy(), np.zeros(owner.size, dtype=np.uint8))

    @property
    def said(self) -> Proposed:
        """All of them; taken anew after anybody's topics have changed."""
        more = self._profiles.topics.size - self._said.gateway.size
        if more > 0:
            self._said = Proposed(*(np.concatenate([old, np.zeros(more, old.dtype)]) for old in self._said))
        return self._said

    def say(self, peer: int, proposed: Proposed) -> None:
        """Take over what a peer proposes, in the order of its topics."""
        profiles = self._profiles
        rows = slice(int(profiles.beg[peer]), int(profiles.beg[peer]) + int(profiles.cnt[peer]))
        said = self.said
        said.gateway[rows], said.parent[rows], said.hops[rows] = proposed


def propose_oneself(me: int, topics: int) -> Proposed:
    """What a node proposes that has heard nobody: itself."""
    own = np.full(topics, me, dtype=np.int32)
    return Proposed(own, own.copy(), np.zeros(topics, dtype=np.uint8))
