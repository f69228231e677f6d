"""Floods: too much of something, of what is wrong and of what is not; and spam, which is right in every way.

A flood is as large as it must be to go over a limit, and no larger: one victim at a time, now and then.
"""

from collections.abc import Callable, Sequence

from vinecast.core.log.batch_signature import sign_events
from vinecast.peer import inputs as given
from vinecast.peer.limits.misbehaviour import FAULTS_A_CYCLE, GOSSIP_A_CYCLE
from vinecast.peer.limits.rate_limit import IN_HAND
from vinecast.peer.streams import messages as wire
from vinecast.peer.wire.messages import EVENTS_MAX, EventFrame, encode
from vinecast.protocols.streams.messages import IF_OTHER
from vinecast.sim.peers.lies.cards import gossip, introduction
from vinecast.sim.peers.lies.liar import FRAME_BYTES_MAX, Liar, carried
from vinecast.sim.peers.lies.lie import CROWDING, Lie, breaking
from vinecast.systems.common.wire import ENTRIES_MAX

FLOOD_MS = 3000
"""Between two floods (ours)."""
ENOUGH = FAULTS_A_CYCLE + 16
"""Frames that are over a limit: nobody bears more in a cycle."""
GOSSIP = 2 * GOSSIP_A_CYCLE + ENOUGH
"""Gossip that nobody bears, wherever in a cycle it comes."""
UNWANTED = 8
"""Unwanted events at a time (ours)."""
FLOODS_MAX = 3
"""Floods of one kind in a life, where each is large (ours)."""
PLAIN_ONE_IN = 16
"""Of a flood of questions, so many are answered: the limit is the same for those that are not (ours)."""
SPAM_TOPICS, SPAM_A_TIME = 280, 3
"""Topics with an event each, of all liars: more than a node keeps for others (``StreamsConfig``)."""
SPAM_VICTIMS = 3
"""Peers that are to keep them (ours): each costs the network a lookup for every topic."""
SPAM_BYTES, SPAM_EVENTS = 16 * 1024, 240
"""Of each event, and events, of a spam of bytes (ours): a megabyte in some seconds."""


def reached(me: Liar) -> list[bytes]:
    """The honest peers that there is a connection to."""
    up = me.world_links.peers_of(me.number)
    return [peer for peer in me.others() if peer in up]


def flood(me: Liar, make: Callable[[], bytes], count: int, most: int | None = None) -> None:
    """Send so many frames to one peer at once; at most so many floods in a life."""
    peers = reached(me)
    me.memory[me.lying] += 1
    if peers and (most is None or me.memory[me.lying] <= most):
        me.say(me.pick(peers), *(make() for _ in range(count)))


def flood_gossip(me: Liar) -> None:
    """More gossip than anybody has to listen to."""
    frame = gossip(me, [])
    flood(me, lambda: frame, GOSSIP)


def flood_introductions(me: Liar) -> None:
    """More introductions than anybody has to listen to."""
    frame = introduction(me.card)
    flood(me, lambda: frame, GOSSIP)


def flood_questions(me: Liar) -> None:
    """More questions than a peer has in hand."""
    count = iter(range(IN_HAND * 2))
    ping, pong = wire.encode_stream(wire.Ping(0)), wire.encode_stream(wire.Pong(0))
    flood(me, lambda: pong if next(count) % PLAIN_ONE_IN else ping, IN_HAND + ENOUGH, FLOODS_MAX)


def flood_garbage(me: Liar) -> None:
    """Frames that are none."""
    flood(me, lambda: b"\xc1" + me.noise(40), ENOUGH)


def flood_forged(me: Liar) -> None:
    """More forged events than anybody bears."""
    topic, key = me.topic(), me.key_of(me.victim())
    flood(me, lambda: encode(EventFrame(0, (carried(me.sign_event(topic, publisher=key)),), 0)), ENOUGH)


def flood_unwanted(me: Liar) -> None:
    """Events on a topic that nobody asked for, to one peer, again and again."""
    topic, peers = f"unwanted/{me.number}", sorted(reached(me))
    for _ in range(UNWANTED if peers else 0):
        me.say_event(peers[0], me.sign_event(topic))


def flood_true(me: Liar) -> None:
    """Events of its own, many at once, with nothing wrong with them."""
    topic, own = me.topic(), me.setup.identity
    records = [me.sign_event(topic).record for _ in range(EVENTS_MAX)]
    signed = sign_events(me.network, records, own.sign)
    flood(me, lambda: encode(EventFrame(0, tuple(map(carried, signed)), 0)), 1, FLOODS_MAX)


def oversize(me: Liar) -> None:
    """Frames with longer lists than there may be, and frames larger than any may be."""
    peers = reached(me)
    if not peers:
        return
    cids, entry = (me.nobody(),) * (wire.CIDS_MAX + 1), wire.StreamStatusEntry(me.topic(), (), 0, 0, 0)
    large: Sequence[bytes] = (
        gossip(me, [me.card] * (4 * ENTRIES_MAX)),
        wire.encode_stream(wire.HolderAck(cids)),
        wire.encode_stream(wire.Heads((entry,) * (wire.TOLD_MAX + 1), IF_OTHER)),
        wire.encode_stream(wire.WantEvents(me.topic(), cids)),
        wire.encode_stream(wire.WantEvents(me.topic(), cids[1:])),
        bytes(FRAME_BYTES_MAX + 1),
    )
    me.say(me.pick(peers), me.pick(large))


def spam_topics(me: Liar) -> None:
    """Many topics with one event each, all of them true, for others to keep."""
    begin, share = me.memory[me.lying], SPAM_TOPICS // (1 + len(me.friends()))
    for number in range(begin, min(begin + SPAM_A_TIME, share)):
        topic = f"spam/{me.number}/{number}"
        event = carried(me.sign_event(topic, 1))
        for peer in sorted(me.others())[:SPAM_VICTIMS]:
            me.say_stream(peer, wire.Push(topic, (event,)))
    me.memory[me.lying] += SPAM_A_TIME


def spam_bytes(me: Liar) -> None:
    """Many large events on a topic that others read, true ones, published as anybody's."""
    if me.memory[me.lying] >= SPAM_EVENTS:
        return
    me.memory[me.lying] += 2
    drafts = tuple(me.draft(me.noise(SPAM_BYTES)) for _ in range(2))
    topic = me.topic()
    me.publish(lambda request: given.PublishDrafts(request, topic, drafts))
    me.attacks[me.lying] += len(drafts)


FLOOD_LIES: dict[str, Lie] = {
    "flood of gossip": Lie(flood_gossip, every_ms=FLOOD_MS),
    "flood of introductions": Lie(flood_introductions, every_ms=FLOOD_MS),
    "flood of questions": Lie(flood_questions, every_ms=FLOOD_MS),
    "flood of garbage": Lie(flood_garbage, every_ms=FLOOD_MS),
    "flood of forged events": Lie(flood_forged, every_ms=FLOOD_MS),
    "flood of unwanted events": Lie(flood_unwanted),
    "flood of true events": Lie(flood_true, every_ms=FLOOD_MS, breaks=CROWDING),
    "oversize frames": Lie(oversize, every_ms=500),
    "spam of topics": Lie(spam_topics, breaks=breaking("D8", "D11")),
    "spam of bytes": Lie(spam_bytes, breaks=CROWDING),
}
