"""The attacker of a local network: a process that attacks nodes when it is told to, each time in one way.

Started by ``lab/localnet/hostile`` as ``python -m vinecast.lab.localnet.attacks``. Every kind of attack is a
function that is given a target and says how often it tried. All draws come from one seed; keys do not, so
that every attacker is somebody new.
"""

import asyncio
import contextlib
import random
import resource
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import count

from vinecast.core.errors import RemoteError
from vinecast.lab.localnet.attacker import ELSEWHERE, LOOK_S, Attacker, half_open, stranger_card
from vinecast.lab.localnet.messages import Attack, Attacked, attack_decoder, line
from vinecast.node.runtime.loop import run
from vinecast.node.storage.identity_file import make_identity
from vinecast.peer.wire.frames import FRAME_BYTES_MAX, FrameKind, control, pack_head
from vinecast.peer.wire.handshake import Handshake
from vinecast.peer.wire.messages import (
    EVENTS_MAX,
    EventFrame,
    Frame,
    Gossip,
    Introduction,
    Leaving,
    decode,
    encode,
)
from vinecast.systems.common.wire import AGE_MAX, CYCLE_MAX, HOPS_MAX, VERSION_MAX, Card, CardReference, Entry

CALLS = 40  # ours: connections of an attack that makes a new one for each try
AT_ONCE = 8  # ours: of these
HALF_OPEN, SPARE = 2000, 100  # ours: connections that say nothing, and descriptors for everything else
SILENT_S = 2.0  # ours: how long they are held
FLOOD_S = 0.7  # ours: how long a flood lasts
BATCH = 50  # ours: frames of a flood that are sent in one piece
INVENTED = 300  # ours: peers that do not exist
TRUE_EVENTS = 300  # ours: everybody has to carry these, since nothing is wrong with them
REST_S = 0.05  # ours: between two batches of what a node does not refuse
HEARD_S = 2.0  # ours: how long to wait for the node's answer
ATTACK_S = 30.0  # ours: no attack takes longer


@dataclass(frozen=True, slots=True)
class Target:
    """Whom to attack. ``draw``: where what is random comes from."""

    network: str
    address: str
    other: str
    """Where somebody else is, whose name can be misused."""
    topic: str
    draw: random.Random
    record: bytes = b""
    """A name record of somebody's."""

    async def enter(self, greets: bool = True) -> Attacker:
        """Somebody new with a stream; and, if it does the handshake, a connection."""
        attacker = await Attacker(self.network).connect(self.address)
        if greets:
            await attacker.shake_hands()
            await attacker.send(attacker.introduction())
        return attacker


Kinds = dict[str, Callable[[Target], Awaitable[int]]]


# One connection for each try.


async def _calls(
    target: Target, say: Callable[[Attacker], Awaitable[object]], greets: bool, waits: bool = True
) -> int:
    """Connect again and again, each time as somebody else, and say something; ``waits``: for the answer."""

    async def call() -> None:
        with contextlib.suppress(OSError, TimeoutError):
            attacker = await target.enter(greets)
            try:
                await say(attacker)
                if waits:
                    async with asyncio.timeout(HEARD_S):
                        await attacker.refused()
            finally:
                await attacker.leave()

    for _ in range(0, CALLS, AT_ONCE):
        await asyncio.gather(*(call() for _ in range(AT_ONCE)))
    return CALLS


async def _bytes_before_tls(target: Target) -> int:
    """Random bytes where TLS should begin."""
    for _ in range(CALLS):
        async with half_open(target.address, 1, target.draw.randbytes(500)) as sockets:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(HEARD_S):
                    while await asyncio.get_running_loop().sock_recv(sockets[0], 4096):
                        pass
    return CALLS


async def _bytes_after_tls(target: Target) -> int:
    """Random bytes where the handshake should be."""
    return await _calls(target, lambda one: one.say(target.draw.randbytes(500)), greets=False)


async def _truncated(target: Target) -> int:
    """Half a handshake, and half an event after a whole one."""

    async def half(attacker: Attacker) -> None:
        whole = Handshake(1, 1, target.network, "0", ELSEWHERE, 9, bytes(8)).frame()
        if target.draw.random() < 0.5:
            await attacker.shake_hands()
            whole = control(FrameKind.DATA, encode(attacker.event(target.topic)))
        await attacker.say(whole[: len(whole) // 2])

    return await _calls(target, half, greets=False, waits=False)


async def _oversized(target: Target) -> int:
    """The beginning of frames that are larger than any may be."""
    return await _calls(target, lambda one: one.say(pack_head(FRAME_BYTES_MAX) + bytes(5000)), greets=True)


async def _another_network(target: Target) -> int:
    """Handshakes for another network, or in a version that nobody speaks."""

    def shake_hands(attacker: Attacker) -> Awaitable[bool]:
        version = target.draw.choice((1, 9))
        return attacker.shake_hands(
            network="another" if version == 1 else target.network, oldest=version, newest=9
        )

    return await _calls(target, shake_hands, greets=False)


async def _silence(target: Target) -> int:
    """Connections on which nothing is ever said, held for a while."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    calls = HALF_OPEN if descriptors == resource.RLIM_INFINITY else min(HALF_OPEN, descriptors - SPARE)
    async with half_open(target.address, calls) as sockets:
        await asyncio.sleep(SILENT_S)
    return len(sockets)


# Frames of every kind.


async def _flood(target: Target, make: Callable[[Attacker], Callable[[], Frame | bytes]]) -> int:
    """Send frames for a while, as somebody else whenever the node has ended the connection."""
    loop = asyncio.get_running_loop()
    sent, end = 0, loop.time() + FLOOD_S
    while loop.time() < end:
        attacker = await target.enter()
        frame = make(attacker)
        while loop.time() < end and await attacker.send(*(frame() for _ in range(BATCH))):
            sent += BATCH
            await asyncio.sleep(0)
        await attacker.leave()
    return sent


def _flood_of(
    make: Callable[[Attacker, Target], Callable[[], Frame | bytes]],
) -> Callable[[Target], Awaitable[int]]:
    return lambda target: _flood(target, lambda attacker: make(attacker, target))


def _absurd(attacker: Attacker, draw: random.Random) -> Iterator[Frame]:
    """Frames of the right form in which nothing makes sense."""
    liar = make_identity()
    numbers = (0, 1, 255, AGE_MAX, AGE_MAX + 1, CYCLE_MAX, 2**63 - 1)
    sizes = (0, 1, 31, 32, 33, 63, 64, 65, 8192)
    names = ("a", "a//b", "#", "\0", "\x1b[2J", "x" * 256)
    kinds = ("cyclon.request", "vicinity.answer", "rings.request", "poldercast.event", "", "x" * 41)

    def entry() -> Entry:
        public = draw.choice((liar.public, bytes(draw.choice(sizes))))
        topics = tuple(draw.choices(names, k=draw.randrange(4)))
        card = Card(
            public, draw.choice(("", ":", "a:99999", "\n:1")), draw.choice(numbers), topics, bytes(64)
        )
        known = CardReference(bytes(draw.choice(sizes)), draw.choice(numbers))
        return Entry(
            draw.choice((card, known)),
            draw.choice(numbers),
            bytes(draw.choice(sizes)),
            bytes(draw.choice(sizes)),
        )

    for _ in count():
        entries = tuple(entry() for _ in range(draw.choice((0, 1, 65))))
        yield Gossip(draw.choice(kinds), draw.choice(numbers), entry(), entries)
        yield Introduction(entry())
        events = ((draw.randbytes(80), bytes(64)),) * draw.choice((0, 1, EVENTS_MAX + 1))
        yield EventFrame(draw.choice((0, HOPS_MAX, HOPS_MAX + 1)), events)
        yield Gossip("cyclon.request", 1, Entry(attacker.card(["a//b"], VERSION_MAX), 0, b"", b""), entries)
        yield Leaving()


def _absurd_frames(attacker: Attacker, target: Target) -> Callable[[], Frame]:
    frames = _absurd(attacker, target.draw)
    return lambda: next(frames)


def _forged_card(attacker: Attacker, target: Target) -> Callable[[], Frame]:
    public = make_identity().public
    return lambda: attacker.gossip(Card(public, f"{ELSEWHERE}:9", 1, (target.topic,), bytes(64)))


def _forged_event(attacker: Attacker, target: Target) -> Callable[[], Frame]:
    signer = make_identity()
    return lambda: attacker.event(target.topic, signer=signer)


async def _invented(target: Target) -> int:
    """True cards of peers that do not exist, on topics that nobody reads, handed on by and by."""
    attacker = await target.enter()
    for begin in range(0, INVENTED, 10):
        cards = (stranger_card(target.network, [f"invented/{begin + n}"]) for n in range(10))
        if not await attacker.send(attacker.gossip(*cards)):
            break
        await asyncio.sleep(REST_S)
    await attacker.leave()
    return begin + 10


async def _true_events(target: Target) -> int:
    """Events of one's own, signed as they should be, on a topic that the node reads: it has to take them."""
    attacker = await target.enter()
    for _ in range(0, TRUE_EVENTS, BATCH):
        await attacker.send(*(attacker.event(target.topic, b"true, and of no use") for _ in range(BATCH)))
        await asyncio.sleep(REST_S)
    old = attacker.event(target.topic, b"once")
    await attacker.send(*[old] * TRUE_EVENTS)
    async with asyncio.timeout(HEARD_S):
        await attacker.answered()
    await attacker.leave()
    return 2 * TRUE_EVENTS


async def _anothers_id(target: Target) -> int:
    """Speak for another node, whose card anybody can have, and spread a changed one."""
    card = await card_at(target, target.other)
    forged = Card(card.public, f"{ELSEWHERE}:9", VERSION_MAX, (), card.signature)
    attacker, tries = await target.enter(), CALLS // 4
    for _ in range(tries):
        await attacker.send(Introduction(Entry(card, 0, b"", b"")), attacker.gossip(forged))
    async with asyncio.timeout(HEARD_S):
        await attacker.answered()
    await attacker.leave()
    return 2 * tries


async def card_at(target: Target, address: str) -> Card:
    """The card of the node there: a node introduces itself to whoever greets it."""
    visitor = await Attacker(target.network).connect(address)
    await visitor.shake_hands()
    try:
        async with asyncio.timeout(HEARD_S):
            while True:
                for kind, body in visitor.frames:
                    frame = decode(body) if kind == FrameKind.DATA else None
                    if isinstance(frame, Introduction) and isinstance(frame.sender.card, Card):
                        return frame.sender.card
                await asyncio.sleep(LOOK_S)
    finally:
        await visitor.leave()


KINDS: Kinds = {
    "random bytes before TLS": _bytes_before_tls,
    "random bytes after TLS": _bytes_after_tls,
    "truncated frames": _truncated,
    "oversized frames": _oversized,
    "another network or version": _another_network,
    "frames with absurd values": _flood_of(_absurd_frames),
    "a flood of garbage": _flood_of(lambda one, target: lambda: b"\xc1" + target.draw.randbytes(40)),
    "a flood of gossip": _flood_of(lambda one, target: one.gossip),
    "a flood of introductions": _flood_of(lambda one, target: lambda: one.introduction([target.topic])),
    "a flood of forged cards": _flood_of(_forged_card),
    "cards of invented peers": _invented,
    "a flood of forged events": _flood_of(_forged_event),
    "a flood of unwanted events": _flood_of(lambda one, target: lambda: one.event("spam")),
    "true events, and one again and again": _true_events,
    "claiming another's id": _anothers_id,
    "half-open connections": _silence,
}


async def attack(kind: str, target: Target, kinds: Kinds = KINDS) -> int:
    """Attack once; how often it tried. A node that turns the attacker away has only defended itself."""
    with contextlib.suppress(OSError, RemoteError, TimeoutError):
        async with asyncio.timeout(ATTACK_S):
            return await kinds[kind](target)
    return 0


def _take_descriptors(wanted: int) -> None:
    """Be allowed so many connections, if the system lets us."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    if now != resource.RLIM_INFINITY and now < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))


async def serve(network: str, seed: int, kinds: Kinds = KINDS) -> None:
    """Attack as told on standard input, until that ends."""
    loop, commands = asyncio.get_running_loop(), asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    draw = random.Random(seed)

    async def answer(command: Attack) -> None:
        target = Target(network, command.target, command.other, command.topic, draw, command.record)
        tried = await attack(command.kind, target, kinds)
        sys.stdout.buffer.write(line(Attacked(tried)))
        sys.stdout.buffer.flush()

    doing: list[asyncio.Task[None]] = []
    while text := await commands.readline():
        doing = [asyncio.create_task(answer(attack_decoder.decode(text)))]
    for task in doing:  # the parent is gone, or has seen enough
        task.cancel()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, who ends our input
    _take_descriptors(HALF_OPEN + SPARE)
    run(serve(sys.argv[1], int(sys.argv[2])))
