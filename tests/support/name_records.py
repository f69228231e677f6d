"""Keys, records and drawn records of names."""

from collections.abc import Callable
from functools import cache

from hypothesis import strategies as st
from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from vinecast.core.log.blocks import cid_of
from vinecast.core.log.event_record import NUMBER_MAX, TIME_MAX
from vinecast.core.log.name_record import Heir, NameChecker, NameRecord, hand_on, sign_name

NOW = 1_700_000_000_000_000


@cache
def key(who: int) -> SigningKey:
    return SigningKey(bytes([who]) * 32)


def public(who: int) -> bytes:
    return bytes(key(who).verify_key)


def signing(who: int) -> Callable[[bytes], bytes]:
    return lambda text: key(who).sign(text).signature


def verify(public: bytes, text: bytes, signature: bytes) -> bool:
    try:
        VerifyKey(public).verify(text, signature)
    except BadSignatureError:
        return False
    return True


CHECKER = NameChecker(verify, "net")
OWNER, HEIR, THIRD, STRANGER = 1, 2, 3, 9
VALUE, NEWER = cid_of(b"1"), cid_of(b"2")


def signed(
    who: int = OWNER,
    heirs: tuple[Heir, ...] = (),
    sequence: int = 1,
    value: bytes = VALUE,
    now_us: int = NOW,
    topic: str = "sports",
    network: str = "net",
) -> NameRecord:
    return sign_name(network, topic, public(OWNER), value, sequence, now_us, signing(who), heirs)


PLAIN = signed()
HANDED = signed(HEIR, hand_on("net", PLAIN, public(HEIR), signing(OWNER)))
TWICE = signed(THIRD, hand_on("net", HANDED, public(THIRD), signing(HEIR)))
segments = st.text(
    st.characters(exclude_characters="/#+\0", exclude_categories=["Cs"]), min_size=1, max_size=9
)
numbers = st.integers(0, NUMBER_MAX) | st.sampled_from([0, 23, 24, 255, 256, 65535, 65536, 2**32])
keys, signatures = st.binary(min_size=32, max_size=32), st.binary(min_size=64, max_size=64)
some_names = st.builds(
    NameRecord,
    topic=st.lists(segments, min_size=1, max_size=4).map("/".join),
    owner=keys,
    value=st.binary(max_size=8).map(cid_of),
    sequence=numbers,
    expires_us=numbers.map(lambda number: min(number, TIME_MAX)),
    heirs=st.lists(st.builds(Heir, keys, signatures), max_size=3).map(tuple),
    signature=signatures,
)
