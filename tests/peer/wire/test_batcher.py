"""The outbox: events for the same peer share frames, and none is lost or sent twice."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from vinecast.core.machine import NOBODY
from vinecast.peer.wire.batcher import HAND_BYTES, Batcher, EncodedEvent, cuts, event_frame
from vinecast.peer.wire.messages import EVENTS_MAX, EventFrame, decode
from vinecast.systems.common.wire import HOPS_MAX

sizes = st.sampled_from((1, 300, HAND_BYTES // 3, HAND_BYTES - 68, HAND_BYTES, 10 * HAND_BYTES))


def weight(encoded: EncodedEvent) -> int:
    return sum(map(len, encoded.event))


@given(st.lists(sizes, max_size=20), st.integers(0, 3 * EVENTS_MAX))
def test_frames_are_as_full_as_they_may_be(large: list[int], small: int) -> None:
    encoded_events = [EncodedEvent(bytes(size), bytes(68)) for size in (*large, *[5] * small)]
    found = list(cuts(encoded_events))
    assert [i for begin, end in found for i in range(begin, end)] == list(range(len(encoded_events)))
    for begin, end in found:
        size = sum(map(weight, encoded_events[begin:end]))
        assert 1 <= end - begin <= EVENTS_MAX
        assert size <= HAND_BYTES or end - begin == 1
        full = (
            end == len(encoded_events)
            or end - begin == EVENTS_MAX
            or size + weight(encoded_events[end]) > HAND_BYTES
        )
        assert full


puts = st.tuples(
    st.integers(1, 4), st.integers(0, 1), st.integers(0, 9), st.sampled_from((NOBODY, 1, 2, 3, 4))
)


@given(st.lists(puts, max_size=60, unique_by=lambda put: (put[0], put[2])), st.sets(st.integers(1, 4)))
def test_each_peer_gets_its_events_or_another_does(
    wanted: list[tuple[int, int, int, int]], deaf: set[int]
) -> None:
    encoded_events = [EncodedEvent(bytes([i]), b"seal") for i in range(10)]
    got: Counter[tuple[int, int, int]] = Counter()
    counted: Counter[int] = Counter()

    def send(peer: int, data: bytes, events: int) -> bool:
        frame = decode(data)
        assert isinstance(frame, EventFrame)
        assert len(frame.events) == events
        if peer not in deaf:
            got.update((peer, frame.hops, block[0]) for block, _ in frame.events)
            counted.update(block[0] for block, _ in frame.events)
        return peer not in deaf

    batcher = Batcher(send)
    for peer, hops, i, otherwise in wanted:
        batcher.put(peer, hops, encoded_events[i], otherwise)
    batcher.flush()
    batcher.flush()  # nothing is left
    reached = [(peer if peer not in deaf else otherwise, hops, i) for peer, hops, i, otherwise in wanted]
    assert got == Counter(one for one in reached if one[0] != NOBODY and one[0] not in deaf)
    assert [encoded.taken for encoded in encoded_events] == [counted[i] for i in range(10)]


def test_peers_that_get_the_same_get_the_same_frame() -> None:
    sent: list[tuple[int, bytes]] = []

    def send(peer: int, data: bytes, events: int) -> bool:
        sent.append((peer, data))
        return True

    batcher = Batcher(send)
    encoded_events = [EncodedEvent(bytes([i]), b"") for i in range(5)]
    for encoded in encoded_events:
        batcher.put(7, 1, encoded, NOBODY)
        batcher.put(8, 1, encoded, NOBODY)
    batcher.flush()
    assert [peer for peer, _ in sent] == [7, 8]
    assert sent[0][1] is sent[1][1]
    assert sent[0][1] == event_frame(1, encoded_events)


def test_an_event_that_came_from_very_far_still_has_a_frame() -> None:
    frame = decode(event_frame(HOPS_MAX + 1, [EncodedEvent(b"block", b"seal")]))
    assert frame == EventFrame(HOPS_MAX, ((b"block", b"seal"),))
