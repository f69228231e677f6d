"""Gateways: Algorithm 5 against its letter, and what comes of it in a cluster."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vinecast.core.arrays.profiles import Profiles
from vinecast.core.arrays.topic_overlap import begin_gathering, gather, make_scratch
from vinecast.protocols.gateway import Basis, Proposals, Proposed, propose
from vinecast.protocols.gateway.proposals import propose_oneself

NODES, TOPICS = 9, 4
Proposal = tuple[int, int, int]
Said = dict[tuple[int, int], Proposal]


def profiles_of(topics: list[list[int]]) -> Profiles:
    start = np.cumsum([0, *(len(row) for row in topics)])
    flat = np.array([topic for row in topics for topic in row], dtype=np.int32)
    return Profiles.simulated(1, start, flat, TOPICS)


def distance(a: int, b: int) -> int:
    return min((a - b) % NODES, (b - a) % NODES)


def by_the_letter(
    me: int, near: list[int], topics: list[list[int]], said: Said, places: list[int], d: int
) -> list[Proposal]:
    """Algorithm 5, line by line, with the limit of the text; ``near`` is RT."""
    found = []
    for topic in topics[me]:
        prop = (me, me, 0)
        for neighbour in near:
            if topic not in topics[neighbour]:
                continue
            gateway, parent, hops = said[neighbour, topic]
            if neighbour != parent and (parent in near or parent == me):
                continue
            current, new = distance(prop[0], places[topic]), distance(gateway, places[topic])
            if new < current and hops + 1 <= d:
                prop = (gateway, neighbour, hops + 1)
            if gateway == prop[0] and hops + 1 < prop[2]:
                prop = (gateway, neighbour, hops + 1)
        found.append(prop)
    return found


def rows_of(proposed: Proposed) -> list[Proposal]:
    return list(zip(proposed.gateway.tolist(), proposed.parent.tolist(), proposed.hops.tolist(), strict=True))


def revise(
    profiles: Profiles, proposals: Proposals, me: int, near: list[int], places: list[int], d: int
) -> Proposed:
    scratch = make_scratch(NODES, TOPICS, 0, NODES)
    begin_gathering(scratch)
    scratch.seen[me] = scratch.stamp[0]
    row = np.array(near, dtype=np.int32)
    count = gather(scratch, 0, row, np.zeros(row.size, dtype=np.uint16))
    mine = propose_oneself(me, int(profiles.cnt[me]))
    basis = Basis(proposals.said, np.array(places, dtype=np.int32), d)
    propose(me, count, basis, profiles.table, scratch, mine, 0)
    return mine


some_topics = st.lists(st.sets(st.integers(0, TOPICS - 1)).map(sorted), min_size=NODES, max_size=NODES)
a_node = st.integers(0, NODES - 1)


@settings(max_examples=300)
@given(some_topics, a_node, st.integers(1, 4), st.data())
def test_proposals_follow_the_algorithm(
    topics: list[list[int]], me: int, d: int, data: st.DataObject
) -> None:
    others = [peer for peer in range(NODES) if peer != me]
    near = data.draw(st.lists(st.sampled_from(others), unique=True))
    places = data.draw(st.lists(a_node, min_size=TOPICS, max_size=TOPICS))
    profiles = profiles_of(topics)
    proposals = Proposals(profiles)
    said: Said = {}
    for peer in range(NODES):
        rows = [data.draw(st.tuples(a_node, a_node, st.integers(0, 5))) for _ in topics[peer]]
        said |= {(peer, topic): row for topic, row in zip(topics[peer], rows, strict=True)}
        columns = np.array(rows, dtype=np.int64).reshape(-1, 3)
        proposals.say(
            peer,
            Proposed(
                columns[:, 0].astype(np.int32), columns[:, 1].astype(np.int32), columns[:, 2].astype(np.uint8)
            ),
        )
    assert rows_of(revise(profiles, proposals, me, near, places, d)) == by_the_letter(
        me, near, topics, said, places, d
    )


def settle(near: list[list[int]], place: int, d: int, rounds: int) -> list[Proposal]:
    """Everybody wants topic 0 and revises its proposal a few times, all at once."""
    profiles = profiles_of([[0]] * NODES)
    proposals = Proposals(profiles)
    for _ in range(rounds):
        revised = [revise(profiles, proposals, me, near[me], [place] * TOPICS, d) for me in range(NODES)]
        for me, proposed in enumerate(revised):
            proposals.say(me, proposed)
    return [rows_of(proposed)[0] for proposed in revised]


def line() -> list[list[int]]:
    return [[peer for peer in (me - 1, me + 1) if 0 <= peer < NODES] for me in range(NODES)]


def test_a_cluster_within_reach_has_one_gateway_the_nearest_to_the_topic() -> None:
    found = settle(line(), place=4, d=4, rounds=NODES)
    assert [gateway for gateway, _, _ in found] == [4] * NODES
    assert [hops for _, _, hops in found] == [abs(me - 4) for me in range(NODES)]


def test_a_gateway_speaks_for_nobody_too_far_away() -> None:
    found = settle(line(), place=0, d=2, rounds=4 * NODES)
    assert [(gateway, hops) for gateway, _, hops in found[:3]] == [(0, 0), (0, 1), (0, 2)]
    assert all(hops <= 2 for _, _, hops in found)
    assert len({gateway for gateway, _, _ in found}) >= NODES / 5  # nobody speaks for more than five


def test_a_lost_gateway_is_soon_proposed_no_more() -> None:
    """Nobody hears node 4 any longer; what the others still say of it dies out."""
    profiles = profiles_of([[0]] * NODES)
    proposals = Proposals(profiles)
    near = [[(me + 1) % NODES, (me - 1) % NODES] for me in range(NODES)]
    for round_ in range(5 * NODES):
        if round_ == 2 * NODES:
            near = [[peer for peer in row if peer != 4] for row in near]
        revised = [revise(profiles, proposals, me, near[me], [4] * TOPICS, 5) for me in range(NODES)]
        for me, proposed in enumerate(revised):
            proposals.say(me, proposed)
        gateways = [int(proposed.gateway[0]) for proposed in revised]
        if round_ == 2 * NODES - 1:
            assert set(gateways) == {4}
    assert 4 not in gateways[:4] + gateways[5:]


def test_proposals_grow_with_the_pool() -> None:
    profiles = profiles_of([[0]] * NODES)
    proposals = Proposals(profiles)
    profiles.set_topics(3, np.array([0, 1, 2], dtype=np.int32), np.zeros(3, dtype=np.uint8))
    proposals.say(3, propose_oneself(3, 3))
    begin = int(profiles.beg[3])
    assert proposals.said.gateway[begin : begin + 3].tolist() == [3, 3, 3]
    assert proposals.said.gateway[int(profiles.beg[5])] == 5
