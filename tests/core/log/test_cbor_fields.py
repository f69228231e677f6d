"""The pieces of DAG-CBOR against what IPLD publishes, and every reader against each form that it forbids."""

from collections.abc import Callable
from typing import Any

import dag_cbor
import pytest
from hypothesis import given
from hypothesis import strategies as st
from multiformats import CID

from support.misformed import misformed
from vinecast.core.errors import RemoteError
from vinecast.core.log import event_record
from vinecast.core.log.blocks import (
    BYTES,
    LIST,
    NUMBER,
    TEXT,
    cid_from_text,
    cid_of,
    cid_text,
    head,
    read_bytes,
    read_head,
    read_text,
)
from vinecast.core.log.cbor_fields import read_link, read_map, write_link, write_map
from vinecast.core.log.descriptor import decode_descriptor
from vinecast.core.log.name_record import decode_name

# From IPLD's cross-codec fixtures (ipld.io/specs/codecs/dag-cbor/fixtures/cross-codec): bytes, content id.
PUBLISHED_LISTS = {
    2: ("8102", "bafyreihdb57fdysx5h35urvxz64ros7zvywshber7id6t6c6fek37jgyfe"),
    255: ("8118ff", "bafyreick3uapgoe63rizj6rptbqwl7pagin26fos32n37fu7uktzcadcdu"),
    500: ("811901f4", "bafyreidasbkb6vj3obxxqqgiz2ahvw7iaxmj446bbnrroj3jt6vzpo5fhm"),
    65536: ("811a00010000", "bafyreiarke72vvg3sfs2nrpzpgnxs7dqcdu2e4ytixgo7snkyoq5w7oddu"),
    2**53 - 1: ("811b001fffffffffffff", "bafyreifjs6kz3aq24pywi7mdrizazmzdsvu3jtd7uut64lvj3mblk2byaa"),
}
PUBLISHED_STRINGS: dict[str | bytes, tuple[str, str]] = {
    b"": ("40", "bafyreigdmqpykrgxyaxtlafqpqhzrb7qy2rh75nldvfd4kok6gl47quzvy"),
    b"\xa1": ("41a1", "bafyreidfn5bivgcww7slkgp7f5iiukoggxr542m4pzl3zn3oia7ozt7ffe"),
    "": ("60", "bafyreiengp2sbi6ez34a2jctv34bwyjl7yoliteleaswgcwtqzrhmpyt2m"),
    "水": ("63e6b0b4", "bafyreib4565nbj4j6mklcrwjqgdv3uw4i6fr5dqb4dpqcqtsgrzeyg7hmm"),
    "𐅑": ("64f0908591", "bafyreihgpl6u5kyypvntwaijdv7wxeiuugo6ruujt652eigmp27zarclam"),
}
PUBLISHED_LINKS = {
    "bafyreidj5idub6mapiupjwjsyyxhyhedxycv4vihfsicm2vt46o7morwlm": (
        "d82a5825000171122069ea0740f9807a28f4d932c62e7c1c83be055e55072c90266ab3e79df63a365b",
        "bafyreihfnilmqbnwzcmqrspmmyik5qdocjdrf3rnkuxb2aanrh2qycf6wy",
    ),
    "bafyreiejkvsvdq4smz44yuwhfymcuvqzavveoj2at3utujwqlllspsqr6q": (
        "d82a5825000171122089556551c3926679cc52c72e182a5619056a4727409ee93a26d05ad727ca11f4",
        "bafyreif4kmuaiu3fuqmdkb6e7vfdz7x6c2sqjybc5bz3l6b2vnj5e5xjl4",
    ),
}
PUBLISHED_FOREIGN_LINKS = {
    "version 0": "d82a582300122022ad631c69ee983095b5b8acd029ff94aff1dc6c48837878589a92b90dfea317",
    "raw": "d82a5825000155122081cc5b17018674b401b42f35ba07bb79e211239c23bffe658da1577e3e646877",
    "dag-jose": "d82a5826000185011220fee347e160f04149130aff63259712dca7aec9ecff70a3d4d4942b5d64b09d05",
    "no hash": "d82a4a00015500050001020304",
}
# From the negative fixtures of github.com/ipld/codec-fixtures.
PUBLISHED_DUPLICATE = "a3636261720363666f6f0163666f6f02"


def published(fixture: tuple[str, str]) -> bytes:
    block = bytes.fromhex(fixture[0])
    assert cid_text(cid_of(block)) == fixture[1]
    return block


@pytest.mark.parametrize("number", PUBLISHED_LISTS)
def test_published_numbers(number: int) -> None:
    block = published(PUBLISHED_LISTS[number])
    assert head(LIST, 1) + head(NUMBER, number) == block
    assert read_head(block, 1, NUMBER) == (number, len(block))


@pytest.mark.parametrize("string", PUBLISHED_STRINGS)
def test_published_strings(string: str | bytes) -> None:
    block = published(PUBLISHED_STRINGS[string])
    kind, data = (TEXT, string.encode()) if isinstance(string, str) else (BYTES, string)
    assert head(kind, len(data)) + data == block
    read = read_text if isinstance(string, str) else read_bytes
    assert read(block, 0, 9) == (string, len(block))


@pytest.mark.parametrize("cid", PUBLISHED_LINKS)
def test_published_links(cid: str) -> None:
    block = published(PUBLISHED_LINKS[cid])
    assert write_link(cid_from_text(cid)) == block
    assert read_link(block, 0) == (cid_from_text(cid), len(block))
    for end in range(len(block)):
        with pytest.raises(RemoteError, match="not to a block of ours"):
            read_link(block[:end], 0)


@pytest.mark.parametrize("kind", PUBLISHED_FOREIGN_LINKS)
def test_links_to_what_we_do_not_make_are_refused(kind: str) -> None:
    block = bytes.fromhex(PUBLISHED_FOREIGN_LINKS[kind])
    assert isinstance(dag_cbor.decode(block), CID)
    with pytest.raises(RemoteError, match="not to a block of ours"):
        read_link(block, 0)


def read_number(block: bytes, at: int) -> tuple[int, int]:
    return read_head(block, at, NUMBER)


def test_the_published_map_with_a_name_twice_is_refused() -> None:
    with pytest.raises(RemoteError, match="twice"):
        read_map(bytes.fromhex(PUBLISHED_DUPLICATE), 0, 9, 9, read_number)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.integers(0, 2**63)))
def test_maps_are_the_oracles(entries: dict[str, int]) -> None:
    block = write_map((name.encode(), head(NUMBER, value)) for name, value in entries.items())
    assert block == dag_cbor.encode(dict(entries))
    assert read_map(block, 0, len(entries), 1000, read_number) == (entries, len(block))


# Each record of ours, as the oracle takes it.
LINK = CID.decode(cid_of(b""))
DESCRIPTOR: dict[str, Any] = {
    "#": {"a/b": LINK, "a/c": LINK, "a/b/c": LINK},
    "from": LINK,
    "name": "a",
    "owner": bytes(32),
    "parent": None,
    "created": 7,
    "metadata": {"b": b"", "é": "é", "long": "x" * 300},
}
NAME: dict[str, Any] = {
    "heirs": [bytes(96), bytes(96)],
    "owner": bytes(32),
    "topic": "a/b",
    "value": LINK,
    "expires": 2**40,
    "sequence": 300,
    "signature": bytes(64),
}
EVENT: dict[str, Any] = {
    "topic": "a/b",
    "publisher": bytes(32),
    "sequence": 24,
    "parents": [LINK],
    "height": 2,
    "time": 2**50,
    "headers": {"a": b"", "b": "c"},
    "payload": b"x" * 30,
}
PLAIN_EVENT = EVENT | {"parents": [], "height": 0, "headers": {}}
READERS: list[tuple[Callable[[bytes], Any], dict[str, Any]]] = [
    (decode_descriptor, DESCRIPTOR),
    (decode_name, NAME),
    (event_record.decode, EVENT),
    (event_record.decode, PLAIN_EVENT),
]


@pytest.mark.parametrize(("read", "value"), READERS)
def test_what_dag_cbor_forbids_is_refused(read: Callable[[bytes], Any], value: dict[str, Any]) -> None:
    block = dag_cbor.encode(value)
    read(block)
    seen = set()
    for rule, bad in misformed(value):
        seen.add(rule)
        assert bad != block
        with pytest.raises(RemoteError):
            read(bad)
        if rule != "float for a number":  # allowed, but it is another value
            with pytest.raises(Exception, match=r".+"):
                dag_cbor.decode(bad)
    assert {"number not the shortest", "length not the shortest", "string of indefinite length"} <= seen
    assert {"indefinite count", "name twice", "names out of order", "name that is no text"} <= seen
    with pytest.raises(RemoteError):
        read(b"\xd9\xd9\xf7" + block)  # the tag that says "this is CBOR"


@pytest.mark.parametrize(("read", "value"), READERS)
def test_every_field_is_needed_and_no_other(read: Callable[[bytes], Any], value: dict[str, Any]) -> None:
    for field in value:
        with pytest.raises(RemoteError):
            read(dag_cbor.encode({name: item for name, item in value.items() if name != field}))
    for field in ("", "a", "zzzzzzzzzzzzz"):
        with pytest.raises(RemoteError):
            read(dag_cbor.encode(value | {field: 1}))
