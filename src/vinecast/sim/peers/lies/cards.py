"""Lies about peers: cards that are forged, invented or old, who speaks, and what peers said of themselves.

How peers are told of differs from system to system: by gossip of cards with their rings, by profiles with
words, or, in trees, by Kademlia's answers.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from vinecast.peer.outputs import SendFrame
from vinecast.peer.streams import messages as wire
from vinecast.peer.wire.messages import Gossip, Introduction, Leaving, encode, system_frame
from vinecast.protocols.load_balance import LOAD_MAX
from vinecast.sim.peers.lies.liar import Liar
from vinecast.sim.peers.lies.lie import Lie, breaking
from vinecast.systems.common.wire import TOPICS_MAX, VERSION_MAX, Card, Entry
from vinecast.systems.registry import live_system
from vinecast.systems.vinifera.messages import ViniferaExchange, ViniferaPeerStatus, ViniferaProfile
from vinecast.systems.vitis.messages import VitisExchange, VitisPeerStatus, VitisProfile
from vinecast.systems.vitis.rules import WEIGHT_MAX

TOLD = 6
"""Invented peers in one message (ours)."""
INVENTED = 48
"""Different ones, of one liar (ours)."""

Told = VitisPeerStatus | ViniferaPeerStatus


def told_of(me: Liar, card: Card, age: int = 0) -> Any:
    """A peer, as the system's gossip tells of one, with words that are not its own."""
    if me.system == "vitis":
        return VitisPeerStatus(card, age, me.pick((0, 1, TOPICS_MAX * WEIGHT_MAX)))
    if me.system == "vinifera":
        return ViniferaPeerStatus(card, age, me.draw(1 << 31), me.pick((0, 1, LOAD_MAX)))
    count = len(card.topics)
    full = me.draw(2)
    return Entry(card, age, bytes([255 * full]) * count, bytes(4 * count) if full else b"\xff" * 4 * count)


def gossip(me: Liar, cards: Sequence[Card], age: int = 0, sender: Card | None = None) -> bytes:
    """A frame of the system's gossip that tells of these peers."""
    cycle, told = me.draw(1 << 20), tuple(told_of(me, card, age) for card in cards)
    by = told_of(me, sender or me.card)
    if me.system == "vitis":
        return system_frame(VitisExchange(me.draw(4), cycle, by, told))
    if me.system == "vinifera":
        return system_frame(ViniferaExchange(me.draw(4), cycle, by, told))
    kinds = [message.kind for message in live_system(me.setup.config.row).gossip]
    if kinds:
        return encode(Gossip(me.pick(kinds), cycle, by, told))
    return wire.encode_stream(
        wire.FindAnswer(cycle, tuple(Entry(card, 0, b"", b"") for card in cards), (), b"")
    )


def introduction(card: Card) -> bytes:
    """The first frame of whoever has this card."""
    return encode(Introduction(Entry(card, 0, b"", b"")))


# Cards.


def forge_cards(me: Liar) -> None:
    """Cards of others that they did not sign: another address, other topics, a higher version."""
    victim = me.victim()
    card = me.card_of(victim)
    if card is None:
        return
    changed = structs.replace(
        card,
        address=me.pick(("10.254.0.1:9", card.address)),
        version=me.pick((card.version + 1, VERSION_MAX)),
        topics=me.pick(((), card.topics)),
        signature=me.pick((card.signature, bytes(64))),
    )
    me.say(me.victim(), gossip(me, [changed]))


def invent(me: Liar) -> None:
    """True cards of peers that nobody runs."""
    cards = me.invented(INVENTED)
    first = me.draw(INVENTED)
    me.say(me.victim(), gossip(me, (cards[first:] + cards[:first])[:TOLD]))


def tell_old(me: Liar) -> None:
    """Old cards, its own and those of others, as if they were heard from just now."""
    own = me.sign_card(me.setup.identity, str(me.setup.address), me.draw(1000), ())
    me.say(me.victim(), gossip(me, [own, *list(me.cards.values())[:TOLD]]), introduction(own))


def impersonate(me: Liar) -> None:
    """Introductions and gossip with another's card as the sender's."""
    card = me.card_of(me.victim())
    if card is not None:
        me.say(me.victim(), introduction(card), gossip(me, [], sender=card))


def tell_words(me: Liar) -> None:
    """What others never said: rings that are complete or empty, weights, places and loads, heard just now."""
    cards = [card for card in map(me.card_of, me.others()) if card is not None]
    me.say(me.victim(), gossip(me, cards[:TOLD]))


def only_friends(me: Liar, output: SendFrame) -> list[SendFrame]:
    """Tell of its friends and of nobody else, in gossip and in Kademlia."""
    message = me.read(output.frame)
    cards = [*me.friends(), *me.invented(TOLD)][:TOLD]
    entries = tuple(Entry(card, 0, b"", b"") for card in cards)
    told = tuple(told_of(me, card) for card in cards)
    changed: Any
    match message:
        case Gossip(entries=found) if found:
            return [with_frame(output, encode(structs.replace(message, entries=told)))]
        case wire.FindAnswer():
            changed = structs.replace(message, peers=entries)
            return [with_frame(output, wire.encode_stream(changed))]
        case VitisExchange() | ViniferaExchange():
            return [with_frame(output, system_frame(structs.replace(message, peers=told)))]
        case VitisProfile() | ViniferaProfile():
            return [with_frame(output, system_frame(structs.replace(message, met=told[:2])))]
    return [output]


def with_frame(output: SendFrame, frame: bytes) -> SendFrame:
    """Another frame for the same peer."""
    return SendFrame(output.peer, output.address, frame, output.things)


# Goodbyes.


def say_anothers_goodbye(me: Liar) -> None:
    """Goodbyes as if it were another who leaves."""
    card, peer = me.card_of(me.victim()), me.victim()
    if card is not None:
        me.say(peer, introduction(card), encode(Leaving()), wire.encode_stream(wire.TableGoodbye()))
        me.say(peer, introduction(me.card))


def say_goodbye(me: Liar) -> None:
    """Goodbyes of one who stays, and introduces itself again at once."""
    peer = me.victim()
    me.say(peer, encode(Leaving()), wire.encode_stream(wire.TableGoodbye()), introduction(me.card))


CARD_LIES: dict[str, Lie] = {
    "forged cards": Lie(forge_cards),
    "cards of invented peers": Lie(invent, breaks=breaking("V", "L")),
    "old cards": Lie(tell_old),
    "speaking for another": Lie(impersonate),
    "false words of others": Lie(tell_words),
    "only friends": Lie(says=only_friends, breaks=breaking("V", "L")),
    "goodbyes in another's name": Lie(say_anothers_goodbye),
    "goodbyes of one who stays": Lie(say_goodbye),
}
