"""What topics are, for all nodes to find: descriptors and name records in Kademlia's storage.

A node speaks for the topics that its key created, unless it handed them on, and for those that were handed
on to it. It remembers them, puts them again when it starts, and renews their name records long before they
expire; while it is away, others keep them for a day.

Handing on takes both sides. The owner signs that another key speaks for the topic, and puts that into the
topic's next version, where the new owner finds it; nothing changes until that one has signed a record of its
own. Then the former owner's records count no more, and it stops renewing them when it learns of that.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from vinecast.core.errors import InputError, RemoteError, RightsError, TimedOutError
from vinecast.core.log.batch_signature import SIGNATURE_BYTES
from vinecast.core.log.blocks import CID_HEAD, cid_of, cid_text
from vinecast.core.log.descriptor import (
    TopicDescriptor,
    decode_descriptor,
    encode_descriptor,
    forked,
    read_linked,
    updated,
    with_subtopic,
)
from vinecast.core.log.event_record import PUBLIC_KEY_BYTES
from vinecast.core.log.name_record import (
    LIFETIME_US,
    Heir,
    NameRecord,
    decode_name,
    encode_name,
    hand_on,
    name_key,
    sign_name,
)
from vinecast.node.runtime.driver import Driver
from vinecast.node.storage.store import Store
from vinecast.peer.identity import Identity
from vinecast.peer.inputs import AskTable, ForgetValue
from vinecast.peer.topics import check_topic
from vinecast.protocols.kademlia import Found, Operation

log = logging.getLogger("vinecast.node")

PATIENCE_S = 60.0
"""For an operation of Kademlia's (ours), which ends by itself much sooner."""
HISTORY_MAX = 1000
"""Versions of a topic that are followed back (ours)."""
HEIR = "heir"
"""The metadata of a topic that is being handed on: the new owner's key and the signature that appoints it."""
_META = "own topics"


class _OwnTopic(msgspec.Struct, array_like=True):
    """A topic that this node speaks for, or did: its name record, and all descriptors, the newest last."""

    record: bytes
    descriptors: list[bytes]


@dataclass(frozen=True, slots=True)
class Described:
    """A version of a topic's descriptor, and its content id."""

    descriptor: TopicDescriptor
    cid: bytes
    record: NameRecord | None = None
    """The name record that leads to it, for the newest."""

    @property
    def told(self) -> dict[str, Any]:
        """All of it for JSON."""
        one = self.descriptor
        told: dict[str, Any] = {
            "id": cid_text(self.cid),
            "name": one.name,
            "owner": one.owner.hex(),
            "created": _when(one.created_us),
            "metadata": {k: v if isinstance(v, str) else {"hex": v.hex()} for k, v in one.metadata.items()},
            "subtopics": {name: cid_text(link) for name, link in sorted(one.subtopics.items())},
            "parent": cid_text(one.parent) if one.parent else None,
            "from": cid_text(one.origin) if one.origin else None,
        }
        if self.record is not None:
            told |= {"sequence": self.record.sequence, "expires": _when(self.record.expires_us)}
            told |= {"handed_on": self.record.signer.hex()} if self.record.heirs else {}
        return told

    @property
    def heir(self) -> Heir | None:
        """To whom the topic is being handed on."""
        promise = self.descriptor.metadata.get(HEIR)
        if not isinstance(promise, bytes) or len(promise) != PUBLIC_KEY_BYTES + SIGNATURE_BYTES:
            return None
        return Heir(promise[:PUBLIC_KEY_BYTES], promise[PUBLIC_KEY_BYTES:])


def _when(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / 1e6, UTC).isoformat()


class TopicNames:
    """Topic descriptors and name records, as one node makes and finds them."""

    def __init__(self, identity: Identity, network: str, store: Store, driver: Driver) -> None:
        self._public, self._sign, self._network = identity.public, identity.sign, network
        self._store, self._driver = store, driver
        self._own: dict[str, _OwnTopic] = {}
        kept = store.meta(_META)
        if kept is not None:
            self._own = msgspec.msgpack.decode(kept, type=dict[str, _OwnTopic])

    # What the application asks for.

    async def create(self, name: str, metadata: Mapping[str, str | bytes] | None = None) -> Described:
        """A new topic of this node's."""
        self._check_new(name)
        descriptor = TopicDescriptor(name, self._public, self._now_us(), dict(metadata or {}))
        return await self._publish(descriptor, 1)

    async def show(self, name: str, owner: bytes | None = None) -> Described:
        """A topic's newest version; of one that this node speaks for, if no owner is given."""
        owner = owner or self._owner_of(check_topic(name))
        key = name_key(owner, check_topic(name))
        value = await self._get(key)
        if not value:
            whose = (
                "this node's own; somebody else's needs its owner" if owner == self._public else owner.hex()
            )
            raise InputError(f"nobody knows a topic {name!r} of {whose}")
        record = decode_name(value)
        self._learn(value)
        return Described(await self._follow(record.value, name, owner), record.value, record)

    async def add(self, name: str, subtopic: str, owner: bytes | None = None) -> Described:
        """Link a topic that this node speaks for to a sub-topic, which may be somebody else's."""
        above, record = await self._show_own(name)
        below = await self.show(subtopic, owner)
        descriptor = with_subtopic(above.descriptor, subtopic, below.cid, self._now_us())
        return await self._publish(descriptor, record.sequence + 1, record.heirs)

    async def hand_on(self, name: str, key: bytes) -> Described:
        """Let another key speak for a topic from now on; its node has to take it over. There is no way back,
        and a topic is promised to one key only."""
        above, record = await self._show_own(name)
        if key == self._public:
            raise InputError(f"this node speaks for the topic {name!r} already")
        if above.heir is not None:
            if above.heir.key == key:
                return above
            raise RightsError(f"the topic {name!r} is handed on to {above.heir.key.hex()[:16]}… already")
        heir = hand_on(self._network, record, key, self._sign)[-1]
        metadata = {**above.descriptor.metadata, HEIR: heir.key + heir.signature}
        descriptor = updated(above.descriptor, self._now_us(), metadata)
        return await self._publish(descriptor, record.sequence + 1, record.heirs)

    async def take_over(self, name: str, owner: bytes) -> Described:
        """Speak for a topic that was handed on to this node's key; ``owner``: whoever created it."""
        if name in self._own and self._owner_of(name) != owner:
            raise InputError(f"this node has a topic {name!r} already")
        versions = await self.history(name, owner)
        above, heir = versions[0], versions[0].heir
        if heir is None or heir.key != self._public or above.record is None:
            raise RightsError(
                f"the topic {name!r} of {owner.hex()[:16]}… is not handed on to this node's key"
            )
        metadata = {key: value for key, value in above.descriptor.metadata.items() if key != HEIR}
        before = [encode_descriptor(version.descriptor) for version in reversed(versions)]
        for block in before:
            self._put(cid_of(block)[len(CID_HEAD) :], block)
        descriptor = updated(above.descriptor, self._now_us(), metadata)
        heirs = (*above.record.heirs, heir)
        return await self._publish(descriptor, above.record.sequence + 1, heirs, before)

    async def history(self, name: str, owner: bytes | None = None) -> list[Described]:
        """All versions of a topic, the newest first, and before them of those that it was forked from."""
        versions = [await self.show(name, owner)]
        while (link := versions[-1].descriptor.before) and len(versions) < HISTORY_MAX:
            last = versions[-1].descriptor
            same = (last.name, last.owner) if last.parent else (None, None)
            versions.append(Described(await self._follow(link, *same), link))
        return versions

    async def fork(self, name: str, owner: bytes, new_name: str | None = None) -> Described:
        """A topic of this node's that starts from another's, and has its history."""
        self._check_new(new_name or name)
        origin = await self.show(name, owner)
        return await self._publish(forked(origin.descriptor, self._public, self._now_us(), new_name), 1)

    def _check_new(self, name: str) -> None:
        if check_topic(name) in self._own:
            raise InputError(f"this node has a topic {name!r} already")

    def _owner_of(self, name: str) -> bytes:
        """Who created a topic that this node speaks for, or did; itself if there is none."""
        own = self._own.get(name)
        return self._public if own is None else decode_name(own.record).owner

    async def _show_own(self, name: str) -> tuple[Described, NameRecord]:
        """A topic that this node speaks for, and the record that says so."""
        found = await self.show(name)
        assert found.record is not None
        if found.record.signer != self._public:
            raise RightsError(f"the topic {name!r} was handed on to {found.record.signer.hex()}")
        return found, found.record

    # Keeping them known.

    def begin(self) -> None:
        """After a start: put all that this node owns."""
        for own in self._own.values():
            for block in own.descriptors:
                self._put(cid_of(block)[len(CID_HEAD) :], block)
        self.renew(LIFETIME_US)

    def renew(self, left_us: int = LIFETIME_US // 2) -> None:
        """Sign again what has no more than so much of its time left; of what is being handed on, after a look
        at whether it was taken over."""
        now_us = self._now_us()
        for name, own in self._own.items():
            record = decode_name(own.record)
            if record.signer != self._public or record.expires_us - now_us > left_us:
                continue
            if HEIR in decode_descriptor(own.descriptors[-1]).metadata:
                self._look(name, record.key)
            else:
                self._sign_again(name)

    def _look(self, name: str, key: bytes) -> None:
        """See whether a topic that is being handed on was taken over; else it is still this node's."""

        def settle(answer: asyncio.Future[Found]) -> None:
            found = None if answer.cancelled() or answer.exception() else answer.result()
            if found is not None and found.value:
                self._learn(found.value)
            if decode_name(self._own[name].record).signer == self._public:
                self._sign_again(name)

        self._begin(Operation.GET, key).add_done_callback(settle)

    def _sign_again(self, name: str) -> None:
        own = self._own[name]
        old = decode_name(own.record)
        record = self._record(name, old.owner, old.value, old.sequence, old.heirs)
        own.record = encode_name(record)
        self._put(record.key, own.record)
        self._note()

    def _learn(self, value: bytes) -> None:
        """A true record was found: if it says that a topic of this node's is another's now, believe it."""
        record = decode_name(value)
        own = self._own.get(record.topic)
        if own is None or record.signer == self._public or decode_name(own.record).key != record.key:
            return
        own.record = value
        self._note()
        self._driver.feed(ForgetValue(record.key))

    def _put(self, key: bytes, value: bytes) -> None:
        def look(answer: asyncio.Future[Found]) -> None:
            error = None if answer.cancelled() else answer.exception()
            if error is not None:
                log.warning("a topic cannot be put: %s", error)

        self._begin(Operation.PUT, key, value).add_done_callback(look)

    def _note(self) -> None:
        self._store.put_meta(_META, msgspec.msgpack.encode(self._own))

    # Kademlia.

    async def _publish(
        self,
        descriptor: TopicDescriptor,
        sequence: int,
        heirs: tuple[Heir, ...] = (),
        before: Sequence[bytes] = (),
    ) -> Described:
        """A new version of a topic; ``before``: the versions before it, where they were another's."""
        block, name = encode_descriptor(descriptor), descriptor.name
        cid = cid_of(block)
        record = self._record(name, descriptor.owner, cid, sequence, heirs)
        encoded = encode_name(record)
        key = cid[len(CID_HEAD) :]
        await self._ask(Operation.PUT, key, block)
        await self._ask(Operation.PUT, record.key, encoded)
        own = self._own.setdefault(name, _OwnTopic(encoded, []))
        own.record = encoded
        own.descriptors = [*(before or own.descriptors), block]
        self._note()
        return Described(descriptor, cid, record)

    def _record(
        self, name: str, owner: bytes, value: bytes, sequence: int, heirs: tuple[Heir, ...]
    ) -> NameRecord:
        return sign_name(self._network, name, owner, value, sequence, self._now_us(), self._sign, heirs)

    async def _follow(
        self, link: bytes, name: str | None = None, owner: bytes | None = None
    ) -> TopicDescriptor:
        block = await self._get(link[len(CID_HEAD) :])
        if not block:
            raise InputError(f"nobody has the topic descriptor {cid_text(link)}")
        try:
            return read_linked(block, link, name, owner)
        except RemoteError as error:
            raise InputError(
                f"the topic descriptor {cid_text(link)} is not what it should be: {error}"
            ) from None

    async def _get(self, key: bytes) -> bytes:
        found = await self._ask(Operation.GET, key)
        return found.value

    async def _ask(self, operation: Operation, key: bytes, value: bytes = b"") -> Found:
        try:
            async with asyncio.timeout(PATIENCE_S):
                found: Found = await self._driver.answer_of(self._begin(operation, key, value))
                return found
        except TimeoutError:
            raise TimedOutError("the other nodes did not answer in time: try again") from None

    def _begin(self, operation: Operation, key: bytes, value: bytes = b"") -> "asyncio.Future[Found]":
        """Have Kademlia do something; what it finds."""
        return self._driver.request(lambda request: AskTable(request, operation, key, value))

    def _now_us(self) -> int:
        return self._driver.clock.wall_us()
