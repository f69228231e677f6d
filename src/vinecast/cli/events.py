"""``vinecast pub``, ``sub``, ``peers`` and ``stats``."""

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

from vinecast.cli.access import Access, open_access
from vinecast.cli.output import complain, print_json, print_table
from vinecast.cli.stopping import Stopped, stopped_by_sigterm


def pub(arguments: argparse.Namespace) -> int:
    headers = dict(arguments.header)
    one = arguments.message not in (None, "-")
    payloads = iter([arguments.message.encode()]) if one else _lines()
    published = unheard = 0
    with open_access(arguments, arguments.topic) as access:
        for payload in payloads:
            receipt = access.publish(arguments.topic, payload, headers)
            published += 1
            unheard += receipt["neighbours"] == 0
            if arguments.json:
                _print(json.dumps(receipt))
            elif one:
                _print(f"{receipt['id']} · handed to {_counted(receipt['neighbours'], 'neighbour')}")
    if not one and not arguments.json:
        _print(f"{_counted(published, 'event')} published")
    if arguments.join and unheard:  # nobody but its neighbours could have had it
        complain(f"nobody took {unheard} of {_counted(published, 'event')}: no subscriber was found")
        return 1
    return 0


def _lines() -> Iterator[bytes]:
    """The lines of standard input, as they come."""
    for line in sys.stdin.buffer:
        yield line.rstrip(b"\r\n")


def sub(arguments: argparse.Namespace) -> int:
    try:
        with stopped_by_sigterm(), open_access(arguments, *arguments.topics) as access:
            return _print_events(access, arguments)
    except (KeyboardInterrupt, Stopped):  # the usual way to end it
        return 0


def _print_events(access: Access, arguments: argparse.Namespace) -> int:
    left = arguments.count
    for news in access.stream(arguments.topics):
        if "ready" in news and not arguments.json:
            print("ready", file=sys.stderr, flush=True)  # noqa: T201
        if "dropped" in news:
            complain(f"{_counted(news['dropped'], 'event')} dropped: this reader is too slow")
        if "event" in news:
            event = news["event"]
            _print(json.dumps(event, ensure_ascii=False) if arguments.json else _shown(event))
            left = left and left - 1
            if left == 0:
                return 0
    complain("the node has left")
    return 1


def peers(arguments: argparse.Namespace) -> int:
    with open_access(arguments) as access:
        found = access.peers()
    if arguments.json:
        print_json(found)
        return 0
    rows = [
        (peer["id"][:16], peer["address"], "yes" if peer["linked"] else "no", _listed(peer["topics"]))
        for peer in found
    ]
    print_table(("peer", "address", "linked", "topics"), rows, f"{_counted(len(rows), 'peer')}")
    return 0


def stats(arguments: argparse.Namespace) -> int:
    with open_access(arguments) as access:
        found = access.stats()
    if arguments.json:
        print_json(found)
        return 0
    counters = found.pop("counters")
    rows = [(key.replace("_", " "), str(value)) for key, value in {**found, **counters}.items()]
    print_table(("what", "value"), rows, "vinecast stats")
    return 0


def _shown(event: dict[str, Any]) -> str:
    """An event on one line; whatever a stranger put into it cannot play with the terminal."""
    text = event.get("text")
    if text is None:
        text = f"base64:{event['data']}"
    return f"{event['topic']} {text if text.isprintable() else json.dumps(text, ensure_ascii=True)}"


def _listed(topics: list[str], most: int = 5) -> str:
    more = f", … ({len(topics)})" if len(topics) > most else ""
    return ", ".join(topics[:most]) + more


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _print(text: str) -> None:
    print(text, flush=True)  # noqa: T201
