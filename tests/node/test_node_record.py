"""Live nodes that are recorded: what is written down, had again, gives the same, whatever came in."""

import asyncio
import contextlib
import errno
import logging
import shutil
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.content import SCHEMA
from support.node.live import FAST, PATIENCE_S, Village, live, settled, take, until, village
from support.recorded_peers import MARKER, SYSTEMS, Differences
from vinecast.core.content.filters_index import INDEXED_FROM
from vinecast.core.errors import InputError
from vinecast.lab.localnet.attacker import Attacker
from vinecast.node.api.node import Node
from vinecast.node.api.settings import resolve, to_toml
from vinecast.node.runtime import recorder
from vinecast.node.runtime.config import NodeConfig
from vinecast.node.runtime.recorder import PAUSED, STOPPED, code_digest
from vinecast.node.storage.record_folder import read_segments
from vinecast.node.storage.record_writer import RecordWriter, segments_in
from vinecast.peer.record.replay import replay
from vinecast.peer.record.segment import CutOffError, read_header
from vinecast.peer.record.summary import ReplaySummary
from vinecast.peer.wire.messages import EventFrame

MODES = [True, "headers"]


def again(place: Path) -> ReplaySummary:
    """What a record says, which must be the same again."""
    summary = ReplaySummary()
    assert replay(read_segments(place), code_digest(), summary) is None
    assert not summary.different, summary.first_difference
    return summary


def bytes_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*.segment")))


async def talk(found: Village, turns: int, payload: bytes = MARKER) -> None:
    """Everybody publishes, kept and not, and hears of it."""
    readers = [node.subscribe("news", start="earliest", consumer="c") for node in found.nodes]
    await settled(found)
    for turn in range(turns):
        node = found.nodes[turn % len(found.nodes)]
        await node.publish("news", payload + b" %d" % turn, {"turn": str(turn)}, durable=turn % 2 == 0)
    for reader in readers:
        kept = 0
        async with asyncio.timeout(PATIENCE_S):
            while kept < (turns + 1) // 2:
                event = await anext(reader)
                if event.offset:
                    kept += 1
                    await reader.ack(event)
        await reader.close()


@pytest.mark.parametrize("record", MODES)
def test_a_run_with_a_restart_and_hostile_peers_is_the_same_again(record: Any, tmp_path: Path) -> None:
    async def main() -> None:
        config = replace(FAST, record=record)
        async with village(0, sockets=True, config=config) as found:
            for name in "abc":
                await found.add(folder=tmp_path / name)
            await talk(found, 30)
            attacker = await Attacker("test").connect(found.nodes[0].address)
            await attacker.shake_hands()
            await attacker.send(attacker.introduction())
            forged = attacker.event("news", signer=found.nodes[1]._identity)
            await attacker.send(b"\xc1 " + MARKER, MARKER, b"", forged)
            await attacker.send(EventFrame(0, ((MARKER, bytes(68)),)))
            for _ in range(20):
                await attacker.send(*[b"\xc1 not a frame"] * 10)
            await until(lambda: counted(found.nodes[0], "refused: malformed") > 20)
            await attacker.leave()
            await found.nodes.pop(1).close()
            await found.add(folder=tmp_path / "b")
            await talk(found, 20)
            await found.nodes[2].names.create("stocks", {"about": "prices"})
            with pytest.raises(InputError):
                found.nodes[2].subscribe("news", start=10_000)

    live(main())
    for name in "abc":
        summary = again(tmp_path / name)
        assert len(summary.lives) == (2 if name == "b" else 1)
        assert summary.published > 10
        assert summary.delivered >= 25
    assert any("malformed" in reason for reason in again(tmp_path / "a").turned_away)
    assert (MARKER in bytes_in(tmp_path)) == (record is True)


def counted(node: Node, reason: str) -> int:
    counters: dict[str, int] = node.stats()["counters"]
    return sum(count for name, count in counters.items() if name.startswith(reason))


@pytest.mark.parametrize("system", SYSTEMS)
def test_all_systems_are_the_same_again(system: str, tmp_path: Path) -> None:
    async def main() -> None:
        config = NodeConfig(period_s=0.05, record="headers", traced=True, **SYSTEMS[system])
        async with village(0, config=config) as found:
            for name in "ab":
                await found.add(config=replace(config, record_folder=str(tmp_path / name)))
            await talk(found, 12)

    live(main())
    for name in "ab":
        assert again(tmp_path / name).delivered >= 6
    assert MARKER not in bytes_in(tmp_path)


@pytest.mark.parametrize("record", MODES)
@pytest.mark.parametrize("system", ["poldercast", "vinifera"])
def test_what_filters_say_is_part_of_the_record(record: Any, system: str, tmp_path: Path) -> None:
    """Few filters, and so many that there is an index, which is compiled meanwhile."""
    text = MARKER.decode()

    async def main() -> None:
        config = NodeConfig(period_s=0.05, record=record, system=system)
        async with village(0, config=config) as found:
            for name in "ab":
                await found.add(config=replace(config, record_folder=str(tmp_path / name)))
            publisher, reader = found.nodes
            wanted = [
                reader.subscribe(SCHEMA, filter=f"price < {10 + n / 100}") for n in range(INDEXED_FROM + 2)
            ]
            from_before = reader.subscribe(SCHEMA, start="earliest", filter='order = "sell"')
            await until(lambda: "stocks" in publisher.known_topics())
            await settled(found)
            await asyncio.gather(*(one.ready() for one in wanted))
            for price in range(6, 14):
                values = {"price": price, "order": text, "count": 1, "at": "2026-05-01T12:00:00Z"}
                await publisher.publish(SCHEMA, values)
            await publisher.publish("stocks", b"no values", {"schema": "other"})
            assert {event.values["order"] for event in await take(wanted[0], 4)} == {text}
            assert from_before.waiting == 0

    live(main())
    assert again(tmp_path / "b").delivered >= 4 * INDEXED_FROM
    assert again(tmp_path / "a").published == 9
    assert (MARKER in bytes_in(tmp_path)) == (record is True)


def test_a_record_stays_within_its_bound(tmp_path: Path) -> None:
    bytes_max = 1024 * 1024
    largest = Counter[str]()

    async def main() -> None:
        config = replace(FAST, record=True, record_bytes=bytes_max, record_folder=str(tmp_path))
        async with village(1, config=config) as found:
            (node,) = found.nodes
            reader = node.subscribe("news")
            for turn in range(60):
                await node.publish_all("news", [bytes(20_000) for _ in range(4)])
                await take(reader, 4)
                with contextlib.suppress(FileNotFoundError):  # it went just now
                    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
                    largest["bytes"] = max(largest["bytes"], sum(sizes))
                    largest["segments"] = max(largest["segments"], len(sizes))
                assert node.stats()["counters"].get(STOPPED) is None, turn

    live(main())
    assert bytes_max // 2 < largest["bytes"] <= bytes_max
    assert largest["segments"] > 2
    segments = segments_in(tmp_path)
    assert int(segments[0].stem) > 5, "the oldest are gone"
    assert sum(path.stat().st_size for path in segments) <= bytes_max
    summary = again(tmp_path)
    assert summary.entries > len(segments)
    assert summary.segments == len(segments)
    assert again(segments[-1]).segments == 1, "each stands for itself"


@pytest.mark.parametrize("what", ["fails", "is too slow", "cannot be noted"])
def test_where_nothing_can_be_recorded_the_node_goes_on(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*given: Any) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    async def main() -> None:
        async with village(1, config=replace(FAST, record=True, record_folder=str(tmp_path))) as found:
            (node,) = found.nodes
            reader = node.subscribe("news")
            await node.publish("news", b"before")
            await asyncio.sleep(0.5)  # it is on disk
            if what == "fails":
                monkeypatch.setattr(RecordWriter, "_append", fail)
            elif what == "is too slow":
                monkeypatch.setattr(recorder, "WAITING_BYTES_MAX", -1)
            else:
                monkeypatch.setattr("vinecast.peer.record.recorder.write_entry", fail)
            await node.publish("news", b"meanwhile")
            await until(lambda: node.stats()["counters"].get(STOPPED) == 1, "it is told")
            await node.publish("news", b"after")
            assert [event.payload for event in await take(reader, 3)] == [b"before", b"meanwhile", b"after"]
            assert node.stats()["counters"][STOPPED] == 1

    with caplog.at_level(logging.WARNING, "vinecast.node"):
        live(main())
    warnings = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert [one.getMessage().split(":")[0] for one in warnings if "record" in one.getMessage()] == [STOPPED]
    summary = ReplaySummary()
    replay(read_segments(tmp_path), code_digest(), summary)
    assert not summary.different
    assert summary.published >= 1


def is_paused(node: Node, times: int) -> bool:
    return counted(node, PAUSED) >= times


def test_a_record_pauses_while_there_is_no_room_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recorder, "PAUSE_S", 0.3)

    async def main() -> None:
        async with village(1, config=replace(FAST, record=True, record_folder=str(tmp_path))) as found:
            (node,) = found.nodes
            reader = node.subscribe("news")
            await node.publish("news", b"before")
            await asyncio.sleep(0.5)  # it is on disk
            assert node._recorder is not None
            writer = node._recorder._writer
            writer._bytes_max, bytes_max = 100, writer._bytes_max
            for turn in range(3):
                await node.publish("news", b"meanwhile")
                await until(partial(is_paused, node, turn + 1), "it is tried again")
            writer._bytes_max = bytes_max
            recorded = node._recorder._recorded
            await until(lambda: recorded.runs, "there is room")
            await node.publish("news", b"after")
            assert len(await take(reader, 5)) == 5
            assert STOPPED not in node.stats()["counters"]

    with caplog.at_level(logging.WARNING, "vinecast.node"):
        live(main())
    said = [one.getMessage() for one in caplog.records if "record" in one.getMessage()]
    assert len(said) == 1, "it is told once"
    assert "recording pauses" in said[0]
    assert "record_bytes" in said[0]
    summary = again(tmp_path)
    assert len(summary.lives) == 2
    assert summary.published == 2, "before and after"
    assert [read_header(path.name, path.read_bytes())[0].number for path in segments_in(tmp_path)] == [1, 2]


def test_a_node_that_is_killed_leaves_what_was_written(tmp_path: Path) -> None:
    async def main() -> None:
        config = replace(FAST, record=True, record_folder=str(tmp_path / "record"))
        async with village(2, config=FAST) as found:
            node = await found.add(config=config)
            await talk(found, 9)
            await asyncio.sleep(0.6)
            shutil.copytree(tmp_path / "record", tmp_path / "killed")
            assert node.cycles > 1

    live(main())
    assert again(tmp_path / "killed").delivered >= 5
    (segment,) = segments_in(tmp_path / "killed")
    segment.write_bytes(segment.read_bytes()[:-7])
    shown = Differences()
    cut = replay(read_segments(segment), code_digest(), shown)
    assert isinstance(cut, CutOffError)
    assert not shown.found
    assert shown.entries > 50


def test_folders_of_records(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(InputError, match="record_folder"):
            Node(config=NodeConfig(record=True))
        config = replace(FAST, record=True, record_folder=str(tmp_path / "record"))
        async with village(1, config=config):
            pass
        with pytest.raises(InputError, match="the record of another node"):
            async with village(1, config=config):
                pass
        (tmp_path / "file").write_text("here")
        with pytest.raises(InputError, match="there can be no record"):
            async with village(1, config=replace(config, record_folder=str(tmp_path / "file"))):
                pass
        async with village(0) as found:
            await found.add(folder=tmp_path / "a")
        assert not (tmp_path / "a" / "record").exists(), "off unless it is asked for"

    live(main())


def test_a_node_that_is_not_recorded_has_nothing_in_between() -> None:
    async def main() -> None:
        async with village(1) as found:
            driver = found.nodes[0]._driver
            assert driver._handle == driver.peer.handle
            assert found.nodes[0]._streams is driver.peer.streams.store

    live(main())


def test_what_others_ask_of_the_store_is_not_recorded(tmp_path: Path) -> None:
    async def main() -> None:
        config = replace(FAST, record=True, record_folder=str(tmp_path))
        async with village(1, config=config) as found:
            (node,) = found.nodes
            for turn in range(20):
                await node.publish("news", b"%d" % turn)
                assert len(node.log("news")) == turn + 1
                assert node.stats()["streams"] == 1
                await node._peer.streams.store.durable()
            assert node._recorder is not None
            assert not node._recorder._recorded._tape.runs

    live(main())
    again(tmp_path)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"record": "payloads"}, 'record must be true, false or "headers"'),
        ({"record_bytes": 10}, "record_bytes must be at least"),
    ],
)
def test_settings_of_records(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        NodeConfig(**given)
    assert NodeConfig(record="headers").record == "headers"


def test_a_record_is_set_in_files_and_variables_too(tmp_path: Path) -> None:
    file = tmp_path / "vinecast.toml"
    for text, record in (("true", True), ("false", False), ('"headers"', "headers")):
        file.write_text(f"record = {text}\nrecord_bytes = 2097152\n")
        settings = resolve(file, {})
        assert (settings.config.record, settings.config.record_bytes) == (record, 2097152)
        file.write_text(to_toml(settings))
        assert resolve(file, {}) == settings
    for text, record in (("true", True), ("headers", "headers")):
        assert resolve(None, {"VINECAST_NODE_RECORD": text}).config.record == record
    wrong: list[Any] = [1, "yes", 1.5, []]
    for value in wrong:
        with pytest.raises(InputError, match="record"):
            resolve(None, {}, {}, [("record", value)])
