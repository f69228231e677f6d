"""Live nodes of Vinifera that come, go and move lose nothing."""

import asyncio
from dataclasses import replace

import pytest

from support.content import SCHEMA
from support.node.live import Village, live, until, village
from support.node.vinifera_stories import (
    STILL,
    VINIFERA,
    Publication,
    Trial,
    drawn_stories,
    near,
    order,
    publications,
)
from vinecast.core.content.filters_text import parse_filter_set
from vinecast.core.draws import below, stream
from vinecast.systems.common.router import ME
from vinecast.systems.vinifera.settings import ViniferaSettings


def test_who_is_ready_has_asked_from_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """That nobody else wants the same says nothing: there may be somebody who publishes it."""

    async def main() -> None:
        async with village(4, config=STILL) as found:
            node = found.nodes[1]
            await until(lambda: node._peer.count_others() == 3, "they have met")
            is_ready = node._peer.system.is_ready
            monkeypatch.setattr(node._peer.system, "is_ready", lambda topic: False)
            readers = [node.subscribe(SCHEMA, filter="price < 10"), node.subscribe("news")]
            waiting = [asyncio.create_task(reader.ready()) for reader in readers]
            for _ in range(STILL.alone_cycles + 4):
                await node._driver.next_cycle()
            assert not any(task.done() for task in waiting)
            monkeypatch.setattr(node._peer.system, "is_ready", is_ready)
            await asyncio.gather(*waiting)
            assert all(map(node._peer.is_ready, node._peer.peer_table.names_of(ME)))
            lonely = await Village(config=STILL).add()
            await lonely.subscribe(SCHEMA, filter="price < 10").ready()
            await lonely.close()

    live(main())


def test_after_a_crash_and_with_a_newcomer_everything_arrives_again() -> None:
    async def main() -> None:
        stories = drawn_stories(4, nodes=8, each=6)
        async with village(8, config=VINIFERA) as found:
            trial, memory = Trial(found), found.memory
            assert memory is not None
            trial.want_all(stories)
            await trial.ready()
            lost = found.nodes[3]
            memory.unreachable.add(lost.id)
            memory.freeze(lost.id)
            memory.cut(lost.id)
            found.nodes[3] = await found.make().start()
            await until(lambda: not any(lost.id in near(node) for node in found.nodes), "nobody counts on it")
            for _, wants, _ in stories:
                if wants[3].filters:
                    trial.want(3, wants[3])
            assert await trial.check(publications(stories, 8), durable=False) > 20
            memory.thaw(lost.id)
            await lost.close()

    live(main())


def test_nodes_that_move_lose_nothing() -> None:
    """All events have nearly the same values, and whoever owns these has much more to do than others."""

    async def main() -> None:
        config = replace(VINIFERA, vinifera=ViniferaSettings(beta=1))
        async with village(8, config=config) as found:
            key, trial = stream(7, 0, 0, 0), Trial(found)
            for node in range(6):
                low = below(key, node, 20)
                trial.want(
                    node, parse_filter_set(SCHEMA, f"price between {low} and {low + 15} and count < 90")
                )
            given = [
                Publication(
                    n % 8,
                    SCHEMA,
                    SCHEMA.event(order(below(key, 100 + n, 4000) / 100, count=below(key, 500 + n, 100))),
                )
                for n in range(200)
            ]
            assert await trial.check(given, durable=False, pause=10) > 200
            assert sum(node._peer.counters["load_balance.moves"] for node in found.nodes) > 5

    live(main())


def test_two_nodes_at_one_place_step_aside() -> None:
    async def main() -> None:
        async with village(5, config=STILL) as found:
            trial = Trial(found)
            for node in range(5):
                trial.want(
                    node, parse_filter_set(SCHEMA, f"price between {100 * node} and {100 * node + 300}")
                )
            await trial.ready()
            places = [node._peer.peer_table.profiles.place for node in found.nodes]
            for place in places[1:3]:
                place[ME] = places[0][ME]
            await until(lambda: len({int(place[ME]) for place in places}) == 5, "all are apart")
            given = [Publication(n % 5, SCHEMA, SCHEMA.event(order(40 * n))) for n in range(20)]
            assert await trial.check(given, durable=False) > 20

    live(main())


def test_over_real_sockets() -> None:
    async def main() -> None:
        stories = drawn_stories(4, nodes=6, each=4)
        async with village(6, sockets=True, config=replace(VINIFERA, period_s=0.3)) as found:
            trial = Trial(found)
            trial.want_all(stories)
            assert await trial.check(publications(stories, 6), durable=True) > 10

    live(main())
