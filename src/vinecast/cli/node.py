"""``vinecast node``; and what can be typed after ``pub``, ``sub``, ``log``, ``peers``, ``stats``
(``cli/events``)."""

import argparse
import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vinecast.cli.access import join_trouble, until_joined
from vinecast.cli.content import add_content_options
from vinecast.cli.events import log, peers, pub, stats, sub
from vinecast.cli.output import complain, patience, print_json
from vinecast.cli.stopping import stop_on_signals
from vinecast.cli.values import pair, positive, setting

if TYPE_CHECKING:
    from vinecast.node.api.node import Node
    from vinecast.node.api.settings import Settings
    from vinecast.node.api.subscription import Subscription

Command = Callable[..., argparse.ArgumentParser]


def add_node(commands: Any, command: Command) -> None:
    """The commands of a live node."""
    _add_node(commands, command)
    _add_pub(commands, command)
    _add_sub(commands, command)
    _add_log(commands, command)
    peers_parser = command(
        commands, "peers", peers, "list the peers that a node knows", "vinecast peers --folder mynode"
    )
    _add_access(peers_parser)
    stats_parser = command(commands, "stats", stats, "show a node in numbers", "vinecast stats --json")
    _add_access(stats_parser)


def _add_node(commands: Any, command: Command) -> None:
    parser = command(
        commands,
        "node",
        node,
        "run a node until Ctrl-C or SIGTERM",
        "vinecast node --listen 0.0.0.0:7000 --join 192.0.2.7:7000 --subscribe sports/#",
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help="default: 127.0.0.1 and any free port")
    parser.add_argument("--advertise", metavar="HOST:PORT", help="where others reach it, if not there")
    parser.add_argument("--join", nargs="+", action="extend", metavar="HOST:PORT", help="nodes to begin with")
    parser.add_argument(
        "--folder",
        metavar="DIR",
        help="keeps identity, subscriptions and peers; '' keeps nothing (default: one in your home)",
    )
    parser.add_argument("--network", metavar="NAME", help="only nodes of the same network talk to each other")
    parser.add_argument(
        "--subscribe", nargs="+", action="extend", metavar="TOPIC", help="take part in these from the start"
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings, a TOML file")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        type=setting,
        metavar="KEY=VALUE",
        help="any setting, such as --set period_s=0.5; can be repeated",
    )
    parser.add_argument(
        "--print-config", action="store_true", help="print the settings as TOML and do nothing else"
    )
    _add_verbose(parser)


def _add_pub(commands: Any, command: Command) -> None:
    parser = command(
        commands,
        "pub",
        pub,
        "publish a message, or each line of the input",
        "vinecast pub sports/tennis 15:0",
    )
    parser.add_argument("topic", nargs="?", metavar="TOPIC", help="not with --schema")
    parser.add_argument(
        "message",
        nargs="*",
        metavar="MESSAGE",
        help="'-' or none: lines of standard input; with --schema: price=9.5 order=buy, or a JSON object",
    )
    add_content_options(parser)
    parser.add_argument(
        "--header", action="append", default=[], type=pair, metavar="KEY=VALUE", help="can be repeated"
    )
    parser.add_argument(
        "--volatile", action="store_true", help="not part of the topic's stream: sent once, kept by nobody"
    )
    _add_access(parser)


def _add_sub(commands: Any, command: Command) -> None:
    parser = command(
        commands,
        "sub",
        sub,
        "print the events of topics until Ctrl-C",
        "vinecast sub sports/# news/today --from earliest --json",
    )
    parser.add_argument(
        "topics", nargs="*", metavar="TOPIC", help="a topic, or a pattern: sports/#, +/tennis"
    )
    add_content_options(parser)
    parser.add_argument(
        "--where",
        metavar="FILTER",
        help="of a schema, only events that match, such as 'price < 10 and order = \"buy\"'",
    )
    parser.add_argument("--count", type=positive, metavar="N", help="stop after so many events")
    parser.add_argument(
        "--from",
        dest="start",
        type=_start,
        default="now",
        metavar="START",
        help="now, earliest, or after the event with this offset or id (default: now)",
    )
    parser.add_argument(
        "--consumer", metavar="NAME", help="go on where this consumer ended; what was printed counts as done"
    )
    _add_access(parser)


def _add_log(commands: Any, command: Command) -> None:
    parser = command(
        commands,
        "log",
        log,
        "print a topic's stream, in the order that all nodes share",
        "vinecast log sports/tennis -n 20",
    )
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("-n", dest="last", type=positive, metavar="N", help="only the last so many events")
    _add_access(parser)


def _add_access(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", help="of the running node (default: the one in your home)"
    )
    parser.add_argument(
        "--join", nargs="+", action="extend", metavar="HOST:PORT", help="join a network instead, there"
    )
    parser.add_argument("--network", metavar="NAME", help="which network to join")
    _add_verbose(parser)


def _add_verbose(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--verbose", "-v", action="count", default=0, help="log what happens; twice: everything"
    )


def _start(text: str) -> str | int:
    return int(text) if text.isdecimal() else text


# --- node ------------------------------------------------------------------------------------------------


def node(arguments: argparse.Namespace) -> int:
    from vinecast.node.api.settings import resolve, to_toml
    from vinecast.node.runtime.logs import set_up_logging
    from vinecast.node.runtime.loop import run

    names = ("listen", "advertise", "join", "folder", "network", "subscribe")
    options = {name: getattr(arguments, name) for name in names}
    settings = resolve(arguments.config, os.environ, options, arguments.set)
    if arguments.print_config:
        if arguments.json:
            from vinecast.core.config import as_table

            print_json(as_table(settings))
        else:
            print(to_toml(settings), end="")  # noqa: T201
        return 0
    set_up_logging(arguments.verbose)
    from vinecast.node.runtime.warm_up import warm_up

    with patience("compiling rules, once …"):
        warm_up(settings.config)
    return run(_run_node(settings, arguments.json))


async def _run_node(settings: "Settings", as_json: bool) -> int:
    from vinecast.node.api.control_service import ControlService
    from vinecast.node.api.node import Node
    from vinecast.node.control.server import ControlServer

    folder = Path(settings.folder) if settings.folder else None
    live = Node(
        settings.listen,
        settings.join,
        folder,
        settings.network,
        settings.config,
        advertise=settings.advertise,
    )
    with stop_on_signals() as stop:
        async with live, asyncio.TaskGroup() as background:
            control = ControlServer(ControlService(live), folder) if folder is not None else None
            if control is not None:
                await control.start()
            subscriptions = [live.subscribe(topic) for topic in settings.subscribe]
            readers = [background.create_task(_read_on(one)) for one in subscriptions]
            readers.append(background.create_task(_tell_join_trouble(live, settings)))
            about = {
                "id": live.id.hex(),
                "address": live.address,
                "network": settings.network,
                "folder": settings.folder,
            }
            if as_json:
                print(json.dumps(about), flush=True)  # noqa: T201
            else:
                where = f", folder {settings.folder}" if settings.folder else ", nothing is kept"
                print(f"listening on {live.address} (network {settings.network}{where})", flush=True)  # noqa: T201
            await stop.wait()
            if not as_json:
                print("leaving", flush=True)  # noqa: T201
            for task in readers:
                task.cancel()
            if control is not None:
                await control.close()
    return 0


async def _read_on(subscription: "Subscription") -> None:
    """Take part in a topic: somebody has to read what comes."""
    async for _ in subscription:
        pass


async def _tell_join_trouble(live: "Node", settings: "Settings") -> None:
    """Say once that nobody is where the node should join; it goes on trying."""
    if settings.join and not await until_joined(live, settings.join):
        complain(f"{join_trouble(live, settings.join)}; trying on")
