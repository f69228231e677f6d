"""``vinecast topic``: what topics are, who owns them, and how they came to be so."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vinecast.cli.access import open_client
from vinecast.cli.output import plain, print_json, print_table
from vinecast.cli.values import pair

Command = Callable[..., argparse.ArgumentParser]


def add_topic(commands: Any, command: Command) -> None:
    """The command and its actions. All of them speak to a node that runs here, with its key."""
    topic = commands.add_parser(
        "topic",
        help="describe topics",
        description="Describe topics for everybody to find.",
        epilog="example: vinecast topic create sports --meta about=scores",
    )
    actions = topic.add_subparsers(title="actions", metavar="ACTION", required=True)

    create = _action(actions, command, "create", "create a topic", "vinecast topic create sports")
    create.add_argument(
        "--meta", action="append", default=[], type=pair, metavar="KEY=VALUE", help="can be repeated"
    )
    show = _action(actions, command, "show", "show a topic", "vinecast topic show sports --owner KEY")
    _add_owner(show, "whose topic (default: the node's own)")
    add = _action(
        actions, command, "add", "link a topic to a sub-topic", "vinecast topic add sports sports/tennis"
    )
    add.add_argument("other", metavar="SUBTOPIC", help="its name extends the topic's")
    _add_owner(add, "whose sub-topic (default: the node's own)")
    versions = _action(
        actions, command, "log", "list the versions of a topic", "vinecast topic log sports --owner KEY"
    )
    _add_owner(versions, "whose topic (default: the node's own)")
    fork = _action(
        actions,
        command,
        "fork",
        "start a topic of one's own from another's, with its history",
        "vinecast topic fork sports --owner KEY",
    )
    fork.add_argument("--as", dest="other", default="", metavar="NAME", help="another name for it")
    _add_owner(fork, "whose topic", required=True)
    hand_on = _action(
        actions,
        command,
        "hand-on",
        "let another key speak for a topic; its node takes it over. There is no way back",
        "vinecast topic hand-on sports KEY",
    )
    hand_on.add_argument(
        "other", metavar="NEW_OWNER_KEY", help="the new owner's key, in hex: 'key' in its vinecast stats"
    )
    take_over = _action(
        actions,
        command,
        "take-over",
        "speak for a topic that was handed on to this node",
        "vinecast topic take-over sports --owner KEY",
    )
    _add_owner(take_over, "who created the topic", required=True)


def _action(actions: Any, command: Command, name: str, about: str, example: str) -> argparse.ArgumentParser:
    parser = command(actions, name, run, about, example)
    parser.set_defaults(action=name)
    parser.add_argument("name", metavar="TOPIC")
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", help="of the running node (default: the one in your home)"
    )
    return parser


def _add_owner(parser: argparse.ArgumentParser, about: str, required: bool = False) -> None:
    parser.add_argument("--owner", default="", required=required, metavar="KEY", help=f"{about}, in hex")


def run(arguments: argparse.Namespace) -> int:
    """Any of the actions."""
    given = {"owner": getattr(arguments, "owner", "").lower(), "other": getattr(arguments, "other", "")}
    given["metadata"] = dict(getattr(arguments, "meta", []))
    with open_client(arguments.folder) as client:
        found = client.topic(arguments.action, arguments.name, **given)
    if arguments.json:
        print_json(found)
        return 0
    rows: list[tuple[str, ...]]
    if isinstance(found, list):
        columns: tuple[str, ...] = ("created", "topic", "owner", "version")
        rows = [(one["created"], plain(one["name"]), one["owner"][:16], one["id"]) for one in found]
    else:
        columns = ("what", "value")
        rows = [(key, _shown(value)) for key, value in found.items() if value]
    print_table(columns, rows, f"vinecast topic {arguments.action} {arguments.name}")
    return 0


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(plain(f"{key} = {one}") for key, one in value.items())
    return plain(str(value))
