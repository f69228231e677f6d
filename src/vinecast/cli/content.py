"""``vinecast schema``, and events of schemas in ``vinecast pub`` and ``sub``."""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from vinecast.cli.access import Access, open_client
from vinecast.cli.output import plain, print_json, print_table
from vinecast.core.errors import InputError

Command = Callable[..., argparse.ArgumentParser]


def add_schema(commands: Any, command: Command) -> None:
    """The command and its actions. They speak to a node that runs here, with its key."""
    schema = commands.add_parser(
        "schema",
        help="describe what events look like",
        description="Describe what events look like, so that others can filter them by content.",
        epilog="example: vinecast schema create stocks 'price number 0..1000, order string'",
    )
    actions = schema.add_subparsers(title="actions", metavar="ACTION", required=True)
    create = _action(
        actions,
        command,
        "create",
        "create a schema, and the topic that it belongs to",
        "vinecast schema create stocks 'price number 0..1000, order string'",
    )
    create.add_argument(
        "text",
        metavar="ATTRIBUTES",
        help="name, type (integer, number, time, string) and range of each, with commas between them",
    )
    create.add_argument("--about", default="", metavar="TEXT", help="what it is, in words")
    show = _action(actions, command, "show", "show a schema", "vinecast schema show stocks --owner KEY")
    show.add_argument(
        "--owner", default="", metavar="KEY", help="whose schema, in hex (default: the node's own)"
    )


def _action(actions: Any, command: Command, name: str, about: str, example: str) -> argparse.ArgumentParser:
    parser = command(actions, name, run, about, example)
    parser.set_defaults(action=name)
    parser.add_argument("name", metavar="SCHEMA")
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", help="of the running node (default: the one in your home)"
    )
    return parser


def add_content_options(parser: argparse.ArgumentParser) -> None:
    """What ``pub`` and ``sub`` take for events of a schema."""
    parser.add_argument("--schema", metavar="NAME", help="events of a schema instead of a topic's")
    parser.add_argument(
        "--owner", default="", metavar="KEY", help="whose schema, in hex (default: the node's own)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Either of the actions."""
    if arguments.action == "create":
        from vinecast.core.content.schemas_text import parse_schema

        parse_schema(arguments.name, arguments.text)  # to show the place where it is wrong
        given = {"text": arguments.text, "about": arguments.about}
    else:
        given = {"owner": arguments.owner.lower()}
    with open_client(arguments.folder) as client:
        found = client.schema(arguments.action, arguments.name, **given)
    if arguments.json:
        print_json(found)
        return 0
    shown = ("name", "schema", "owner", "created", "id", "expires")
    rows = [(key, plain(str(found[key]))) for key in shown if found.get(key)]
    if about := found["metadata"].get("about"):
        rows.insert(1, ("about", plain(str(about))))
    print_table(("what", "value"), rows, f"vinecast schema {arguments.action} {arguments.name}")
    return 0


def publish_values(
    access: Access, arguments: argparse.Namespace, words: Sequence[str], headers: dict[str, str]
) -> dict[str, Any]:
    """Publish an event of a schema: pairs such as ``price=9.5``, or one JSON object."""
    given: dict[str, Any]
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        given = {"values": _read_object(words[0])}
    else:
        given = {"pairs": list(words)}
    given |= {"owner": arguments.owner.lower(), "headers": headers, "durable": not arguments.volatile}
    return access.publish_content(arguments.schema, **given)


def words_of(line: bytes) -> list[str]:
    """A line of the input: one JSON object, or pairs with blanks between them."""
    text = line.decode(errors="replace")
    return [text] if text.lstrip().startswith("{") else text.split()


def stream_matching(access: Access, arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What a node says of a schema's events that match."""
    return access.stream_content(
        arguments.schema,
        owner=arguments.owner.lower(),
        where=arguments.where or "everything",
        start=arguments.start,
        consumer=arguments.consumer,
    )


def _read_object(text: str) -> dict[str, Any]:
    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not a number")

    try:
        found = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not a JSON object of values: {error}") from None
    for name, value in found.items():
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise InputError(f"the value of {name[:80]} must be a number or a string")
    return dict(found)
