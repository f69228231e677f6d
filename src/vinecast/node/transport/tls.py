"""TLS 1.3 between nodes that know nobody: both sides show a certificate, and only its key means anything.

The ``ssl`` module cannot accept unknown self-signed client certificates. So every node signs its own leaf
with the *open CA*, an authority whose private half is published right here. It vouches for nothing. What TLS
proves is that the other end holds the private half of its leaf's key; who that is, its hash says, and whoever
dials a node compares the two.
"""

import datetime
import hashlib
import ssl
import tempfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import NameOID

from vinecast.core.errors import RemoteError
from vinecast.peer.identity import Identity

_OPEN_CA = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"vinecast open CA").digest())
_OPEN_CA_NAME = "vinecast open CA: vouches for nothing"
# A node whose clock is wrong must still be able to connect.
_FROM = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
_UNTIL = datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC)


def contexts(identity: Identity) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """What a node needs to accept and to dial."""
    server = _context(ssl.PROTOCOL_TLS_SERVER, identity)
    server.num_tickets = 0  # sessions are never resumed: every connection proves its key
    return server, _context(ssl.PROTOCOL_TLS_CLIENT, identity)


def public_key_of(certificate: bytes | None) -> bytes:
    """The node's key in a certificate (DER), or RemoteError."""
    try:
        key = x509.load_der_x509_certificate(certificate or b"").public_key()
    except Exception:  # whatever a stranger's bytes make a parser of certificates raise
        raise RemoteError("bad certificate") from None
    if not isinstance(key, Ed25519PublicKey):
        raise RemoteError("bad certificate")
    return key.public_bytes_raw()


def _context(protocol: int, identity: Identity) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=_open_ca().public_bytes(serialization.Encoding.DER))
    key = identity.private_key()
    leaf = _certificate(_name(key.public_key().public_bytes_raw().hex()), key.public_key(), authority=False)
    # load_cert_chain reads files only: they exist for this one call, where nobody else can look.
    with tempfile.TemporaryDirectory(prefix="vinecast-") as folder:
        path = Path(folder) / "leaf.pem"
        path.touch(mode=0o600)
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + leaf.public_bytes(serialization.Encoding.PEM)
        )
        context.load_cert_chain(path)
    return context


def _open_ca() -> x509.Certificate:
    return _certificate(_name(_OPEN_CA_NAME), _OPEN_CA.public_key(), authority=True)


def _certificate(name: x509.Name, key: Ed25519PublicKey, authority: bool) -> x509.Certificate:
    """A certificate by the open CA. The same key always gives the same bytes."""
    issuer = _OPEN_CA.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(_name(_OPEN_CA_NAME))
        .public_key(key)
        .serial_number(int.from_bytes(hashlib.sha256(key.public_bytes_raw()).digest()[:15], "big") | 1)
        .not_valid_before(_FROM)
        .not_valid_after(_UNTIL)
        .add_extension(
            x509.BasicConstraints(ca=authority, path_length=0 if authority else None), critical=True
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer), critical=False)
        .sign(_OPEN_CA, algorithm=None)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
