"""``vinecast pub``, ``sub``, ``log``, ``peers`` and ``stats``."""

import argparse
import json
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from vinecast.cli.access import Access, open_access
from vinecast.cli.content import publish_values, stream_matching, words_of
from vinecast.cli.output import complain, make_console, plain, print_json, print_table
from vinecast.cli.stopping import Stopped, stopped_by_sigterm
from vinecast.core.errors import InputError


def pub(arguments: argparse.Namespace) -> int:
    topic, words = _what_to_publish(arguments)
    headers = dict(arguments.header)
    one = words not in ([], ["-"])
    published = unheard = 0
    with open_access(arguments, topic) as access:
        if arguments.schema is not None:
            said = iter([words]) if one else map(words_of, _lines())
            receipts = (publish_values(access, arguments, each, headers) for each in said)
        else:
            payloads = iter([words[0].encode()]) if one else _lines()
            receipts = (access.publish(topic, each, headers, not arguments.volatile) for each in payloads)
        for receipt in receipts:
            published += 1
            unheard += receipt["neighbours"] == receipt["holders"] == 0
            if arguments.json:
                _print(json.dumps(receipt))
            elif one:
                held = "" if arguments.volatile else f", held by {_counted(receipt['holders'], 'other node')}"
                _print(f"{receipt['id']} · handed to {_counted(receipt['neighbours'], 'neighbour')}{held}")
    if not one and not arguments.json:
        _print(f"{_counted(published, 'event')} published")
    if arguments.join and unheard:  # nobody but its neighbours could have had it
        complain(f"nobody took {unheard} of {_counted(published, 'event')}: no subscriber was found")
        return 1
    return 0


def _what_to_publish(arguments: argparse.Namespace) -> tuple[str, list[str]]:
    """Where, and what: a message or none, or the values of an event."""
    words = [*([] if arguments.topic is None else [arguments.topic]), *arguments.message]
    if arguments.schema is not None:
        return arguments.schema, words
    if arguments.owner:
        raise InputError("--owner goes with --schema")
    if not words:
        raise InputError("the following arguments are required: TOPIC, or --schema")
    if len(words) > 2:
        raise InputError("a message is one word: put it in quotes")
    return words[0], words[1:]


def _lines() -> Iterator[bytes]:
    """The lines of standard input, as they come."""
    for line in sys.stdin.buffer:
        yield line.rstrip(b"\r\n")


def sub(arguments: argparse.Namespace) -> int:
    if arguments.schema is None and (arguments.owner or arguments.where is not None):
        raise InputError("--owner and --where go with --schema")
    if not arguments.topics and arguments.schema is None:
        raise InputError("the following arguments are required: TOPIC, or --schema")
    if arguments.topics and arguments.schema is not None:
        raise InputError("name topics, or a schema, and not both")
    wanted = arguments.topics or [arguments.schema]
    try:
        with stopped_by_sigterm(), open_access(arguments, *wanted) as access:
            return _print_events(access, arguments)
    except (KeyboardInterrupt, Stopped):  # the usual way to end it
        return 0


def _print_events(access: Access, arguments: argparse.Namespace) -> int:
    left = arguments.count
    if arguments.schema is not None:
        stream = stream_matching(access, arguments)
    else:
        stream = access.stream(arguments.topics, arguments.start, arguments.consumer)
    for news in stream:
        if "error" in news:
            complain(news["error"])
        if "ready" in news and not arguments.json:
            print("ready", file=sys.stderr, flush=True)  # noqa: T201
        if "dropped" in news:
            complain(f"{_counted(news['dropped'], 'event')} dropped: this reader is too slow")
        if "event" in news:
            event = news["event"]
            _print(_as_json(event) if arguments.json else _shown(event))
            if arguments.consumer is not None and event["offset"]:
                access.ack(event["topic"], event["offset"])
            left = left and left - 1
            if left == 0:
                return 0
    complain("the node has left")
    return 1


def log(arguments: argparse.Namespace) -> int:
    from vinecast.peer.topics import check_topic

    check_topic(arguments.topic)
    with open_access(arguments, arguments.topic) as access:
        found: Iterable[dict[str, Any]] = access.log(arguments.topic)
        for event in found if arguments.last is None else deque(found, maxlen=arguments.last):
            _print(_as_json(event) if arguments.json else f"{event['time']} {_shown(event)}")
    return 0


def peers(arguments: argparse.Namespace) -> int:
    with open_access(arguments) as access:
        found = access.peers()
    if arguments.json:
        print_json(found)
        return 0
    rows = [
        (peer["id"][:16], peer["address"], "yes" if peer["connected"] else "no", _listed(peer["topics"]))
        for peer in found
    ]
    print_table(("peer", "address", "connected", "topics"), rows, f"{_counted(len(rows), 'peer')}")
    return 0


def stats(arguments: argparse.Namespace) -> int:
    with open_access(arguments) as access:
        found = access.stats()
    if arguments.json:
        print_json(found)
        return 0
    counters, regularity = found.pop("counters"), found.pop("regularity", None)
    rows = [(key.replace("_", " "), str(value)) for key, value in {**found, **counters}.items()]
    print_table(("what", "value"), rows, "vinecast stats")
    if regularity is not None:
        make_console().print("\n".join(pattern_lines(regularity)), highlight=False, markup=False)
    return 0


def pattern_lines(told: dict[str, Any]) -> list[str]:
    """When a node is on line, as a picture: a column an hour, and a mark under those it is regular in."""
    shares, regular, a_day = told["shares"], told["regular"], 86_400 // told["slot_s"]
    days = [range(first, first + a_day) for first in range(0, len(shares), a_day)]
    names = [""]
    if len(days) == len(WEEK):
        days, names = [*days[EPOCH:], *days[:EPOCH]], list(WEEK)
    lines = [f"On line by the hour (UTC, from 0 to 23); ^ for more than {told['threshold']} %:"]
    for name, slots in zip(names, days, strict=True):
        bars = "".join("·" if shares[i] is None else BARS[round(shares[i] * (len(BARS) - 1))] for i in slots)
        lines += [f"{name:>4} {bars}", f"     {''.join('^' if regular[i] else ' ' for i in slots)}".rstrip()]
    return lines


WEEK = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
EPOCH = 4
"""Weeks are counted from 1970, which began on a Thursday: so many days later is a Monday."""
BARS = " ▁▂▃▄▅▆▇█"


def _shown(event: dict[str, Any]) -> str:
    """An event on one line; whatever a stranger put into it cannot play with the terminal."""
    text = event.get("text")
    if text is None:
        text = f"base64:{event['data']}"
    return f"{plain(event['topic'])} {plain(text)}"


def _as_json(value: object) -> str:
    """On one line, with nothing in it that a terminal might obey."""
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value, ensure_ascii=True)


def _listed(topics: list[str], most: int = 5) -> str:
    more = f", … ({len(topics)})" if len(topics) > most else ""
    return ", ".join(map(plain, topics[:most])) + more


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _print(text: str) -> None:
    print(text, flush=True)  # noqa: T201
