"""Content tables: what requests leave behind, how they are aggregated, and how they go."""

from vinecast.core.events import Count, Send
from vinecast.protocols.content_table import ContentRequest, ContentTable, WantedRange
from vinecast.protocols.content_table import machine as content_table

FILTERS, CIRCLE = 8, 1000


def is_known(wanted: WantedRange) -> bool:
    return 0 <= wanted.attribute < 2 and 0 <= wanted.filter < FILTERS and 0 <= wanted.low <= wanted.high


def table(next_peer: int = 9, wider: dict[int, tuple[int, ...]] | None = None, kept: int = 3) -> ContentTable:
    """A node that owns nothing and asks somebody else for everything."""
    return ContentTable(
        lambda low, high: [(next_peer, low, high)], lambda f: (wider or {}).get(f, ()), is_known, kept
    )


def test_a_request_is_written_down_and_passed_on() -> None:
    node = table()
    wanted = WantedRange(0, 3, 10, 20)
    assert node.hear(1, ContentRequest((wanted,))) == [Send(9, ContentRequest((wanted,)))]
    assert node.askers(0, {3}, 15) == [1]
    assert node.askers(0, {3}, 21) == node.askers(1, {3}, 15) == node.askers(0, {4}, 15) == []


def test_the_same_is_asked_for_once_a_cycle() -> None:
    node = table()
    assert node.hear(1, ContentRequest((WantedRange(0, 3, 10, 20),)))
    assert node.hear(2, ContentRequest((WantedRange(0, 3, 12, 18),))) == []
    assert node.hear(2, ContentRequest((WantedRange(0, 3, 12, 30),)))  # more than was asked for
    assert node.askers(0, {3}, 15) == [1, 2]
    assert node.askers(0, {3}, 25) == [2]
    node.turn()
    assert node.hear(2, ContentRequest((WantedRange(0, 3, 12, 18),)))


def test_what_a_wider_filter_covers_is_not_asked_for() -> None:
    node = table(wider={3: (4,)})
    node.hear(1, ContentRequest((WantedRange(0, 4, 10, 30),)))
    assert node.hear(1, ContentRequest((WantedRange(0, 3, 10, 20),))) == []
    assert len(node) == 1  # whoever asked for the wider one gets what the narrower one matches as well
    assert node.hear(2, ContentRequest((WantedRange(0, 3, 10, 20),))) == []
    assert len(node) == 2
    assert node.askers(0, {3, 4}, 15) == [1, 2]
    assert node.askers(0, {4}, 15) == [1]
    assert node.hear(2, ContentRequest((WantedRange(0, 3, 10, 40),)))  # beyond what was asked for
    assert node.hear(1, ContentRequest((WantedRange(1, 3, 10, 20),)))  # another attribute


def test_what_nobody_repeats_is_forgotten() -> None:
    node = table(kept=3)
    node.hear(1, ContentRequest((WantedRange(0, 3, 10, 20),)))
    node.hear(2, ContentRequest((WantedRange(0, 3, 10, 20),)))
    for left in ([1, 2], [1, 2], [2]):
        node.turn()
        if left == [1, 2]:
            node.hear(2, ContentRequest((WantedRange(0, 3, 10, 20),)))
        assert node.askers(0, {3}, 15) == left
    node.forget(2)
    assert len(node) == 0
    assert node.askers(0, {3}, 15) == []


def test_the_last_part_still_counts_while_the_way_of_another_changes() -> None:
    node = table()
    node.hear(1, ContentRequest((WantedRange(0, 3, 10, 20),)))
    node.turn()
    node.hear(1, ContentRequest((WantedRange(0, 3, 15, 20),)))
    assert node.askers(0, {3}, 12) == [1]
    node.turn()
    node.hear(1, ContentRequest((WantedRange(0, 3, 15, 20),)))
    assert node.askers(0, {3}, 12) == []


def test_what_nobody_knows_is_refused() -> None:
    node = table()
    bad = (
        WantedRange(7, 3, 10, 20),
        WantedRange(0, FILTERS, 10, 20),
        WantedRange(0, -1, 10, 20),
        WantedRange(0, 3, 20, 10),
    )
    assert node.hear(1, ContentRequest(bad)) == [Count("content_table.refused", 4)]
    assert len(node) == 0


def test_the_table_does_not_grow_for_ever() -> None:
    node = ContentTable(lambda low, high: [(9, low, high)], lambda f: (), is_known, 3, room=3)
    for peer in range(10):
        node.hear(peer, ContentRequest((WantedRange(0, 3, 10, 20),)))
    assert len(node) == 3
    assert node.askers(0, {3}, 15) == [0, 1, 2]
    node.hear(2, ContentRequest((WantedRange(0, 3, 10, 40),)))  # who is in may still change its mind
    assert node.askers(0, {3}, 35) == [2]


def test_one_peer_has_its_share_of_the_room_and_no_more() -> None:
    node = ContentTable(lambda low, high: [(9, low, high)], lambda f: (), is_known, 3, room=8)
    for sender, kept in ((1, 2), (2, 4)):
        node.hear(sender, ContentRequest(tuple(WantedRange(0, number, 1, 2) for number in range(FILTERS))))
        assert len(node) == kept
    assert node.peers() == {1, 2}
    assert [number for number in range(FILTERS) if node.asks_for(number)] == [0, 1]
    node.forget(1)
    assert (len(node), node.peers()) == (2, {2})
    node.hear(1, ContentRequest((WantedRange(0, 5, 1, 2),)))
    assert node.asks_for(5)


def test_very_many_parts_become_one() -> None:
    node = table()
    many = content_table.PARTS_MAX
    for at in range(many):
        assert node.hear(1, ContentRequest((WantedRange(0, 3, 10 * at, 10 * at + 1),)))
    assert node.hear(1, ContentRequest((WantedRange(0, 3, 10 * many, 10 * many + 1),))) == [
        Send(9, ContentRequest((WantedRange(0, 3, 0, 10 * many + 1),)))
    ]
    assert node.hear(1, ContentRequest((WantedRange(0, 3, 15, 17),))) == []


def test_what_is_asked_for_again_when_somebody_is_gone() -> None:
    node = table()
    node.hear(1, ContentRequest((WantedRange(0, 3, 10, 20),)))
    again = node.ask_again([WantedRange(1, 2, 5, 6)])
    assert again == [Send(9, ContentRequest((WantedRange(1, 2, 5, 6), WantedRange(0, 3, 10, 20))))]


def test_what_is_wanted_of_an_arc() -> None:
    node = table()
    node.hear(1, ContentRequest((WantedRange(0, 3, 10, 20), WantedRange(1, 5, 0, 999))))
    node.hear(2, ContentRequest((WantedRange(0, 3, 18, 30),)))
    found = {(a, f, low, high) for a, f, low, high in node.within(15, 25)}
    assert found == {(0, 3, 15, 20), (0, 3, 18, 25), (1, 5, 15, 25)}
    assert list(node.within(31, 40)) == [WantedRange(1, 5, 31, 40)]
