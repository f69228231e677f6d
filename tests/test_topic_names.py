"""Topics that nodes describe for each other: created, shown, linked, forked, and still there later."""

from pathlib import Path

import pytest

from live import live, until, village
from vinecast.core.errors import InputError
from vinecast.core.names import LIFETIME_US
from vinecast.node.node import Node


def key_of(node: Node) -> bytes:
    return node.driver.book.card.public


def test_a_topic_is_found_by_others_and_has_a_history() -> None:
    async def main() -> None:
        async with village(4) as found:
            owner, other = found.nodes[0], found.nodes[3]
            await until(lambda: len(other.driver.book.known()) == 3, "everybody known")
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
            await until(lambda: bool(node.driver.book.known()), "they have met")
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
