"""Who a node is: an Ed25519 key pair.

The node's id is a hash of its public key, so that nobody can choose an id, and whoever claims one must be
able to sign for it. Keys are made and kept by ``node/storage/identity_file``.
"""

import hashlib

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from nacl.bindings import crypto_sign, crypto_sign_open, crypto_sign_seed_keypair
from nacl.exceptions import BadSignatureError, CryptoError

NodeId = bytes
"""The 32 bytes sha256(b"node:" + public key); the first 8 are the node's point on the circle."""

PUBLIC_KEY_BYTES = 32
SIGNATURE_BYTES = 64


def node_id_of(public: bytes) -> NodeId:
    """The id of the node with this public key."""
    return hashlib.sha256(b"node:" + public).digest()


def verify(public: bytes, data: bytes, signature: bytes) -> bool:
    """Whether the owner of the public key signed the data. Any garbage is just False."""
    if len(public) != PUBLIC_KEY_BYTES or len(signature) != SIGNATURE_BYTES:
        return False
    try:
        crypto_sign_open(signature + data, public)
    except (BadSignatureError, CryptoError, ValueError):
        return False
    return True


class Identity:
    """A key pair. It signs; it never shows its private half in a message or a log."""

    __slots__ = ("_secret", "_seed", "id", "public")

    def __init__(self, seed: bytes) -> None:
        """Make the identity of a 32-byte secret seed; see ``node/storage/identity_file``."""
        self._seed = seed
        self.public, self._secret = crypto_sign_seed_keypair(seed)
        self.id: NodeId = node_id_of(self.public)

    def sign(self, data: bytes) -> bytes:
        """The 64 bytes of the signature."""
        return crypto_sign(data, self._secret)[:SIGNATURE_BYTES]

    def private_key(self) -> Ed25519PrivateKey:
        """The key for ``cryptography``, which makes the certificate."""
        return Ed25519PrivateKey.from_private_bytes(self._seed)

    def __repr__(self) -> str:
        return f"Identity({self.id.hex()[:16]}…)"
