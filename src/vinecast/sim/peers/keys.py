"""Keys of simulated peers: signatures that cost a hash, and that nobody else can make.

Whoever signs has a secret; whoever verifies asks the ring, which knows all secrets and tells nobody. So a
hostile peer can sign in its own name only, as with real keys, and a run costs a hundredth of their time.
Public keys and signatures are as long as real ones, and content ids are computed the same everywhere.
"""

import hashlib
import hmac
from collections.abc import Callable, Sequence

from vinecast.peer.identity import PUBLIC_KEY_BYTES, SIGNATURE_BYTES, NodeId, node_id_of


class SimulatedIdentity:
    """Who a simulated node is."""

    __slots__ = ("id", "public", "sign")

    def __init__(self, public: bytes, sign: Callable[[bytes], bytes]) -> None:
        self.public, self.sign = public, sign
        self.id: NodeId = node_id_of(public)


class KeyRing:
    """The keys of one run. ``publics``: the public keys of the first identities, where those are given."""

    def __init__(self, seed: int, publics: Sequence[bytes] = ()) -> None:
        self._seed, self._publics = seed, publics
        self._secrets: dict[bytes, bytes] = {}

    def identity(self, number: int) -> SimulatedIdentity:
        """The identity with this number: the same for the same seed."""
        secret = hashlib.sha256(b"secret %d %d" % (self._seed, number)).digest()
        public = hashlib.sha256(secret).digest()[:PUBLIC_KEY_BYTES]
        if number < len(self._publics):
            public = self._publics[number]
        self._secrets[public] = secret
        return SimulatedIdentity(public, lambda data: _signature(secret, data))

    def verify(self, public: bytes, data: bytes, signature: bytes) -> bool:
        """Whether the owner of the public key signed the data."""
        secret = self._secrets.get(public)
        return secret is not None and hmac.compare_digest(_signature(secret, data), signature)


def _signature(secret: bytes, data: bytes) -> bytes:
    return hashlib.blake2b(data, key=secret, digest_size=SIGNATURE_BYTES).digest()
