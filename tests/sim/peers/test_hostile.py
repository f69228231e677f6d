"""Hostile nodes: each lie reaches honest peers, and none makes them raise, grow, or blame each other; what it
is not known to break it does not break."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from support.hostile_scene import CONFIG, TOPICS, HostileScene
from vinecast.core.errors import InputError
from vinecast.core.log.blocks import cid_of
from vinecast.core.log.name_record import encode_name, name_key, sign_name
from vinecast.peer import inputs as given
from vinecast.peer.streams.replicas import replica_key
from vinecast.protocols.kademlia import Operation, point_of
from vinecast.sim.peers.hostile import LIES, HostileNode, lies_of
from vinecast.systems.registry import LIVE_SYSTEMS

PROMISES = {*(f"D{number}" for number in range(1, 14)), "L", "V"}
ABOUT_DELIVERY = {"D4", "D5", "D13"}
"""Where one of these is broken, readers may miss events of streams."""


def lied(
    lies: Sequence[Sequence[str]], system: str = "poldercast", seed: int = 1, honest: int = 4
) -> HostileScene:
    """A network in which these are told, until all is as it should be, or for some seconds."""
    scene = HostileScene(seed, lies, honest, replace(CONFIG, system=system))
    broken = {promise for told in lies for name in told for promise in LIES[name].breaks}
    scene.run(waits=not broken & ABOUT_DELIVERY)
    return scene


def check(scene: HostileScene) -> None:
    """What must hold whatever is said."""
    assert scene.heard() > 0
    assert not scene.watch.raised
    assert not scene.blamed()
    assert not scene.unbounded()


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_told_and_borne(name: str) -> None:
    lie = LIES[name]
    system = next(iter(sorted(lie.systems)), "poldercast")
    scene = lied([[name]], system)
    liar = scene.hostile[0]
    assert isinstance(liar, HostileNode)
    assert liar.attacks[name] > 0
    check(scene)
    if not lie.breaks & ABOUT_DELIVERY:
        assert not scene.lacking()
        assert not scene.without_receipt()


@pytest.mark.parametrize("system", LIVE_SYSTEMS)
def test_peers_of_every_system_bear_several_liars_at_once(system: str) -> None:
    lies = [
        ["absurd values", "speaking for another", "events in another's name"],
        ["mangled frames", "only friends", "stream events in another's name"],
    ]
    check(lied(lies, system, seed=3))


@pytest.mark.parametrize("system", ["pulsarcast", "vitis"])
def test_liars_go_on_when_all_others_are_gone(system: str) -> None:
    names = lies_of(system)
    scene = HostileScene(1, [names[::2], names[1::2]], honest=2, config=replace(CONFIG, system=system))
    scene.world.at_s(4, scene.honest[0].leave)
    scene.world.at_s(5, scene.honest[1].crash)
    scene.world.run(8)
    assert not scene.watch.raised
    assert all(node.lives > 1 or node.is_up for node in scene.hostile)


def test_a_seed_tells_the_same_lies() -> None:
    runs = [lied([["absurd values", "lists of nothing"], ["everything late"]], seed=5) for _ in range(2)]
    one, other = ([node.attacks for node in run.hostile if isinstance(node, HostileNode)] for run in runs)
    assert one == other
    assert runs[0].world.links.bytes_sent == runs[1].world.links.bytes_sent
    assert runs[0].watch.handed == runs[1].watch.handed


def test_a_lying_replica_is_nearest_to_a_key() -> None:
    scene = HostileScene(1, [["replica that keeps nothing"]] * 2, honest=8)
    for number, topic in ((8, TOPICS[0]), (9, TOPICS[1])):
        point = point_of(replica_key("test", topic))
        away = [point_of(node.setup.identity.id) ^ point for node in scene.world.nodes]
        assert min(away) == away[number]


def test_an_owners_newest_name_record_is_found_among_old_and_forged_ones() -> None:
    scene = HostileScene(2, [["name records, old and forged"]] * 2, honest=6)
    owner = scene.honest[0]
    who = owner.setup.identity
    key, asked = name_key(who.public, "news"), dict[int, int]()

    def put(sequence: int) -> None:
        now_us = owner.clock.now_us(scene.world.now_us)
        value = cid_of(b"%d" % sequence)
        record = encode_name(sign_name("test", "news", who.public, value, sequence, now_us, who.sign))
        owner.ask(lambda request: given.AskTable(request, Operation.PUT, key, record))

    def look_up() -> None:
        for node in scene.honest[1:]:
            asked[node.number] = node.ask(lambda request: given.AskTable(request, Operation.GET, key))

    for at_s, step in ((4, lambda: put(1)), (7, lambda: put(2)), (12, look_up)):
        scene.world.at_s(at_s, step)
    scene.world.run(20)
    found = {number: scene.watch.answers[number, request].value for number, request in asked.items()}
    assert len(found) == 5
    newest = cid_of(b"2")
    assert all(newest in one.value.replace(b"\xd8\x2a\x58\x25\x00", b"") for one in found.values())
    check(scene)


def test_lies_say_what_they_do_and_break() -> None:
    for name, lie in LIES.items():
        assert lie.told.endswith("."), name
        assert lie.breaks <= PROMISES, name
        assert lie.systems <= set(LIVE_SYSTEMS), name
        assert lie.attack or lie.hears or lie.says, name
    for system in LIVE_SYSTEMS:
        assert set(lies_of(system)) == {
            n for n, lie in LIES.items() if not lie.systems or system in lie.systems
        }


def test_there_is_no_such_lie() -> None:
    with pytest.raises(InputError, match="there is no lie called 'truth'"):
        HostileScene(1, [["truth"]])
