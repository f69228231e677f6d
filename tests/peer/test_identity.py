"""Identities and addresses: keys that last, that nobody else can read, and that are never overwritten."""

import hashlib
import ssl
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from hypothesis import given
from hypothesis import strategies as st

from vinecast.core import circle
from vinecast.core.errors import InputError, RemoteError
from vinecast.node.storage.identity_file import KEY_FILE, load_or_make_identity, make_identity
from vinecast.node.transport.tls import contexts, public_key_of
from vinecast.peer.address import Address, reachable
from vinecast.peer.identity import node_id_of, verify


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_id_is_a_hash_of_the_public_key_and_a_point_on_the_circle() -> None:
    identity = make_identity()
    assert identity.id == hashlib.sha256(b"node:" + identity.public).digest() == node_id_of(identity.public)
    assert int.from_bytes(identity.id[:8], "big") == circle.id_of(b"node:" + identity.public)
    assert make_identity().id != identity.id


def test_signatures() -> None:
    one, other = make_identity(), make_identity()
    signature = one.sign(b"data")
    assert len(signature) == 64
    assert verify(one.public, b"data", signature)
    assert not verify(one.public, b"date", signature)
    assert not verify(other.public, b"data", signature)


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=80))
def test_garbage_is_no_signature(public: bytes, data: bytes, signature: bytes) -> None:
    assert not verify(public, data, signature)


def test_created_once_with_safe_permissions(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "node"
    first = load_or_make_identity(folder)
    key = folder / KEY_FILE
    assert (mode(folder), mode(key)) == (0o700, 0o600)
    assert [path.name for path in folder.iterdir()] == [KEY_FILE]
    written = key.read_bytes()
    assert load_or_make_identity(folder).id == first.id
    assert key.read_bytes() == written
    assert "PRIVATE" not in repr(first)


def test_an_empty_folder_is_closed_to_others(tmp_path: Path) -> None:
    folder = tmp_path / "node"
    folder.mkdir()
    folder.chmod(0o755)
    load_or_make_identity(folder)
    assert mode(folder) == 0o700


def test_a_key_that_appears_meanwhile_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_or_make_identity(tmp_path)
    monkeypatch.setattr(Path, "exists", lambda self: False)  # as if another process wrote it just now
    assert load_or_make_identity(tmp_path).id == first.id
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]


def test_a_folder_open_to_others_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "something").touch()
    tmp_path.chmod(0o750)
    with pytest.raises(InputError, match=r"others can enter the folder .* \(mode 750\)"):
        load_or_make_identity(tmp_path)
    assert not (tmp_path / KEY_FILE).exists()


def test_a_key_that_others_can_read_is_an_error(tmp_path: Path) -> None:
    load_or_make_identity(tmp_path)
    (tmp_path / KEY_FILE).chmod(0o644)
    with pytest.raises(InputError, match=r"others can read the key .* \(mode 644\)"):
        load_or_make_identity(tmp_path)


def other_key() -> bytes:
    return generate_private_key(SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "damaged"),
        (b"garbage", "damaged"),
        (b"\xff" * 200, "damaged"),
        (other_key(), "not an Ed25519 key"),
    ],
    ids=["empty", "garbage", "bytes", "another algorithm"],
)
def test_a_damaged_key_is_an_error_and_stays(tmp_path: Path, content: bytes, complaint: str) -> None:
    key = tmp_path / KEY_FILE
    key.touch(mode=0o600)
    key.write_bytes(content)
    with pytest.raises(InputError, match=complaint):
        load_or_make_identity(tmp_path)
    assert key.read_bytes() == content


def test_a_truncated_key_is_an_error(tmp_path: Path) -> None:
    load_or_make_identity(tmp_path)
    key = tmp_path / KEY_FILE
    key.write_bytes(key.read_bytes()[:60])
    with pytest.raises(InputError, match="damaged"):
        load_or_make_identity(tmp_path)


def test_a_file_in_place_of_the_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "node").touch()
    with pytest.raises(InputError, match="is not a folder"):
        load_or_make_identity(tmp_path / "node")


def test_a_key_that_is_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).mkdir(mode=0o700)
    with pytest.raises(InputError, match="cannot use the folder"):
        load_or_make_identity(tmp_path)


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match="No space left"):
        load_or_make_identity(tmp_path)
    assert not list(tmp_path.iterdir())


def test_contexts_demand_tls_1_3_and_a_certificate() -> None:
    for context in contexts(make_identity()):
        assert context.minimum_version is ssl.TLSVersion.TLSv1_3
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert not context.check_hostname


@given(st.none() | st.binary(max_size=200))
def test_garbage_is_no_certificate(certificate: bytes | None) -> None:
    with pytest.raises(RemoteError, match="bad certificate"):
        public_key_of(certificate)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:7000", Address("127.0.0.1", 7000)),
        ("[::1]:7000", Address("::1", 7000)),
        ("seed.example.org:1", Address("seed.example.org", 1)),
        ("localhost:0", Address("localhost", 0)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert Address.parse(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "host",
        "host:",
        ":7000",
        "::1:7000",
        "[::1]",
        "[x]:1",
        "host:65536",
        "host:-1",
        "host:1x",
        "a b:1",
        "[]:1",
        "host:٣",
        "höst:1",
        "a/b:1",
        "x" * 254 + ":1",
        "a\n:1",
    ],
)
def test_not_addresses(text: str) -> None:
    with pytest.raises(InputError, match="not an address"):
        Address.parse(text)


@given(st.text(max_size=40))
def test_parsing_anything_gives_an_address_or_a_sentence(text: str) -> None:
    try:
        address = Address.parse(text)
    except InputError:
        return
    assert Address.parse(str(address)) == address


def test_a_peer_is_reachable_where_it_says_or_where_it_is_seen() -> None:
    assert reachable(Address("10.0.0.1", 7), "10.0.0.9") == Address("10.0.0.1", 7)
    assert reachable(Address("0.0.0.0", 7), "10.0.0.9") == Address("10.0.0.9", 7)
    assert reachable(Address("::", 7), "fe80::9") == Address("fe80::9", 7)
    assert reachable(Address("127.0.0.1", 7), "10.0.0.9") == Address("10.0.0.9", 7)
    assert reachable(Address("localhost", 7), "127.0.0.1") == Address("localhost", 7)
