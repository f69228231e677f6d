"""The index of filters is compiled beside the loop: asked for once, told once, and nothing else enters the
machine."""

from support.content import SCHEMA, parse_filter
from support.lone_peer import LonePeer, of_type
from vinecast.core.content.filters import FilterSet
from vinecast.core.content.filters_index import INDEXED_FROM
from vinecast.core.content.schemas import Schema
from vinecast.peer.config import PeerConfig
from vinecast.peer.inputs import IndexCompiled, OpenSubscription
from vinecast.peer.outputs import CompileIndex, PeerOutput


def subscribe(peer: LonePeer, number: int, schema: Schema, filters: int) -> list[PeerOutput]:
    wanted = FilterSet(schema, tuple(parse_filter(schema, f"price < {n + 1}") for n in range(filters)))
    return peer.feed(OpenSubscription(number, number, schema.name, "now", None, schema, wanted))


def test_the_index_is_asked_for_once_and_made_when_it_is_told() -> None:
    peer = LonePeer(PeerConfig())
    assert not of_type(CompileIndex, subscribe(peer, 1, SCHEMA, INDEXED_FROM - 1))
    assert len(of_type(CompileIndex, subscribe(peer, 2, SCHEMA, 1))) == 1
    other = Schema("bonds", SCHEMA.attributes)
    assert not of_type(CompileIndex, subscribe(peer, 3, other, INDEXED_FROM)), "it is asked for already"
    desks = peer.peer.subscriptions._desks
    assert all(desk._index is None for desk in desks.values())
    assert not peer.feed(IndexCompiled())
    assert [len(desk._index or ()) for desk in desks.values()] == [INDEXED_FROM, INDEXED_FROM]
    third = Schema("shares", SCHEMA.attributes)
    assert not of_type(CompileIndex, subscribe(peer, 4, third, INDEXED_FROM)), "it is there"
    assert len(peer.peer.subscriptions._desks[third]._index or ()) == INDEXED_FROM
