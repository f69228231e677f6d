"""The checker that watches live runs: it finds what is wrong, and nothing else."""

from collections.abc import Callable

from support.protocols.streams_net import chain, event
from vinecast.core.log.checker import StreamChecker


def told(*faults: Callable[[StreamChecker], object]) -> list[str]:
    checker = StreamChecker()
    for signed in chain(3):
        checker.published(signed)
    for fault in faults:
        fault(checker)
    return checker.faults


def test_the_checker_finds_nothing_where_nothing_is_wrong() -> None:
    events = chain(3)
    cids = [signed.cid for signed in events]
    faults = told(
        *(lambda c, s=signed: c.delivered("a", s) for signed in events),
        *(lambda c, s=signed: c.delivered("b", s) for signed in events),
        lambda c: c.delivered("b", events[2]),
        lambda c: c.consumed("b", "a/topic", cids),
        lambda c: c.acknowledged(cids[0], 3),
        lambda c: c.finish("a/topic", {"a": cids, "b": cids}, 2),
    )
    assert faults == []


def test_the_checker_finds_what_is_wrong() -> None:
    events = chain(3)
    cids = [signed.cid for signed in events]
    stranger = event(9)
    cases: list[tuple[str, tuple[Callable[[StreamChecker], object], ...]]] = [
        ("which nobody published", (lambda c: c.delivered("a", stranger),)),
        ("which nobody published", (lambda c: c.delivered("a", events[0]._replace(block=b"")),)),
        ("before its parents", (lambda c: c.delivered("a", events[1]),)),
        (
            "which it had acknowledged",
            (
                lambda c: c.delivered("a", events[0]),
                lambda c: c.consumed("a", "a/topic", cids[:1]),
                lambda c: c.delivered("a", events[0]),
            ),
        ),
        (
            "nodes acknowledged",
            (lambda c: c.acknowledged(cids[0], 2), lambda c: c.finish("a/topic", {"a": []}, 2)),
        ),
        ("not handed exactly", (lambda c: c.finish("a/topic", {"a": cids}, 2),)),
        ("differ", (lambda c: c.finish("a/topic", {"a": cids, "b": cids[:2]}, 2),)),
        ("differ", (lambda c: c.finish("a/topic", {"a": cids, "b": cids[::-1]}, 2),)),
    ]
    for text, steps in cases:
        assert any(text in fault for fault in told(*steps)), text


def test_the_checker_counts_what_it_does_not_tell() -> None:
    checker = StreamChecker()
    for number in range(100):
        checker.delivered("a", event(number))
    assert checker.count == 100
    assert len(checker.faults) == 20
