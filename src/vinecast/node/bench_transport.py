"""What a frame costs: two transports in one process, one sends as fast as the other reads.

python -m vinecast.node.bench_transport
"""

import asyncio
import time
from dataclasses import dataclass

from vinecast.node.address import Address
from vinecast.node.identity import Identity, NodeId
from vinecast.node.loop import run
from vinecast.node.tls_transport import TlsTransport
from vinecast.node.transport import PeerFacts


@dataclass(frozen=True, slots=True)
class TransportFigures:
    """What was measured. CPU time is of both ends together."""

    frames_per_s: float
    cpu_us_per_frame: float
    connect_ms: float
    round_trip_us: float
    """The median of a small frame there and back."""


class _Counting:
    """A handler that counts, and echoes what is as short as a ping."""

    def __init__(self, echo: bool) -> None:
        self.transport: TlsTransport | None = None
        self._echo = echo
        self.frames = 0
        self.answered = asyncio.Event()

    def on_up(self, peer: NodeId, address: Address, facts: PeerFacts) -> None:
        pass

    def on_frame(self, peer: NodeId, frame: bytes) -> None:
        self.frames += 1
        if len(frame) == 1:
            self.answered.set()
            if self._echo and self.transport is not None:
                self.transport.send(peer, None, frame)

    def on_down(self, peer: NodeId, reason: str) -> None:
        pass

    def on_unreachable(self, peer: NodeId) -> None:
        pass

    def on_refused(self, reason: str) -> None:
        pass


async def measure(frames: int = 300_000, frame_bytes: int = 256, trips: int = 1000) -> TransportFigures:
    """Connect two transports, send frames one way, then single ones there and back."""
    here, there = (TlsTransport(Identity.ephemeral(), Address("127.0.0.1", 0), "bench") for _ in range(2))
    sender, receiver = _Counting(echo=False), _Counting(echo=True)
    receiver.transport = there
    await here.start(sender)
    address = await there.start(receiver)
    begun = time.perf_counter()
    peer = await here.connect(address)
    connect_s = time.perf_counter() - begun
    frame, sent = bytes(frame_bytes), 0
    cpu, begun = time.process_time(), time.perf_counter()
    while sent < frames:
        while sent < frames and here.pressure(peer) < 0.5:
            here.send(peer, None, frame)
            sent += 1
        await asyncio.sleep(0)
    await here.drain(60.0)
    wall_s, cpu_s = time.perf_counter() - begun, time.process_time() - cpu
    times = []
    for _ in range(trips):
        sender.answered.clear()
        begun = time.perf_counter()
        here.send(peer, None, b"?")
        await sender.answered.wait()
        times.append(time.perf_counter() - begun)
    await here.close()
    await there.close()
    middle = sorted(times)[len(times) // 2]
    return TransportFigures(frames / wall_s, cpu_s / frames * 1e6, connect_s * 1e3, middle * 1e6)


if __name__ == "__main__":
    print(run(measure()))  # noqa: T201
