"""Topics that nodes describe for each other: created, shown, linked, forked, and still there later."""

import time
from functools import partial
from pathlib import Path

import pytest

from support.node.live import live, until, village
from vinecast.core.errors import InputError
from vinecast.core.events import Send
from vinecast.core.log.name_record import LIFETIME_US, NameRecord, decode_name, encode_name, sign_name
from vinecast.node.api.node import Node
from vinecast.protocols.kademlia import KademliaStore


def key_of(node: Node) -> bytes:
    return node._peer.peer_table.card.public


def test_a_topic_is_found_by_others_and_has_a_history() -> None:
    async def main() -> None:
        async with village(4) as found:
            owner, other = found.nodes[0], found.nodes[3]
            await until(lambda: len(other._peer.peer_table.known()) == 3, "everybody known")
            created = await owner.names.create("sports", {"about": "scores"})
            await owner.names.create("sports/tennis")
            seen = await other.names.show("sports", key_of(owner))
            assert seen.cid == created.cid
            assert seen.told["metadata"] == {"about": "scores"}
            newer = await owner.names.add("sports", "sports/tennis")
            seen = await other.names.show("sports", key_of(owner))
            assert (seen.cid, seen.record and seen.record.sequence) == (newer.cid, 2)
            assert list(seen.descriptor.subtopics) == ["sports/tennis"]
            versions = await other.names.history("sports", key_of(owner))
            assert [version.cid for version in versions] == [newer.cid, created.cid]
            fork = await other.names.fork("sports", key_of(owner))
            assert fork.descriptor.owner == key_of(other)
            versions = await owner.names.history("sports", key_of(other))
            assert [version.cid for version in versions] == [fork.cid, newer.cid, created.cid]

    live(main())


def test_what_cannot_be_is_one_sentence() -> None:
    async def main() -> None:
        async with village(1) as found:
            (node,) = found.nodes
            await node.names.create("sports")
            await node.names.create("fruits")
            for attempt in (
                node.names.create("sports"),
                node.names.create("a//b"),
                node.names.show("unknown"),
                node.names.show("sports", bytes(32)),
                node.names.add("sports", "fruits"),
                node.names.add("sports", "sports/unknown"),
                node.names.fork("sports", key_of(node)),
            ):
                with pytest.raises(InputError):
                    await attempt

    live(main())


def test_a_node_remembers_and_renews_its_topics(tmp_path: Path) -> None:
    async def main() -> None:
        async with village(1) as found:
            (other,) = found.nodes
            node = await found.add(folder=tmp_path)
            identity = node._identity
            await until(lambda: bool(node._peer.peer_table.known()), "they have met")
            created = await node.names.create("sports", {"about": "scores"})
            await node.close()
            found.nodes.remove(node)
            seen = await other.names.show("sports", created.descriptor.owner)  # it keeps it meanwhile
            assert seen.cid == created.cid
            node = await found.add(folder=tmp_path, identity=identity)
            again = await node.names.show("sports")
            assert again.cid == created.cid
            assert again.record is not None
            assert created.record is not None
            assert again.record.expires_us > created.record.expires_us
            assert again.record.sequence == 1
            with pytest.raises(InputError):
                await node.names.create("sports")
            before = again.record.expires_us
            node.names.renew()
            assert (await node.names.show("sports")).record == again.record  # it is long before its time
            node.names.renew(2 * LIFETIME_US)
            renewed = (await node.names.show("sports")).record
            assert renewed is not None
            assert renewed.expires_us > before

    live(main())


def test_a_topic_is_handed_on() -> None:
    async def main() -> None:
        async with village(3, sockets=True) as found:
            old, new, witness = found.nodes
            await until(
                lambda: all(len(n._peer.peer_table.known()) == 2 for n in found.nodes), "everybody known"
            )
            key = key_of(old)
            first = await old.names.create("sports", {"about": "scores"})
            for name in ("sports/tennis", "sports/ski"):
                await old.names.create(name)
                await new.names.create(name)
            with pytest.raises(InputError, match="is not handed on"):
                await new.names.take_over("sports", key)
            promised = await old.names.hand_on("sports", key_of(new))
            assert (await old.names.hand_on("sports", key_of(new))).cid == promised.cid
            for attempt in (old.names.hand_on("sports", key), old.names.hand_on("sports", key_of(witness))):
                with pytest.raises(InputError):
                    await attempt
            with pytest.raises(InputError, match="is not handed on"):
                await witness.names.take_over("sports", key)
            still = await old.names.add("sports", "sports/tennis")  # until it is taken over
            replayed = still.record
            taken = await new.names.take_over("sports", key)
            assert taken.descriptor.metadata == {"about": "scores"}
            assert taken.told["handed_on"] == key_of(new).hex()
            with pytest.raises(InputError, match="was handed on"):
                await old.names.add("sports", "sports/ski")
            with pytest.raises(InputError, match="was handed on"):
                await old.names.hand_on("sports", key_of(witness))
            newest = await new.names.add("sports", "sports/ski")
            for node in found.nodes:
                seen = await node.names.show("sports", key)
                assert seen.cid == newest.cid
                assert set(seen.descriptor.subtopics) == {"sports/tennis", "sports/ski"}
            versions = await witness.names.history("sports", key)
            assert [version.cid for version in versions] == [
                newest.cid, taken.cid, still.cid, promised.cid, first.cid
            ]  # fmt: skip
            # What the former owner signs later counts no more, nor what it signed before.
            assert replayed is not None
            assert old._identity is not None
            later = sign_name(
                "test", "sports", key, first.cid, 99, time.time_ns() // 1000, old._identity.sign
            )
            for record in (replayed, later):
                before = refused(new), refused(witness)
                spread(old, record)
                await until(partial(have_refused, new, before[0]), "the new owner refused it")
                await until(partial(have_refused, witness, before[1]), "so did the other")
                for node in found.nodes:
                    assert (await node.names.show("sports", key)).cid == newest.cid
            old.names.renew(2 * LIFETIME_US)
            new.names.renew(2 * LIFETIME_US)
            seen = await witness.names.show("sports", key)
            assert seen.record is not None
            assert seen.record.signer == key_of(new)

    live(main())


def test_a_promise_is_renewed_until_it_is_taken_up() -> None:
    async def main() -> None:
        async with village(2) as found:
            old, new = found.nodes
            await until(lambda: all(n._peer.peer_table.known() for n in found.nodes), "they have met")
            key = key_of(old)
            await old.names.create("sports")
            promised = await old.names.hand_on("sports", key_of(new))
            assert promised.record is not None
            old.names.renew(2 * LIFETIME_US)
            before = promised.record.expires_us

            def own() -> NameRecord:
                return decode_name(old.names._own["sports"].record)

            await until(lambda: own().expires_us > before, "it is renewed after a look")
            await new.names.take_over("sports", key)
            old.names.renew(2 * LIFETIME_US)
            await until(lambda: own().signer == key_of(new), "the former owner has learnt of it")
            with pytest.raises(InputError):
                await old.names.create("sports")
            back = await new.names.hand_on("sports", key)
            again = await old.names.take_over("sports", key)
            assert again.descriptor.parent == back.cid
            assert (await new.names.show("sports")).cid == again.cid

    live(main())


def refused(node: Node) -> int:
    return node._peer.counters["kademlia.refused_older"]


def have_refused(node: Node, before: int) -> bool:
    return refused(node) > before


def spread(node: Node, record: NameRecord) -> None:
    """Send a record to all that a node has connections to."""
    streams, value = node._peer.streams, encode_name(record)
    streams.table.carry_out(
        Send(peer, KademliaStore(1, record.key, value, 1 << 40)) for peer in node._peer.connected()
    )
