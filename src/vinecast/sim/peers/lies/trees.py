"""Lies about the trees of PulsarCast: who is in them, who is whose parent, and what comes above."""

from vinecast.peer.streams import messages as wire
from vinecast.peer.wire.messages import EventFrame, encode
from vinecast.sim.peers.lies.liar import Liar
from vinecast.sim.peers.lies.lie import Lie, breaking
from vinecast.sim.peers.lies.table import entries_of
from vinecast.systems.common.wire import HOPS_MAX
from vinecast.systems.pulsarcast import messages as trees

JOINS = 3
"""Trees that are joined at a time (ours)."""
ECHOES_MAX = 400
"""Frames that are sent back, in all (ours): two liars would keep one on its way for ever."""
TREES_MAX = 400
"""… and in all: more than one peer may, where a node knows a thousand topics."""
PULSARCAST = frozenset({"pulsarcast"})


def claim(me: Liar, peer: bytes, message: object) -> bool:
    """Be in every tree and the parent of whoever asks, and pass nothing on."""
    match message:
        case trees.SearchTree(topic):
            me.say_own(peer, trees.MemberOfTree(topic, True))
        case trees.Join(topic):
            me.children.setdefault(peer, {})[topic] = None
            me.say_own(peer, trees.Accept(topic))
        case trees.Part(topic):
            me.children.get(peer, {}).pop(topic, None)
            return True
        case EventFrame() | wire.CarriedEvents():
            pass
        case _:
            return True
    return False


def keep_children(me: Liar) -> None:
    """Be a parent that is alive."""
    for peer, topics in me.children.items():
        if topics:
            me.say_own(peer, trees.Heartbeat(tuple(topics)))


def tie(me: Liar) -> None:
    """Circles: be the parent and the child of the same peer, which comes above itself."""
    topic, peer, other = me.topic(), me.victim(), me.victim()
    above = [card for card in (me.card_of(peer), me.card_of(other), me.card) if card is not None]
    me.say_own(peer, trees.Accept(topic), trees.Join(topic), trees.Heartbeat((topic,)))
    me.say_own(peer, trees.Above(topic, entries_of(above)))
    me.say_own(
        other, trees.Join(topic), trees.MemberOfTree(topic, True), trees.Above(topic, entries_of(above))
    )


def echo(me: Liar, peer: bytes, message: object) -> bool:
    """Send events back where they came from, and round again."""
    if not isinstance(message, EventFrame | wire.CarriedEvents) or me.memory[me.lying] >= ECHOES_MAX:
        return True
    me.memory[me.lying] += 1
    match message:
        case EventFrame(hops, events, form):
            back = encode(EventFrame(min(hops + 1, HOPS_MAX), events, form))
            me.say(peer, back)
            me.say(me.victim(), back)
        case wire.CarriedEvents(hops, _, events, form):
            again = wire.CarriedEvents(min(hops + 1, HOPS_MAX), False, events, form)
            me.say_stream(peer, again)
            me.say_stream(me.victim(), again)
    return True


def join_all(me: Liar) -> None:
    """Join trees of invented topics, one after the other, and speak as the parent in many."""
    begin = me.memory[me.lying]
    if begin < TREES_MAX:
        names = [f"invented/{me.number}/{begin + n}" for n in range(JOINS)]
        me.memory[me.lying] += JOINS
        me.say_own(me.victim(), *map(trees.Join, names))
        me.say_own(me.victim(), trees.Heartbeat(tuple(names)), trees.Alive(tuple(me.topics())))


def part_all(me: Liar) -> None:
    """Part, and refuse, wherever it is in a tree; and be no child any longer where it is one."""
    topic = me.topic()
    me.say_own(me.victim(), trees.Part(topic), trees.Alive((topic,)), trees.MemberOfTree(topic, False))


TREE_LIES: dict[str, Lie] = {
    "false parent": Lie(
        keep_children, claim, every_ms=500, breaks=breaking("V"), systems=PULSARCAST, near_key=True
    ),
    "circles in trees": Lie(tie, echo, systems=PULSARCAST),
    "joining without end": Lie(join_all, systems=PULSARCAST),
    "parting all the time": Lie(part_all, systems=PULSARCAST),
}
