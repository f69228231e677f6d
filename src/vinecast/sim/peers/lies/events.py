"""Lies about events: forged ones, ones at places where they cannot stand, and old ones as if they were new.

An event can come in four ways: outside of streams; of a stream, as from a neighbour who passes it on or from
its publisher; as to a replica; and because it was asked for, which others can be made to do by telling of it.
"""

from vinecast.core.log.batch_signature import SignedEvent
from vinecast.core.log.event_record import NUMBER_MAX, TIME_MAX
from vinecast.peer.streams import messages as wire
from vinecast.peer.wire.messages import EventFrame, encode
from vinecast.protocols.streams.messages import IF_OTHER
from vinecast.sim.peers.lies.liar import REMEMBERED, Liar, carried
from vinecast.sim.peers.lies.lie import UNPROVED, Lie, breaking
from vinecast.systems.common.wire import HOPS_MAX

CHAIN = 6
"""Events in a chain that ends nowhere (ours): more than are walked one by one."""
OLD_MS = 400
"""Between two events that are played again (ours)."""
NEAR_END = 4
"""Heights near the end are within so many of the last (ours)."""


def lay(me: Liar, signed: SignedEvent) -> None:
    """Bring an event of a stream to somebody, in one of the ways in which they come."""
    peer, event, topic = me.victim(), carried(signed), signed.record.topic
    encoding = me.inside.system.event_encoding
    match me.draw(4):
        case 0:
            me.say_stream(peer, wire.Push(topic, (event,)))
        case 1:
            offer(me, signed)
            told = wire.StreamStatusEntry(topic, (signed.cid,), signed.record.height, 0, 0)
            me.say_stream(peer, wire.Heads((told,), IF_OTHER))
        case way:
            form = me.draw(encoding.count)
            me.say_stream(peer, wire.CarriedEvents(1, way == 2, (event,), form))


def offer(me: Liar, signed: SignedEvent) -> None:
    """Have an event ready for whoever asks for it."""
    me.forgeries[signed.cid] = carried(signed)
    if len(me.forgeries) > REMEMBERED:
        del me.forgeries[next(iter(me.forgeries))]


def give_forgeries(me: Liar, peer: bytes, message: object) -> bool:
    """Send what others were made to ask for."""
    if isinstance(message, wire.WantEvents):
        wanted = tuple(me.forgeries[cid] for cid in message.cids if cid in me.forgeries)
        if wanted:
            me.say_stream(peer, wire.EventBatch(message.topic, wanted, ()))
            return False
    return True


# Forged.


def forge(me: Liar) -> None:
    """Events outside of streams in another's name, or with a proof that leads nowhere."""
    topic = me.topic()
    if me.draw(2):
        me.say_event(me.victim(), me.sign_event(topic, publisher=me.key_of(me.victim())))
        return
    signed = me.sign_event(topic)
    wrong = signed.signature._replace(size=2, leaf=me.draw(2), path=me.noise(32))
    me.say_event(me.victim(), signed._replace(signature=wrong))


def forge_stream(me: Liar) -> None:
    """Events of streams in another's name, in every way in which they come."""
    topic = me.topic()
    lay(me, me.sign_event(topic, 1, publisher=me.key_of(me.victim())))
    known = me.known(topic)
    if known:
        parent = me.pick(known)
        publisher = me.key_of(me.victim())
        lay(me, me.sign_event(topic, parent.record.height + 1, (parent.cid,), publisher))


def retopic(me: Liar) -> None:
    """True events of a stream under another topic's name, and those outside of streams among those of one."""
    topic, peer = me.topic(), me.victim()
    if me.durable:
        event = me.pick(me.durable)
        me.say_stream(peer, wire.Push(topic, (event,)), wire.EventBatch(topic, (event,), ()))
        me.say(peer, encode(EventFrame(0, (event,), 0)))
    if me.volatile:
        me.say_stream(peer, wire.CarriedEvents(1, True, (me.pick(me.volatile),), 0))


# Where they cannot stand.


def orphan(me: Liar) -> None:
    """Events of streams whose parents never existed: a hash cannot be made to fit."""
    parents = tuple(me.nobody() for _ in range(1 + me.draw(2)))
    lay(me, me.sign_event(me.topic(), 2 + me.draw(40), parents))


def orphan_chain(me: Liar) -> None:
    """Chains of events, each of which is there for who asks, that end in one that never existed."""
    topic, below, height = me.topic(), me.nobody(), 2
    for height in range(2, 2 + CHAIN):
        signed = me.sign_event(topic, height, (below,))
        offer(me, signed)
        below = signed.cid
    lay(me, me.sign_event(topic, height + 1, (below,)))


def misplace(me: Liar) -> None:
    """Events of streams whose heights do not follow from their parents', by a little."""
    topic = me.topic()
    known = me.known(topic)
    if not known:
        lay(me, me.sign_event(topic, 2 + me.draw(4), (me.nobody(),)))
        return
    parent = me.pick(known)
    wrong = parent.record.height + (2 + me.draw(20) if me.draw(3) else 0)
    lay(me, me.sign_event(topic, max(2, wrong), (parent.cid,)))


def misplace_far(me: Liar) -> None:
    """Events of streams whose heights are near the last that there is."""
    topic = me.topic()
    known = me.known(topic)
    parent = me.pick(known).cid if known and me.draw(2) else me.nobody()
    lay(me, me.sign_event(topic, NUMBER_MAX - me.draw(NEAR_END), (parent,)))


# True ones that make trouble.


def begin_again(me: Liar) -> None:
    """First events of a stream, again and again: each is a head of its own, and all are true."""
    if me.may_publish():
        lay(me, me.sign_event(me.topic(), 1))


def mistime(me: Liar) -> None:
    """Events of its own, at their places, from the beginning or the end of all times."""
    if not me.may_publish():
        return
    topic, time_us = me.topic(), me.pick((0, 1, TIME_MAX - 1, TIME_MAX))
    parents, height = me.inside.streams.place(topic)
    lay(me, me.sign_event(topic, height, parents, time_us=time_us))
    me.say_event(me.victim(), me.sign_event(topic, time_us=time_us))


def miscontent(me: Liar) -> None:
    """Events of its own with the headers of others', and contents that do not fit."""
    if not me.may_publish():
        return
    topic, headers = me.topic(), me.headers()
    payload = me.pick((b"{}", b"null", b"[[[[[[", b'{"price":"much"}', b"{" + me.noise(40), b"\xff\xfe"))
    if me.draw(2):
        me.say_event(me.victim(), me.sign_event(topic, payload=payload, headers=headers))
        return
    parents, height = me.inside.streams.place(topic)
    lay(me, me.sign_event(topic, height, parents, payload=payload, headers=headers))


# Old.


def replay(me: Liar) -> None:
    """Old events outside of streams, once more, as if they came from far."""
    if me.volatile:
        hops = me.pick((0, 1, HOPS_MAX))
        form = me.draw(me.inside.system.event_encoding.count)
        me.say(me.victim(), encode(EventFrame(hops, (me.pick(me.volatile),), form)))


def replay_stream(me: Liar) -> None:
    """Old events of streams, once more, in every way in which they come."""
    if not me.durable:
        return
    event, topic, peer = me.pick(me.durable), me.topic(), me.victim()
    form = me.draw(me.inside.system.event_encoding.count)
    again = wire.CarriedEvents(me.pick((0, 1, HOPS_MAX)), bool(me.draw(2)), (event,), form)
    me.say_stream(peer, again, wire.Push(topic, (event,)), wire.EventBatch(topic, (event,), ()))


EVENT_LIES: dict[str, Lie] = {
    "events in another's name": Lie(forge),
    "stream events in another's name": Lie(forge_stream, give_forgeries, breaks=UNPROVED),
    "events under another topic": Lie(retopic),
    "parents that never existed": Lie(orphan, give_forgeries, breaks=UNPROVED),
    "chains that end nowhere": Lie(orphan_chain, give_forgeries, every_ms=1000, breaks=UNPROVED),
    "wrong heights": Lie(misplace, give_forgeries, breaks=UNPROVED),
    "heights near the end": Lie(misplace_far, give_forgeries, breaks=UNPROVED),
    "first events without end": Lie(begin_again, give_forgeries),
    "false times": Lie(mistime, give_forgeries, every_ms=500),
    "false contents": Lie(miscontent, give_forgeries, every_ms=500),
    "old events again": Lie(replay, every_ms=OLD_MS, breaks=breaking("V")),
    "old stream events again": Lie(replay_stream, every_ms=OLD_MS, breaks=breaking("D6")),
}
