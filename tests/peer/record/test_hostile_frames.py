"""What a liar sends, had again from a record without payloads: it is refused, and traced, as it was."""

import random

import msgspec
import pytest

from support.lone_peer import Streams
from support.recorded_peers import MARKER, Recording, replayed
from vinecast.core.log.batch_signature import sign_events
from vinecast.core.log.event_record import EventRecord
from vinecast.node.runtime.capabilities import scratch_pool
from vinecast.node.storage.identity_file import make_identity
from vinecast.peer.address import Address
from vinecast.peer.config import PeerConfig
from vinecast.peer.identity import verify
from vinecast.peer.inputs import FrameCame, LinkUp, NodeBegins
from vinecast.peer.links import LinkLimits
from vinecast.peer.outputs import Traced
from vinecast.peer.peer import PeerPorts
from vinecast.peer.streams import messages as wire
from vinecast.peer.wire.messages import EventFrame, Introduction, StreamFrame, body_of, encode, make_card
from vinecast.systems.common.wire import Entry


def frames() -> list[bytes]:
    """Frames that no honest node sends, with a payload in them."""
    other = make_identity()
    given = EventRecord("news", other.public, 7, 1_700_000_000_000_000, MARKER * 9, {"kind": "text"}, (), 1)
    (signed,) = sign_events("test", [given], other.sign)
    event = signed.block, signed.signature.to_bytes()
    carried = encode(StreamFrame(body_of(wire.CarriedEvents(2, True, (event,)))))
    found = [
        MARKER,
        b"\xc1" + MARKER,
        b"",
        carried[:-1],
        carried[:1] + b"\x05" + carried[2:],
        b"\x92\x04\x94\x02\xa1\xff\x00\xc4\x00",
        b"\x95\x00\xa1\xff\x00\xc0\xc0",
        b"\x92\x02" + b"\x91" * 3000 + MARKER,
        msgspec.msgpack.encode([4, None, MARKER]),
        msgspec.msgpack.encode([4, [99, MARKER]]),
        msgspec.msgpack.encode([5, [99, MARKER]])[:-4],
    ]
    for at in (0, 3, 20, 40, 60, len(event[0]) - 3):
        for block in (event[0][:at], event[0][:at] + b"\xc7" + event[0][at + 1 :], event[0][:at] + event[0]):
            found.append(encode(EventFrame(0, ((block, event[1]),))))
            found.append(encode(StreamFrame(body_of(wire.CarriedEvents(0, False, ((block, event[1]),))))))
    draw = random.Random(3)
    for _ in range(150):
        lie = bytearray(carried)
        for _ in range(draw.randrange(1, 4)):
            lie[draw.randrange(len(lie))] = draw.randrange(256)
        found.append(bytes(lie))
    return found


@pytest.mark.parametrize("with_payloads", [True, False], ids=["whole", "headers"])
@pytest.mark.parametrize("system", ["poldercast", "vitis", "flooding"])
def test_what_a_liar_sends_is_refused_again(system: str, with_payloads: bool) -> None:
    me, segments = make_identity(), list[bytes]()
    ports = PeerPorts(Streams(), me.sign, verify, scratch_pool())
    config = PeerConfig(traced=True, system=system)
    peer = Recording(segments, with_payloads, 10_000, (me.public, "test", 1, config, ports, LinkLimits(), 0))
    peer.handle(NodeBegins(Address("memory", 1), ()), 1)
    traced = 0
    for turn, frame in enumerate(frames()):
        liar = make_identity()  # of whom nobody is tired yet
        now_us = 1000 * (turn + 1)
        peer.handle(LinkUp(liar.id), now_us)
        card = make_card(liar.sign, "test", liar.public, "127.0.0.1:9", 1, ("news",))
        peer.handle(FrameCame(liar.id, encode(Introduction(Entry(card, 0, b"", b"")))), now_us)
        outputs = peer.handle(FrameCame(liar.id, frame), now_us)
        traced += sum(isinstance(output, Traced) for output in outputs)
    assert traced > 100
    assert with_payloads or not any(MARKER in segment for segment in segments)
    shown = replayed(segments)
    assert shown.entries > 400
    assert not shown.found, shown.found[0]
