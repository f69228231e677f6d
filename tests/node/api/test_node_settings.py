"""What a node is started with: file, environment, command line; and that what is printed gives the same."""

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vinecast.core.errors import InputError
from vinecast.node.api.settings import RENAMED, Settings, resolve, to_toml
from vinecast.node.runtime.config import NodeConfig


def test_the_later_source_wins(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text('network = "file"\nfanout = 3\nperiod_s = 5\n[transport]\nidle_s = 5\nclose_s = 3.0\n')
    environment = {
        "VINECAST_NODE_NETWORK": "environment",
        "VINECAST_NODE_JOIN": "a:1, b:2",
        "VINECAST_NODE_FANOUT": "4",
        "VINECAST_NODE_TRANSPORT_IDLE_S": "6",
        "VINECAST_ELSE": "x",
    }
    found = resolve(file, environment, {"network": "option", "listen": None}, [("fanout", 5)])
    assert (found.network, found.join, found.listen) == ("option", ("a:1", "b:2"), "127.0.0.1:0")
    assert (found.config.fanout, found.config.period_s) == (5, 5.0)
    assert (found.config.transport.idle_s, found.config.transport.close_s) == (6.0, 3.0)
    named = resolve(None, {"VINECAST_NODE_CONFIG": str(file)})
    assert (named.network, named.config.fanout) == ("file", 3)


@pytest.mark.parametrize("source", ["file", "environment", "--set"])
def test_old_names_work_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture, source: str) -> None:
    file = tmp_path / "node.toml"
    file.write_text("keepers = 5\n" if source == "file" else "")
    environment = {"VINECAST_NODE_KEEPERS": "5"} if source == "environment" else {}
    found = resolve(file, environment, {}, [("keepers", 5)] if source == "--set" else [])
    assert found.config.replicas == 5
    (warning,) = caplog.messages
    assert "the setting keepers is called replicas now" in warning
    where = {"file": str(file), "environment": "VINECAST_NODE_KEEPERS", "--set": "--set"}[source]
    assert warning.startswith(where)
    assert "keepers" not in to_toml(found)


def test_a_new_name_wins_over_an_old_one(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text("replicas = 2\nkeepers = 5\n")
    environment = {"VINECAST_NODE_REPLICAS": "4", "VINECAST_NODE_KEEPERS": "6"}
    assert resolve(file, {}).config.replicas == 2
    assert resolve(file, environment).config.replicas == 4


def test_old_names_lead_to_settings_and_are_none_themselves() -> None:
    known = {field.name for cls in (Settings, NodeConfig) for field in dataclasses.fields(cls)}
    assert set(RENAMED.values()) <= known
    assert not known & set(RENAMED)


def test_settings_that_belong_together_can_be_set_together() -> None:
    pairs = [("transport.heartbeat_s", 15), ("transport.silent_s_max", 40)]
    assert resolve(None, {}, {}, pairs).config.transport.silent_s_max == 40
    with pytest.raises(
        InputError, match=r"^--set: transport: silent_s_max must be at least twice heartbeat_s$"
    ):
        resolve(None, {}, {}, pairs[:1])


@pytest.mark.parametrize(
    ("sources", "sentence"),
    [
        ({"file": "period = 1"}, "FILE: unknown key period (did you mean period_s?)"),
        ({"file": "[transport]\nidle = 1"}, "FILE: unknown key transport.idle (did you mean idle_s?)"),
        ({"file": "period_s = -1"}, "FILE: period_s must be at least 0.01, not -1.0"),
        ({"file": "["}, "FILE: not valid TOML: "),
        ({"file": 'listen = "x"'}, "FILE: not an address: 'x'; "),
        ({"file": 'subscribe = ["a//b"]'}, "FILE: a topic is a path of non-empty segments, not 'a//b'"),
        ({"environment": {"VINECAST_NODE_FANOUT": "many"}}, "the environment: fanout must be a whole number"),
        ({"environment": {"VINECAST_NODE_FAN": "1"}}, "VINECAST_NODE_FAN: unknown key fan (did you mean "),
        (
            {"environment": {"VINECAST_NODE_STORE_X": "1"}},
            "VINECAST_NODE_STORE_X: unknown key store.x (known here: ",
        ),
        ({"settings": [("transport.idle", 1)]}, "--set: unknown key transport.idle (did you mean idle_s?)"),
        ({"settings": [("a.b.c", 1)]}, "--set: unknown key a.b.c (known here: "),
        ({"settings": [("transport", 1)]}, "--set: transport must be a table, not a whole number"),
        ({"options": {"join": ["nowhere"]}}, "not an address: 'nowhere'; "),
    ],
    ids=str,
)
def test_one_sentence_for_what_is_wrong(tmp_path: Path, sources: dict[str, Any], sentence: str) -> None:
    file = tmp_path / "node.toml"
    file.write_text(sources.get("file", ""))
    with pytest.raises(InputError) as caught:
        resolve(file, sources.get("environment", {}), sources.get("options"), sources.get("settings", ()))
    assert str(caught.value).replace(str(file), "FILE").startswith(sentence)
    assert "\n" not in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such file$"):
        resolve(tmp_path / "none.toml", {})
    (tmp_path / "latin.toml").write_bytes(b'network = "\xe9"')
    with pytest.raises(InputError, match=r"not UTF-8 text$"):
        resolve(tmp_path / "latin.toml", {})


@given(
    network=st.text(st.characters(exclude_categories=["Cs"])),
    folder=st.text(st.characters(exclude_categories=["Cs"])),
    join=st.lists(st.integers(0, 65535).map(lambda port: f"[::1]:{port}")),
    period_s=st.floats(0.01, 3600),
)
def test_what_is_printed_gives_the_same(network: str, folder: str, join: list[str], period_s: float) -> None:
    options = {"network": network, "folder": folder, "join": join}
    settings = resolve(None, {}, options, [("period_s", period_s)])
    table = tomllib.loads(to_toml(settings))
    assert resolve(None, {}, table) == settings
    assert isinstance(settings, Settings)
