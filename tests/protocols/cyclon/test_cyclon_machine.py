"""Cyclon's machine: two of them back to back, bad peers, and a golden conversation to read."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.paths import GOLDEN
from vinecast.core.errors import InputError
from vinecast.core.events import (
    Count,
    Effect,
    Event,
    PeerLost,
    Publish,
    Received,
    Send,
    SetTimer,
    Start,
    Stop,
)
from vinecast.core.events import TimerFired as Fired
from vinecast.protocols.cyclon import Cyclon, CyclonAnswer, CyclonConfig, CyclonRequest

TIMER = Fired("cyclon")


def machine(me: int, contacts: tuple[int, ...] = (), **config: int) -> Cyclon:
    made = Cyclon(CyclonConfig(**{"view_size": 4, "gossip_size": 2, **config}), seed=5, me=me)
    made.handle(Start(contacts), 0)
    return made


def sent(effects: list[Effect]) -> Send:
    found = [effect for effect in effects if isinstance(effect, Send)]
    assert len(found) == 1
    return found[0]


def request(cycle: int, peers: list[int], ages: list[int]) -> CyclonRequest:
    return CyclonRequest(cycle, np.array(peers, dtype=np.int32), np.array(ages, dtype=np.uint16))


def answer(cycle: int, peers: list[int], ages: list[int]) -> CyclonAnswer:
    return CyclonAnswer(cycle, np.array(peers, dtype=np.int32), np.array(ages, dtype=np.uint16))


def test_it_begins_at_once_and_then_every_period() -> None:
    node = Cyclon(CyclonConfig(period_s=2.5), seed=1, me=0)
    assert node.handle(Start((1,)), 0) == [SetTimer("cyclon", 0)]
    assert node.handle(TIMER, 0)[0] == SetTimer("cyclon", 2_500_000)


def test_two_machines_back_to_back_exchange_their_entries() -> None:
    a, b = machine(0, (1, 10, 11)), machine(1, (20, 21, 22))
    asked = sent(a.handle(TIMER, 0))
    assert asked.to == 1
    answered = sent(b.handle(Received(0, asked.message), 1))
    assert answered.to == 0
    assert a.handle(Received(1, answered.message), 2) == []
    assert 0 in b.view  # the link that pointed from a to b now points back
    assert 1 not in a.view
    assert set(a.view.tolist()) & {20, 21, 22}


def test_a_silent_partner_is_gone_and_counted() -> None:
    node = machine(0, (1,))
    assert sent(node.handle(TIMER, 0)).to == 1
    assert node.view.size == 0
    effects = node.handle(TIMER, 1)
    assert Count("cyclon.silent") in effects
    assert not [effect for effect in effects if isinstance(effect, Send)]


def test_an_answer_that_nobody_waits_for_is_dropped() -> None:
    node = machine(0, (1, 2))
    before = node.view.tolist()
    assert node.handle(Received(9, answer(1, [7], [0])), 0) == [Count("cyclon.late")]
    node.handle(TIMER, 0)
    node.handle(TIMER, 1)
    assert node.handle(Received(1, answer(1, [7], [0])), 2) == [Count("cyclon.late")]
    assert 7 not in node.view
    assert before


def test_a_restart_keeps_the_view_and_forgets_the_exchange() -> None:
    node = machine(0, (1, 2, 3))
    asked = sent(node.handle(TIMER, 0))
    node.handle(Start((4,)), 5)
    assert 4 in node.view
    assert node.handle(Received(asked.to, answer(1, [7], [0])), 6) == [Count("cyclon.late")]


def test_a_lost_peer_leaves_the_view() -> None:
    node = machine(0, (1, 2, 3))
    assert node.handle(PeerLost(2), 0) == []
    assert sorted(node.view.tolist()) == [1, 3]


@pytest.mark.parametrize("event", [Stop(), Publish(1, 2), Fired("somebody else's")])
def test_what_does_not_concern_it_is_ignored(event: Event) -> None:
    assert machine(0, (1,)).handle(event, 0) == []


@given(
    st.lists(
        st.tuples(
            st.integers(0, 30),
            st.booleans(),
            st.integers(-(2**63), 2**63 - 1),
            st.lists(st.tuples(st.integers(-1, 30), st.integers(0, 65535)), max_size=50),
        ),
        max_size=20,
    )
)
def test_whatever_peers_send_the_view_stays_sound(
    messages: list[tuple[int, bool, int, list[tuple[int, int]]]],
) -> None:
    node = machine(0, (1, 2))
    for sender, asks, cycle, entries in messages:
        peers, ages = [peer for peer, _ in entries], [age for _, age in entries]
        message = request(cycle, peers, ages) if asks else answer(cycle, peers, ages)
        for effect in node.handle(Received(sender, message), 0):
            if isinstance(effect, Send):
                assert isinstance(effect.message, CyclonAnswer)
                assert effect.message.peers.size <= 2
        view = node.view.tolist()
        assert len(view) <= 4
        assert len(set(view)) == len(view)
        assert 0 not in view
        assert -1 not in view


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"view_size": 0}, "view_size must be at least 1"),
        ({"gossip_size": 0}, "gossip_size must be at least 1"),
        ({"view_size": 4, "gossip_size": 5}, "must not exceed view_size"),
        ({"period_s": 0.0}, "period_s must be at least"),
        ({"period_s": float("nan")}, "finite"),
    ],
)
def test_a_wrong_configuration_is_refused(wrong: dict[str, float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        CyclonConfig(**wrong)  # type: ignore[arg-type]


def converse() -> str:
    """Four nodes, five cycles: everything that is said, and every view after each cycle."""
    nodes = {me: machine(me, tuple(c for c in (1, 2, 3, 4) if c != me)[:2]) for me in (1, 2, 3, 4)}
    lines = []
    for cycle in range(1, 6):
        lines.append(f"cycle {cycle}")
        for me, node in nodes.items():
            pending = [(me, effect) for effect in node.handle(TIMER, cycle) if isinstance(effect, Send)]
            while pending:
                sender, send = pending.pop(0)
                message = send.message
                assert isinstance(message, CyclonRequest | CyclonAnswer)
                entries = zip(message.peers.tolist(), message.ages.tolist(), strict=True)
                text = " ".join(f"{peer}({age})" for peer, age in entries)
                lines.append(f"  {sender} -> {send.to}  {message.kind:15} {text}")
                if (cycle, send.to) == (3, 4):
                    lines.append("         … 4 is asleep")
                    continue
                replies = nodes[send.to].handle(Received(sender, message), cycle)
                pending += [(send.to, reply) for reply in replies if isinstance(reply, Send)]
        for me, node in nodes.items():
            entries = zip(node.view.tolist(), node.ages.tolist(), strict=False)
            lines.append(f"  {me} knows " + " ".join(f"{peer}({age})" for peer, age in entries))
    return "\n".join(lines) + "\n"


def test_the_golden_conversation() -> None:
    """If this fails because the protocol was meant to change, write ``converse()`` to the file and read the
    difference."""
    assert converse() == (GOLDEN / "cyclon.txt").read_text(encoding="utf-8")
