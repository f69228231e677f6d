"""Lies about Kademlia's table: whom lookups are led to, and what values and providers there are."""

from collections.abc import Sequence

from vinecast.core.log.blocks import cid_of
from vinecast.core.log.name_record import LIFETIME_US, encode_name, name_key, sign_name
from vinecast.peer.outputs import SendFrame
from vinecast.peer.streams import messages as wire
from vinecast.peer.streams.replicas import replica_key
from vinecast.protocols.kademlia.messages import PROVIDERS, VALUE
from vinecast.sim.peers.lies.liar import Liar
from vinecast.sim.peers.lies.lie import Lie
from vinecast.sim.peers.lies.streams import reframe
from vinecast.systems.common.wire import Card, Entry

NAMED = 8
"""Peers in an answer (ours): as many as stand for a key."""
SEQUENCE = 1 << 40
"""Of a forged name record (ours): higher than any owner has come."""


def entries_of(cards: Sequence[Card]) -> tuple[Entry, ...]:
    """These peers, as Kademlia tells of them."""
    return tuple(Entry(card, 0, b"", b"") for card in cards)


def lead_to_friends(me: Liar, output: SendFrame) -> list[SendFrame]:
    """Answer lookups with its friends only, or with nobody."""
    message = me.read(output.frame)
    if not isinstance(message, wire.FindAnswer):
        return [output]
    friends = entries_of(me.friends())
    return [reframe(output, wire.FindAnswer(message.number, friends, message.providers, message.value))]


def lead_nowhere(me: Liar, output: SendFrame) -> list[SendFrame]:
    """Answer lookups with peers that nobody runs."""
    message = me.read(output.frame)
    if not isinstance(message, wire.FindAnswer):
        return [output]
    cards = me.invented(4 * NAMED)
    first = me.draw(len(cards))
    nowhere = entries_of((cards[first:] + cards[:first])[:NAMED])
    return [reframe(output, wire.FindAnswer(message.number, nowhere, message.providers, message.value))]


def false_values(me: Liar, key: bytes, topic: str, owner: bytes) -> tuple[bytes, ...]:
    """What a name record is not: an owner's old one, ones that the liar signed, and what is none."""
    now_us, own = me.clock.now_us(me.true_us), me.setup.identity
    value = cid_of(me.noise(8))
    signed = [
        encode_name(sign_name(me.network, topic, who, value, SEQUENCE, now_us, own.sign))
        for who in (owner, own.public)
    ]
    return (me.records.get(key, b"no record"), *signed, signed[0][:-1], b"no record")


def store_names(me: Liar) -> None:
    """Name records under a topic's name: the owner's old one, forged ones, and what is no record."""
    topic, owner = me.topic(), me.key_of(me.victim())
    keys = [name_key(owner, topic), *me.records]
    key = me.pick(keys)
    lie = me.pick(false_values(me, key, topic, owner))
    me.say_stream(me.victim(), wire.StoreValue(me.draw(1 << 20), key, lie, LIFETIME_US))


def give_names(me: Liar, peer: bytes, message: object) -> bool:
    """False values for who looks one up."""
    if not isinstance(message, wire.FindPeers) or message.want != VALUE:
        return True
    lie = me.pick(false_values(me, message.key, me.topic(), me.key_of(peer)))
    me.say_stream(peer, wire.FindAnswer(message.number, (), (), lie))
    return False


def provide(me: Liar) -> None:
    """Say that it has the stream of every topic."""
    key = replica_key(me.network, me.topic())
    me.say_stream(me.victim(), wire.ProvideKey(me.draw(1 << 20), key))


def name_providers(me: Liar, peer: bytes, message: object) -> bool:
    """Name peers as providers that nobody runs, or that have nothing."""
    if not isinstance(message, wire.FindPeers) or message.want != PROVIDERS:
        return True
    named = entries_of([me.card, *me.friends(), *me.invented(NAMED)])
    me.say_stream(peer, wire.FindAnswer(message.number, (), named, b""))
    return False


def lack(me: Liar, peer: bytes, message: object) -> bool:
    """Name false providers, and lack what is wanted of it."""
    if isinstance(message, wire.WantEvents):
        me.say_stream(peer, wire.EventBatch(message.topic, (), message.cids))
        return False
    return name_providers(me, peer, message)


TABLE_LIES: dict[str, Lie] = {
    "lookups that lead to friends": Lie(says=lead_to_friends),
    "lookups that lead nowhere": Lie(says=lead_nowhere),
    "name records, old and forged": Lie(store_names, give_names),
    "providers that have nothing": Lie(provide, lack),
}
