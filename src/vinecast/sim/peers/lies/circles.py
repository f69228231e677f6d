"""Lies in systems on T-Man: gateways, notices and relays of Vitis, places and filters of Vinifera."""

from vinecast.core.content.names import LAST_PLACE, PLACES, SCHEMA, is_filter, read_name
from vinecast.core.log.event_record import NUMBER_MAX
from vinecast.peer.streams import messages as wire
from vinecast.peer.wire.messages import EventFrame, encode
from vinecast.protocols.load_balance import LOAD_MAX
from vinecast.sim.peers.lies.liar import Liar, carried
from vinecast.sim.peers.lies.lie import Lie, breaking
from vinecast.systems.common.wire import TOPICS_MAX
from vinecast.systems.vinifera import messages as vinifera
from vinecast.systems.vitis import messages as vitis
from vinecast.systems.vitis.rules import WEIGHT_MAX

VITIS, VINIFERA = frozenset({"vitis"}), frozenset({"vinifera"})
NAMED = 12
"""Names in one request (ours)."""
NUMBERS = 16
"""Events in one notice (ours)."""

# Vitis.


def propose(me: Liar) -> None:
    """Propose gateways that nobody is, and itself, at no distance, for all topics."""
    card, named = me.card, tuple(me.noise(32) for _ in range(2))
    rows = b"".join(
        vitis.ROW.pack(at, *(me.pick(((1, 2), (0, 0), (1, 1)))), me.pick((0, 1, 255)))
        for at in range(len(card.topics))
    )
    told = vitis.VitisPeerStatus(card, 0, me.pick((0, TOPICS_MAX * WEIGHT_MAX)))
    me.say_own(me.victim(), vitis.VitisProfile(bool(me.draw(2)), me.draw(1 << 20), told, named, rows, ()))


def notice(me: Liar) -> None:
    """Tell of events that never come, and ask for events that never were."""
    numbers = tuple(me.draw(1 << 31) for _ in range(NUMBERS))
    topic = me.topic() if me.draw(4) else "nobody's"
    seeking = bool(me.draw(2))
    me.say_own(me.victim(), vitis.HaveEvent(topic, me.draw(9), seeking, (*numbers, NUMBER_MAX)))
    me.say_own(me.victim(), vitis.WantEvent(me.draw(9), seeking, numbers))


def give_nothing(me: Liar, peer: bytes, message: object) -> bool:
    """Tell of events, and do not send them."""
    return not isinstance(message, vitis.WantEvent)


def relay_all(me: Liar) -> None:
    """Ask others to relay topics without end."""
    names = tuple(f"invented/{me.number}/{me.draw(1 << 20)}" for _ in range(NAMED))
    me.say_own(me.victim(), vitis.Relay(names))


# Vinifera.


def _digest(me: Liar) -> str:
    """Of a schema that somebody reads, or of none."""
    table = me.inside.peer_table
    names = [name for number in table.known() for name in table.names_of(number) if is_filter(name)]
    box = read_name(me.pick(names)) if names else None
    return box.digest if box is not None else "0" * 32


def _filter(digest: str, bounds: list[tuple[int, int, int]]) -> str:
    return f"#{digest}" + "".join(f";{at}:{low:08x}-{high:08x}" for at, low, high in bounds)


def want_all(me: Liar) -> None:
    """Ask for everything: all topics, and filters that leave out next to nothing."""
    digest = _digest(me)
    topics = [topic for topic in me.topics() if not is_filter(topic)][:NAMED]
    names = [*topics, *(_filter(digest, [(at, me.draw(2), LAST_PLACE - 1)]) for at in range(3))]
    rows = [vinifera.ROW.pack(n, 0, 0, LAST_PLACE) for n in range(len(topics))]
    rows += [vinifera.ROW.pack(len(topics) + at, at + 1, 0, LAST_PLACE) for at in range(3)]
    me.say_own(me.victim(), vinifera.FilterRequest(vinifera.Asked(tuple(names), b"".join(rows))))


def want_nested(me: Liar) -> None:
    """Ask by large filters, each inside the one before, over as many attributes as a name can have."""
    digest = _digest(me)
    first = me.draw(1 << 20)
    names = tuple(
        _filter(digest, [(at, first + n, LAST_PLACE - first - n) for at in range(8)]) for n in range(NAMED)
    )
    rows = b"".join(
        vinifera.ROW.pack(n, at + 1, first + n, LAST_PLACE - first - n)
        for n in range(NAMED)
        for at in range(8)
    )
    wrong = vinifera.ROW.pack(NAMED, 1, 0, 9) if not me.draw(8) else b""
    me.say_own(me.victim(), vinifera.FilterRequest(vinifera.Asked(names, rows + wrong)))


def misroute(me: Liar) -> None:
    """Events that say they are where they are not, or come by attributes that they do not have."""
    where = me.pick((me.noise(16), bytes(16), b"\xff" * 16, b"xyz", b"\x7f" * 64))
    headers: dict[str, str | bytes] = {SCHEMA: _digest(me), PLACES: where}
    form = me.draw(me.inside.system.event_encoding.count)
    signed = me.sign_event(me.topic(), headers=headers, payload=b"{}")
    me.say(me.victim(), encode(EventFrame(me.draw(3), (carried(signed),), form)))
    durable = me.sign_event(me.topic(), 1, headers=headers, payload=b"{}")
    if me.may_publish():
        me.say_stream(me.victim(), wire.CarriedEvents(1, False, (carried(durable),), form))


def move(me: Liar) -> None:
    """Moves that nobody asked for, and questions whether it may move, with what there is to take over."""
    place = me.draw(1 << 31)
    names = tuple(_filter(_digest(me), [(0, me.draw(1 << 20), LAST_PLACE - 1)]) for _ in range(4))
    asked = vinifera.Asked(names, b"".join(vinifera.ROW.pack(n, 1, 0, LAST_PLACE) for n in range(4)))
    me.say_own(me.victim(), vinifera.Move(place, me.draw(LOAD_MAX), asked))
    me.say_own(me.victim(), vinifera.MayMove(place, me.pick((0, LOAD_MAX))))


def be_everywhere(me: Liar) -> None:
    """Be next to everybody on the circle, with nothing to do."""
    peer, table = me.victim(), me.inside.peer_table
    number = table.number_of(peer)
    place = int(table.profiles.place[number]) if number >= 0 else 0
    told = vinifera.ViniferaPeerStatus(
        me.card, 0, (place + me.pick((-1, 1))) % LAST_PLACE, me.pick((0, LOAD_MAX))
    )
    me.say_own(peer, vinifera.ViniferaProfile(bool(me.draw(2)), me.draw(1 << 20), told, ()))


CIRCLE_LIES: dict[str, Lie] = {
    "gateways that are none": Lie(propose, breaks=breaking("V"), systems=VITIS),
    "notices of no events": Lie(notice, give_nothing, breaks=breaking("V"), systems=VITIS),
    "relays without end": Lie(relay_all, systems=VITIS),
    "filters over everything": Lie(want_all, systems=VINIFERA),
    "nested filters": Lie(want_nested, systems=VINIFERA),
    "events at false places": Lie(misroute, systems=VINIFERA),
    "moves nobody asked for": Lie(move, systems=VINIFERA),
    "being everywhere": Lie(be_everywhere, breaks=breaking("V"), systems=VINIFERA),
}
