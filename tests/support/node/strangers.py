"""What strangers may say: frames of a system with anything in them, for tests of what nodes refuse."""

from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import Raw

from vinecast.peer.wire.messages import SystemFrame, encode


def shapes_of(names: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """Anything that MessagePack can say; with such names in it."""
    return st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | names | st.binary(max_size=40),
        lambda inner: st.lists(inner, max_size=5),
        max_leaves=12,
    )


def own(value: Any) -> bytes:
    """A frame of a system with this in it."""
    return encode(SystemFrame(Raw(msgspec.msgpack.encode(value))))


REASONS_MAX = 80
"""Different counters that a node may have, whatever is done to it."""
