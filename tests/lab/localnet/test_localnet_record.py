"""A local network that is recorded: nodes come and go, and of all of them the same comes out again."""

import json
from pathlib import Path

import pytest

from support.command_line import child
from vinecast.core.errors import InputError
from vinecast.lab.localnet.config import NetConfig
from vinecast.lab.localnet.replays import check_records, record_of, replay_all
from vinecast.node.runtime.config import NodeConfig
from vinecast.node.storage.record_folder import find_segments

PLAIN = {"VINECAST_COMPILE": "0"}
NET = ("net", "4", "--topics", "3", "--subscriptions", "2", "--period", "0.2", "--rate", "20", "--json")


def test_nodes_that_come_and_go_are_the_same_again(tmp_path: Path) -> None:
    given = ("--churn", "20", "--seconds", "4", "--record", str(tmp_path / "records"))
    ended = child(*NET, *given, environment=PLAIN)
    assert ended.returncode == 0, ended.stderr
    summary = json.loads(ended.stdout)
    told = summary["replayed"]
    assert (told["nodes"], told["same"], told["different"]) == (4, 4, [])
    assert told["runs"] == 4 + summary["came_back"] > 4
    assert told["inputs"] > 500
    again = child("replay", str(tmp_path / "records" / "node-3"), "--json", environment=PLAIN)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["same"]

    segment = find_segments(tmp_path / "records" / "node-2")[0]
    data = bytearray(segment.read_bytes())
    segment.write_bytes(data[: len(data) // 2])
    assert replay_all(str(tmp_path / "records"), 4)["cut_off"] == 1

    refused = child(*NET, *given, environment=PLAIN)
    assert refused.returncode == 2
    assert "has records of another run" in refused.stderr


def test_every_node_has_a_folder_of_its_own(tmp_path: Path) -> None:
    check_records(str(tmp_path / "nothing yet"))
    Path(record_of(str(tmp_path), 3)).mkdir()
    with pytest.raises(InputError, match="records of another run"):
        check_records(str(tmp_path))
    config = NetConfig(record="here", given=NodeConfig(record="headers"))
    assert (config.node.record, config.node.record_folder) == ("headers", "here")
    assert NetConfig(record="here").node.record is True
    assert not NetConfig().node.record
