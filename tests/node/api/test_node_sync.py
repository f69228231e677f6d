"""The node for scripts: the same as the asynchronous one, from any thread."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import vinecast
from vinecast import InputError, NodeConfig, SyncNode, SyncSubscription

QUICK = NodeConfig(period_s=0.2, alone_cycles=50)
"""Not too quick: on a busy machine, who does not answer within a period counts as silent."""


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[SyncNode, SyncNode]]:
    with SyncNode(config=QUICK) as first, SyncNode(join=[first.address], config=QUICK) as second:
        yield first, second


@contextmanager
def both(pair: tuple[SyncNode, SyncNode], topic: str) -> Iterator[tuple[SyncSubscription, SyncSubscription]]:
    """A subscription of each, when they have found each other."""
    here, there = (node.subscribe(topic) for node in pair)
    with here, there:
        yield here, there


def test_publish_and_subscribe(pair: tuple[SyncNode, SyncNode]) -> None:
    first, second = pair
    with both(pair, "a/b") as (here, there):
        receipt = first.publish("a/b", "hello", {"kind": "greeting"})
        event = there.next(timeout_s=10)
        assert (event.id, event.topic, event.payload) == (receipt.id, "a/b", b"hello")
        assert event.headers == {"kind": "greeting"}
        assert here.next(timeout_s=10).id == receipt.id
        assert first.topics() == second.topics() == ["a/b"]
        assert [peer.id for peer in first.peers()] == [second.id]
        assert first.stats()["address"] == first.address
    assert first.topics() == []


def test_many_at_once(pair: tuple[SyncNode, SyncNode]) -> None:
    first, _ = pair
    with both(pair, "many") as (_, there):
        payloads = [str(i) for i in range(600)]
        receipts = first.publish_all("many", payloads)
        assert len({receipt.id for receipt in receipts}) == 600
        assert sorted(there.next(10).payload for _ in payloads) == sorted(p.encode() for p in payloads)
        assert there.waiting == there.dropped == 0


def test_waiting_can_be_limited(pair: tuple[SyncNode, SyncNode]) -> None:
    subscription = pair[0].subscribe("silent")
    with pytest.raises(TimeoutError):
        subscription.next(timeout_s=0.01)
    pair[0].publish("silent", "now")
    assert subscription.next(10).payload == b"now"
    subscription.close()
    assert list(subscription) == []


def test_errors_come_through(pair: tuple[SyncNode, SyncNode]) -> None:
    with pytest.raises(InputError, match="non-empty segments"):
        pair[0].publish("a//b", "x")
    with pytest.raises(InputError, match="cannot listen on"):
        SyncNode(listen=pair[0].address).start()
    with pytest.raises(InputError, match="not an address"):
        SyncNode(join=["nonsense"])


def test_before_the_start_and_after_the_end() -> None:
    node = SyncNode(config=QUICK)
    with pytest.raises(InputError, match="has not been started"):
        node.publish("a", "x")
    node.start()
    with pytest.raises(InputError, match="starts once"):
        node.start()
    ended = threading.Event()
    subscription = node.subscribe("a")

    def read() -> None:
        assert list(subscription) == []
        ended.set()

    reader = threading.Thread(target=read)
    reader.start()
    node.close()
    reader.join(10)
    assert ended.is_set()
    node.close()
    with pytest.raises(InputError, match="the node is closed"):
        node.publish("a", "x")


def test_a_node_cannot_wait_for_itself(pair: tuple[SyncNode, SyncNode]) -> None:
    with pytest.raises(InputError, match="cannot wait for itself"):
        pair[0].ask(lambda: pair[0].topics())


def test_the_public_names() -> None:
    for name in vinecast.__all__:
        assert getattr(vinecast, name).__name__ == name
    assert set(vinecast.__all__) <= set(dir(vinecast))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = vinecast.nonsense
