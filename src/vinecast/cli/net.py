"""``vinecast net``: a local network with a live view."""

import argparse
import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vinecast.cli.net_report import conclusion
from vinecast.cli.net_simulated import compare
from vinecast.cli.net_view import view_of
from vinecast.cli.output import make_console, print_json, progress
from vinecast.cli.stopping import stop_on_signals
from vinecast.cli.values import positive, seed, setting
from vinecast.core.errors import InputError

if TYPE_CHECKING:
    from vinecast.lab.localnet.network import LocalNetwork

LOOK_S = 0.25
"""Seconds between two looks."""

SIMULATIONS = 3
"""Simulations that a live network is compared with (ours): enough to see how far chance goes."""

Command = Callable[..., argparse.ArgumentParser]


def add_net(commands: Any, command: Command) -> None:
    """``vinecast net``."""
    parser = command(
        commands,
        "net",
        net,
        "run a local network of live nodes and watch it",
        "vinecast net 25 --system vitis --churn --seconds 60",
    )
    parser.add_argument("nodes", type=positive, metavar="N", help="how many nodes")
    parser.add_argument(
        "--process-nodes",
        type=positive,
        default=25,
        metavar="N",
        help="nodes that share a process (default: %(default)s)",
    )
    parser.add_argument(
        "--system",
        metavar="NAME",
        help="what carries events, such as pulsarcast; an unknown name lists all (default: poldercast)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        type=setting,
        metavar="KEY=VALUE",
        help="any setting of the nodes, such as --set vitis.table_size=10; can be repeated",
    )
    _add_load(parser)
    _add_events(parser)
    parser.add_argument(
        "--compare",
        action="store_true",
        help="afterwards simulate the same network: same ids, subscriptions, starts and publications",
    )
    parser.add_argument(
        "--simulations",
        type=positive,
        default=SIMULATIONS,
        metavar="N",
        help="for --compare: how many times, each with other draws (default: %(default)s)",
    )
    parser.add_argument(
        "--trace",
        type=Path,
        metavar="DIR",
        help="write down all that nodes publish, send, receive, deliver and drop, in files in this folder",
    )
    parser.add_argument(
        "--record",
        type=Path,
        metavar="DIR",
        help="record all that nodes are handed, in folders in this one, and replay it afterwards",
    )
    parser.add_argument("--seed", type=seed, default=1, metavar="N", help="default: %(default)s")


def _add_load(parser: argparse.ArgumentParser) -> None:
    """What the nodes subscribe to and publish."""
    parser.add_argument("--topics", type=positive, default=10, metavar="N", help="default: %(default)s")
    parser.add_argument(
        "--subscriptions", type=positive, metavar="N", help="topics a node (default: 4, or all if fewer)"
    )
    parser.add_argument(
        "--period",
        type=float,
        default=0.5,
        metavar="SECONDS",
        help="between two rounds of gossip (default: %(default)s)",
    )
    parser.add_argument(
        "--rate", type=float, default=5.0, metavar="N", help="events a second (default: %(default)s)"
    )
    parser.add_argument(
        "--latency",
        type=float,
        default=0.0,
        metavar="MS",
        help="what messages take between nodes: half to one and a half times as long, by pair (default: 0)",
    )


def _add_events(parser: argparse.ArgumentParser) -> None:
    """What happens to the network, and for how long."""
    parser.add_argument(
        "--churn",
        type=float,
        nargs="?",
        const=0.5,
        default=0.0,
        metavar="SHARE",
        help="let this share of the nodes leave each minute and come back (default: none; 0.5 if not said)",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help="how long to publish, once all nodes are ready (default: until Ctrl-C)",
    )
    parser.add_argument(
        "--kill",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="kill this share of the processes while the others publish, and start them again later",
    )
    parser.add_argument(
        "--hostile",
        action="store_true",
        help="attack some of the nodes in every way we know while all publish; ends when that is over",
    )
    parser.add_argument(
        "--overload",
        action="store_true",
        help="publish ten times faster than a reader reads, then faster than the network carries; "
        "ends when that is over",
    )


def net(arguments: argparse.Namespace) -> int:
    from vinecast.lab.localnet.config import NetConfig
    from vinecast.node.api.settings import resolve
    from vinecast.node.runtime.loop import run

    if arguments.seconds is not None and not 0 <= arguments.seconds < 1e9:
        raise InputError(f"--seconds must be a number of seconds, not {arguments.seconds}")
    options = {} if arguments.system is None else {"system": arguments.system}
    config = NetConfig(
        given=resolve(None, {}, options, arguments.set).config,
        nodes=arguments.nodes,
        topics=arguments.topics,
        subscriptions=arguments.subscriptions or min(4, arguments.topics),
        period_s=arguments.period,
        rate=arguments.rate,
        churn=arguments.churn,
        kill=arguments.kill,
        hostile=arguments.hostile,
        overload=arguments.overload,
        process_nodes=arguments.process_nodes,
        seed=arguments.seed,
        latency_ms=arguments.latency,
        trace=str(arguments.trace.absolute()) if arguments.trace is not None else "",
        record=str(arguments.record.absolute()) if arguments.record is not None else "",
    )
    if arguments.compare and (config.churn or config.kill or config.hostile or config.overload):
        raise InputError(
            "--compare is for a network that nobody leaves and nothing happens to: "
            "without --churn, --kill, --hostile and --overload"
        )
    from vinecast.node.runtime.logs import set_up_logging

    set_up_logging()
    summary, network = run(_net(config, arguments.seconds, arguments.json))
    if arguments.compare:
        summary["simulated"] = compare(network, arguments.simulations)
    if config.record and not summary["trouble"]:
        summary["replayed"] = _replay(config.record, config.nodes)
        summary["trouble"] += summary["replayed"]["different"]
    if arguments.json:
        print_json(summary)
    else:
        make_console().print(conclusion(summary), highlight=False, markup=False, soft_wrap=True)
    return 1 if summary["trouble"] else 0


async def _net(config: Any, seconds: float | None, as_json: bool) -> "tuple[dict[str, Any], LocalNetwork]":
    from vinecast.lab.localnet.network import LocalNetwork

    async with LocalNetwork(config) as network:
        with stop_on_signals(network.kill) as stop, view_of(network, as_json) as view:
            starting = asyncio.create_task(network.start(view.say))
            stopping = asyncio.create_task(stop.wait())
            end: float | None = None
            while not stop.is_set():
                if starting.done():
                    starting.result()
                    if seconds is not None and end is None and network.started.is_set():
                        end = time.monotonic() + seconds
                over = end is not None and time.monotonic() >= end
                if network.scenario is not None and network.scenario.done.is_set():
                    over = over or seconds is None or network.crash is None
                elif network.crash is not None:  # it is never cut short
                    over = False
                if over or network.is_dead:
                    break
                view.look()
                await asyncio.wait([stopping], timeout=LOOK_S)
            view.say("leaving")
            if not starting.done():
                starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            stopping.cancel()
            await network.settle()
            view.look()
            summary = network.summary()
    return summary, network


def _replay(folder: str, nodes: int) -> dict[str, Any]:
    """What comes of the records of all nodes."""
    from vinecast.lab.localnet.replays import replay_all

    with progress("replay", nodes) as tell:
        return replay_all(folder, nodes, lambda done: tell(done, f"{done} of {nodes} nodes"))
