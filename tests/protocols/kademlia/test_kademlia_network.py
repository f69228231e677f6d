"""Populations of Kademlia on the event engine: against brute force, under churn, loss, partition, floods."""

import hashlib
import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from vinecast.core.circle import simulated_ids
from vinecast.core.events import Count, Effect, Event, Received
from vinecast.core.log.blocks import cid_of
from vinecast.core.log.name_record import NameChecker, encode_name, name_key, sign_name
from vinecast.protocols.kademlia import Found, Kademlia, KademliaConfig, KademliaStore, key_of_point, point_of
from vinecast.sim.engine.engine import EventEngine
from vinecast.sim.engine.network import Network, NetworkConfig, Partition
from vinecast.sim.measure.overlay import random_views

SECOND = 1_000_000
CALM = NetworkConfig(latency_ms=10.0)
OWNER = hashlib.sha256(b"owner").digest()


def sign_as(key: bytes) -> Callable[[bytes], bytes]:
    return lambda text: hashlib.sha512(key + text).digest()


NAMES = NameChecker(lambda key, text, signature: signature == hashlib.sha512(key + text).digest(), "test")
NAME = name_key(OWNER, "sports")


def record(sequence: int, expires_s: float = 3600.0) -> bytes:
    expires_us = round(expires_s * SECOND)
    value = cid_of(bytes([sequence]))
    return encode_name(sign_name("test", "sports", OWNER, value, sequence, expires_us, sign_as(OWNER)))


class Member(Kademlia):
    """A node whose results are collected."""

    found: list[Found]

    def handle(self, event: Event, now_us: int) -> list[Effect]:
        effects = super().handle(event, now_us)
        self.found += self.take_results()
        return effects


class Net:
    """A population that starts at once."""

    def __init__(self, nodes: int, seed: int, network: NetworkConfig = CALM, **config: Any) -> None:
        self.keys = simulated_ids(seed, nodes)
        self.points: list[int] = self.keys.tolist()
        self.rng = random.Random(seed)
        settings = KademliaConfig(**{"nearest": 8, "period_s": 5.0, "timeout_s": 0.2, **config})

        def make(me: int) -> Member:
            made = Member(settings, seed, me, self.keys, NAMES)
            made.found = []
            return made

        self.engine = EventEngine(make, nodes, seed, Network(network, seed, nodes))
        for me, contacts in enumerate(random_views(seed, nodes, min(5, nodes - 1)).tolist()):
            self.engine.start(me, 0, tuple(contacts))

    def node(self, me: int) -> Member:
        found = self.engine.machines[me]
        assert isinstance(found, Member)
        return found

    @property
    def online(self) -> list[int]:
        return [me for me, up in enumerate(self.engine.online) if up]

    def run(self, seconds: float) -> None:
        self.engine.run(self.engine.now_us + round(seconds * SECOND))

    def crash(self, share: float) -> list[int]:
        gone = sorted(self.rng.sample(self.online, round(share * len(self.online))))
        for me in gone:
            self.engine.crash(me, self.engine.now_us)
        self.run(0)
        return gone

    def ask(self, me: int, operation: str, *what: Any) -> None:
        node = self.node(me)
        for effect in getattr(node, operation)(*what, self.engine.now_us):
            self.engine._apply(me, effect)
        node.found += node.take_results()

    def do(self, me: int, operation: str, *what: Any, seconds: float = 5.0) -> Found:
        self.ask(me, operation, *what)
        self.run(seconds)
        (found,) = self.take(me)
        return found

    def take(self, me: int) -> list[Found]:
        node = self.node(me)
        found, node.found = node.found, []
        return found

    def nearest(self, key: bytes, count: int = 8) -> tuple[int, ...]:
        point = point_of(key)
        return tuple(sorted(self.online, key=lambda me: self.points[me] ^ point)[:count])

    def some(self) -> int:
        return self.rng.choice(self.online)

    def follow(self, at: int, point: int) -> int:
        """Where the hops to a point lead."""
        while (hop := self.node(at).next_hop(point)) != at:
            at = hop
        return at

    def check_lookups(self, count: int, hops: bool = True) -> None:
        """Lookups from anywhere find the nearest of all that are there; so do hops, when the silent
        have been noticed."""
        asked: defaultdict[int, list[bytes]] = defaultdict(list)
        for _ in range(count):
            key = self.rng.randbytes(32)
            me = self.some()
            self.take(me)
            asked[me].append(key)
            self.ask(me, "closest", key)
            if hops:
                assert self.follow(self.some(), point_of(key)) == self.nearest(key, 1)[0]
        self.run(3)
        for me, keys in asked.items():
            results = {found.key: found.peers for found in self.take(me)}
            assert results == {key: self.nearest(key) for key in keys}


def blocks(count: int) -> dict[bytes, bytes]:
    values = [f"block {number}".encode() for number in range(count)]
    return {hashlib.sha256(value).digest(): value for value in values}


def test_lookups_find_the_nearest_of_two_hundred_and_again_after_a_third_died() -> None:
    net = Net(200, 1)
    net.run(8)
    assert all(net.node(me).joined for me in net.online)
    net.check_lookups(60)
    net.crash(0.3)
    net.run(75)  # until everybody's silence was noticed
    net.check_lookups(60)


def test_who_returns_is_one_of_the_nearest_again() -> None:
    net = Net(60, 2)
    net.run(8)
    gone = net.crash(0.4)
    net.run(30)
    for me in gone:
        net.engine.start(me, net.engine.now_us, (net.some(),))
    net.run(30)
    net.check_lookups(40)
    for me in net.online[::4]:
        net.engine.leave(me, net.engine.now_us)
    net.run(1)
    net.check_lookups(40, hops=False)


def lives_on(republish_s: float) -> int:
    """How many of 40 blocks are still found when three times a third has died, and others came."""
    net = Net(90, 3, nearest=4, republish_s=republish_s, expire_s=10_000.0)
    net.run(8)
    kept = blocks(40)
    for key, value in kept.items():
        owner = net.some()
        net.ask(owner, "put", key, value)
        net.run(0.5)
        net.node(owner).forget(key)
    gone: list[int] = []
    for _ in range(3):
        back, gone = gone, net.crash(0.3)
        for me in back:
            net.engine.start(me, net.engine.now_us, (net.some(),), keep_state=False)
        net.run(50)
    reader = net.some()
    net.take(reader)
    for key in kept:
        net.ask(reader, "get", key)
    net.run(3)
    return sum(found.value == kept[found.key] for found in net.take(reader))


def test_values_outlive_those_who_die_if_they_are_stored_again() -> None:
    assert lives_on(republish_s=20.0) == 40
    assert lives_on(republish_s=5_000.0) < 40


def test_storing_again_is_done_by_one_for_all() -> None:
    net = Net(60, 4, republish_s=100.0, expire_s=1000.0, probes=0)
    net.run(8)
    for key, value in blocks(10).items():
        net.ask(net.some(), "put", key, value)
    net.run(2)
    before = sum(net.engine.counters["sent.kademlia.store"])
    net.run(300)
    sent = sum(net.engine.counters["sent.kademlia.store"]) - before
    assert 10 * 7 * 2 <= sent <= 10 * 7 * 3 * 2  # if every holder did, it would be 8 times 10 × 7 × 2


def test_what_its_owner_forgets_expires_everywhere_and_what_it_renews_does_not() -> None:
    net = Net(40, 5, republish_s=20.0, expire_s=60.0)
    net.run(8)
    (left, first), (right, second) = blocks(2).items()
    net.do(1, "put", left, first)
    net.do(1, "put", right, second)
    net.do(1, "provide", right)
    net.node(1).forget(left)
    net.run(200)
    assert net.do(7, "get", left).value == b""
    assert net.do(7, "get", right).value == second
    net.node(1).forget(right)
    net.run(200)
    assert net.do(7, "providers", right).peers == ()
    assert all(net.node(me).storage.records == 0 for me in net.online)


def test_the_newest_name_wins_whoever_plays_old_ones_again() -> None:
    net = Net(60, 6)
    net.run(8)
    assert len(net.do(1, "put", NAME, record(1)).peers) == 8
    assert len(net.do(2, "put", NAME, record(5)).peers) == 8
    for holder in net.nearest(NAME):  # a replay, straight to those who keep it
        replay = Received(9, KademliaStore(0, NAME, record(1), SECOND))
        assert Count("kademlia.refused_older") in net.node(holder).handle(replay, net.engine.now_us)
    for me in (3, 30, 59):
        assert net.do(me, "get", NAME).value == record(5)


def test_halves_that_were_parted_agree_on_the_newest_name() -> None:
    cut = Partition(from_s=10.0, to_s=60.0)
    net = Net(50, 7, NetworkConfig(latency_ms=10.0, partitions=(cut,)), republish_s=20.0, expire_s=1000.0)
    net.run(8)
    net.do(1, "put", NAME, record(1), seconds=1.0)
    net.run(20)
    sides = [[me for me in range(50) if not net.engine.network.is_cut(0, me, net.engine.now_us)]]
    sides.append([me for me in range(50) if me not in sides[0]])
    assert all(sides)
    for sequence, side in enumerate(sides, 2):
        net.ask(side[3], "put", NAME, record(sequence))
    net.run(120)
    net.check_lookups(30)
    assert {net.do(me, "get", NAME).value for me in (0, 11, 22, 33, 44)} == {record(3)}


def test_under_loss_operations_end_and_mostly_succeed() -> None:
    rough = NetworkConfig(latency="sampled", latency_ms=1.0, latency_ms_max=80.0, loss=0.3, duplication=0.1)
    net = Net(60, 8, rough, tries=4)
    net.run(20)
    kept = blocks(20)
    for key, value in kept.items():
        net.ask(net.some(), "put", key, value)
    net.run(15)
    assert all(not task.told for me in net.online for task in net.node(me).tasks.values())
    for me in net.online:
        net.take(me)
    for key in kept:
        net.ask(5, "get", key)
    net.run(15)
    results = net.take(5)
    assert len(results) == 20
    assert all(found.value == kept[found.key] for found in results)


def test_a_flood_of_one_sender_pushes_out_only_its_own() -> None:
    net = Net(40, 9, records_max=15)
    net.run(8)
    kept = blocks(10)
    for key, value in kept.items():
        net.ask(net.some(), "put", key, value)
    net.run(3)
    for number in range(300):
        value = f"flood {number}".encode()
        store = KademliaStore(number, hashlib.sha256(value).digest(), value, 10**12)
        for victim in range(1, 40):
            net.node(victim).handle(Received(0, store), net.engine.now_us)
    assert max(net.node(me).storage.records for me in net.online) == 15
    for key, value in kept.items():
        assert net.do(20, "get", key, seconds=1.0).value == value


@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_the_same_seed_gives_the_same_run(loss: float) -> None:
    runs = []
    for _ in range(2):
        net = Net(40, 10, NetworkConfig(latency_ms=10.0, loss=loss))
        net.run(8)
        for number, (key, value) in enumerate(blocks(5).items()):
            net.ask(number, "put", key, value)
        net.run(8)
        tables = [net.node(me).buckets.rows for me in range(40)]
        runs.append((net.engine.handled, dict(net.engine.counters), tables, net.take(3)))
    assert runs[0] == runs[1]


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_few_nodes_do_all_there_is_to_do(nodes: int) -> None:
    (key, value), *_ = blocks(1).items()
    net = Net(nodes, 11)
    net.run(3)
    assert sorted(net.do(0, "put", key, value).peers) == list(range(nodes))
    assert net.do(0, "get", key).value == value
    assert net.do(nodes - 1, "closest", key_of_point(5)).peers == net.nearest(key_of_point(5))
    net.do(0, "provide", NAME)
    assert set(net.do(nodes - 1, "providers", NAME).peers) <= {0}
