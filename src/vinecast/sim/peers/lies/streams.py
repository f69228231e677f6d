"""Lies about streams: what a node has of them, what it lists and sends when asked, and what it keeps."""

from msgspec.structs import replace

from vinecast.core.log.blocks import CID_BYTES, cid_of
from vinecast.core.log.event_record import NUMBER_MAX
from vinecast.peer.outputs import SendFrame
from vinecast.peer.streams import messages as wire
from vinecast.protocols.streams.messages import ALWAYS, IF_OTHER, NEVER
from vinecast.sim.peers.lies.liar import Liar, carried
from vinecast.sim.peers.lies.lie import UNPROVED, Lie, breaking

LISTED = 20
"""Events in a list that is none (ours)."""

SEEN_MAX = 256
"""Events that are acknowledged again and again (ours)."""

Statuses = tuple[wire.StreamStatusEntry, ...]


def tell(me: Liar, told: wire.StreamStatusEntry, asks: int = IF_OTHER) -> None:
    """Tell somebody, unasked, how far it has come."""
    me.say_stream(me.victim(), wire.Heads((told,), asks))


def retell(me: Liar, output: SendFrame, told: Statuses) -> list[SendFrame]:
    """Let others hear this, in the place of what the peer inside says of its streams."""
    message = me.read(output.frame)
    assert isinstance(message, wire.Heads)
    return [reframe(output, wire.Heads(told, message.asks))]


def reframe(output: SendFrame, message: wire.Inner) -> SendFrame:
    """Another message for the same peer."""
    return SendFrame(output.peer, output.address, wire.encode_stream(message), output.things)


def statuses(me: Liar, output: SendFrame) -> Statuses:
    """What the peer inside says of its streams, if that is what it says."""
    message = me.read(output.frame)
    return message.told if isinstance(message, wire.Heads) else ()


# Heads and floors.


def tell_heads(me: Liar) -> None:
    """Heads that do not exist, a little above what there is; now and then what is no head at all."""
    topic = me.topic()
    heads = tuple(me.nobody() for _ in range(1 + me.draw(4)))
    if not me.draw(8):
        heads = (bytes(CID_BYTES), *heads)
    tell(me, wire.StreamStatusEntry(topic, heads, me.top(topic) + 1 + me.draw(16), 0, 0), me.draw(3))


def retell_heads(me: Liar, output: SendFrame) -> list[SendFrame]:
    """Heads that do not exist beside those that do."""
    told = statuses(me, output)
    if not told:
        return [output]
    beside = (replace(one, heads=(*one.heads[:60], me.nobody()), height=one.height + 1) for one in told)
    return retell(me, output, tuple(beside))


def tell_floors(me: Liar) -> None:
    """That all there is has been forgotten."""
    topic = me.topic()
    height = me.top(topic) + me.draw(4)
    tell(me, wire.StreamStatusEntry(topic, (), height, height, height), me.draw(3))


def retell_floors(me: Liar, output: SendFrame) -> list[SendFrame]:
    """The same when it is asked."""
    told = statuses(me, output)
    if not told:
        return [output]
    return retell(me, output, tuple(replace(one, floor=one.height, bottom=one.height) for one in told))


def _at_end(me: Liar, topic: str) -> wire.StreamStatusEntry:
    last = NUMBER_MAX - me.draw(3)
    floor = last if me.draw(2) else 0
    return wire.StreamStatusEntry(topic, (me.nobody(),), last, floor, floor)


def tell_far(me: Liar) -> None:
    """Heights near the last that there is, and sometimes floors."""
    tell(me, _at_end(me, me.topic()), me.draw(3))


def retell_far(me: Liar, output: SendFrame) -> list[SendFrame]:
    """The same when it is asked."""
    told = statuses(me, output)
    return retell(me, output, tuple(_at_end(me, one.topic) for one in told)) if told else [output]


# What it sends and lists.


def give_wrong(me: Liar, peer: bytes, message: object) -> bool:
    """Other bytes than were asked for: another true event, or one of its own."""
    if not isinstance(message, wire.WantEvents):
        return True
    known = me.known(message.topic)
    others = [signed for signed in known if signed.cid not in message.cids]
    wrong = me.pick(others) if others and me.draw(2) else me.sign_event(message.topic, 1)
    me.say_stream(peer, wire.EventBatch(message.topic, (carried(wrong),) * min(4, len(message.cids)), ()))
    return False


def give_lists(me: Liar, peer: bytes, message: object) -> bool:
    """Lists of events that do not exist, of what is none, without an end, and out of order."""
    if isinstance(message, wire.WantEvents):
        if me.draw(2):
            me.say_stream(peer, wire.EventBatch(message.topic, (), message.cids))
        return False
    if not isinstance(message, wire.ListStream):
        return True
    cids, height = tuple(me.nobody() for _ in range(LISTED)), message.height + 1 + me.draw(3)
    match me.draw(6):
        case 0:
            cids = (bytes(CID_BYTES), *cids)
        case 1:
            height = max(0, message.height - 1)
        case 2:
            cids = cids[:1] * 2
        case 3:
            height = NUMBER_MAX
    height = min(height, NUMBER_MAX)
    me.say_stream(peer, wire.StreamListing(message.topic, message.height, message.cid, cids, height))
    return False


def answer_nobody(me: Liar) -> None:
    """Answers to questions that nobody asked: events, lists, heads, acknowledgements, and of Kademlia."""
    topic, number = me.topic(), me.draw(1 << 20)
    event = carried(me.sign_event(topic, 7, (me.nobody(),)))
    answers: tuple[wire.Inner, ...] = (
        wire.EventBatch(topic, (event,), ()),
        wire.EventBatch(topic, (), (me.nobody(),)),
        wire.StreamListing(topic, me.draw(9), me.nobody(), (me.nobody(),), 9),
        wire.Heads((), NEVER),
        wire.HolderAck(tuple(me.nobody() for _ in range(8))),
        wire.FindAnswer(number, (), (), b""),
        wire.Pong(number),
        wire.ValueStored(number, True),
    )
    me.say_stream(me.victim(), me.pick(answers))


# What it keeps.


def acknowledge(me: Liar, peer: bytes, message: object) -> bool:
    """Say of whatever comes that it is safe, and keep nothing."""
    match message:
        case wire.Push(_, events) | wire.CarriedEvents(events=events):
            cids = tuple(cid_of(block) for block, _ in events)
            me.say_stream(peer, wire.HolderAck(cids))
            if len(me.seen) < SEEN_MAX:
                me.seen.update(dict.fromkeys(cids))
            return False
        case wire.EventBatch():
            return False
    return True


def acknowledge_more(me: Liar) -> None:
    """Say to everybody that all that ever came is safe here."""
    if me.seen:
        me.say_stream(me.victim(), wire.HolderAck(tuple(me.seen)))


def keep_nothing(me: Liar, peer: bytes, message: object) -> bool:
    """Say of whatever comes that it is safe, keep nothing, and have nothing for who asks."""
    match message:
        case wire.WantEvents(topic, cids):
            me.say_stream(peer, wire.EventBatch(topic, (), cids))
            return False
        case wire.ListStream(topic, height, cid):
            me.say_stream(peer, wire.StreamListing(topic, height, cid, (), height))
            return False
        case wire.Heads(told, asks):
            empty = tuple(wire.StreamStatusEntry(one.topic, (), 0, 0, 0) for one in told)
            if asks in (IF_OTHER, ALWAYS):
                me.say_stream(peer, wire.Heads(empty, NEVER))
            return False
    return acknowledge(me, peer, message)


STREAM_LIES: dict[str, Lie] = {
    "heads that are none": Lie(tell_heads, says=retell_heads, breaks=UNPROVED),
    "floors that are none": Lie(tell_floors, says=retell_floors, breaks=UNPROVED),
    "heads near the end": Lie(tell_far, says=retell_far, breaks=UNPROVED),
    "wrong bytes": Lie(tell_heads, give_wrong, retell_heads, breaks=UNPROVED),
    "lists of nothing": Lie(tell_heads, give_lists, retell_heads, breaks=UNPROVED),
    "answers nobody asked for": Lie(answer_nobody),
    "acknowledging what it does not keep": Lie(acknowledge_more, acknowledge, breaks=breaking("D1", "D3")),
    "replica that keeps nothing": Lie(hears=keep_nothing, near_key=True, breaks=breaking("D1", "D3")),
}
