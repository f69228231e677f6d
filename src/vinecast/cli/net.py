"""``vinecast net``: a local network with a live view."""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vinecast.cli.output import make_console, print_json
from vinecast.cli.stopping import stop_on_signals
from vinecast.cli.values import positive, seed
from vinecast.core.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from vinecast.node.net import LocalNetwork

LOOK_S = 0.25
LINE_S = 2.0
"""Seconds between two looks at a terminal, and between two lines elsewhere."""

NEXT = (
    "Try next:",
    "  vinecast net 50 --churn                       nodes come and go",
    "  vinecast node --listen 127.0.0.1:7000         a node of your own; then, in other terminals:",
    "  vinecast sub sports/tennis",
    "  vinecast pub sports/tennis 15:0",
)

Command = Callable[..., argparse.ArgumentParser]


def add_net(commands: Any, command: Command) -> None:
    """``vinecast net``."""
    parser = command(
        commands,
        "net",
        net,
        "run a local network of live nodes and watch it",
        "vinecast net 25 --churn --seconds 60",
    )
    parser.add_argument("nodes", type=positive, metavar="N", help="how many nodes")
    parser.add_argument(
        "--process-nodes",
        type=positive,
        default=25,
        metavar="N",
        help="nodes that share a process (default: %(default)s)",
    )
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
        help="how long to publish, once all rings are complete (default: until Ctrl-C)",
    )
    parser.add_argument(
        "--kill",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="kill this share of the processes while the others publish, and start them again later",
    )
    parser.add_argument(
        "--compare",
        action="store_true",
        help="afterwards simulate the same network: same ids, subscriptions and publications",
    )
    parser.add_argument("--seed", type=seed, default=1, metavar="N", help="default: %(default)s")


def net(arguments: argparse.Namespace) -> int:
    from vinecast.node.loop import run
    from vinecast.node.net import NetConfig

    if arguments.seconds is not None and not 0 <= arguments.seconds < 1e9:
        raise InputError(f"--seconds must be a number of seconds, not {arguments.seconds}")
    config = NetConfig(
        nodes=arguments.nodes,
        topics=arguments.topics,
        subscriptions=arguments.subscriptions or min(4, arguments.topics),
        period_s=arguments.period,
        rate=arguments.rate,
        churn=arguments.churn,
        kill=arguments.kill,
        process_nodes=arguments.process_nodes,
        seed=arguments.seed,
    )
    if arguments.compare and (config.churn or config.kill):
        raise InputError("--compare is for a network that nobody leaves: without --churn and --kill")
    from vinecast.node.logs import set_up_logging

    set_up_logging()
    summary, network = run(_net(config, arguments.seconds, arguments.json))
    if arguments.compare:
        summary["simulated"] = _twin(network, summary)
    if arguments.json:
        print_json(summary)
    else:
        make_console().print(_conclusion(summary), highlight=False, markup=False, soft_wrap=True)
    return 1 if summary["trouble"] else 0


async def _net(config: Any, seconds: float | None, as_json: bool) -> "tuple[dict[str, Any], LocalNetwork]":
    from vinecast.node.net import LocalNetwork

    async with LocalNetwork(config) as network:
        with stop_on_signals(network.kill) as stop, _view(network, as_json) as view:
            starting = asyncio.create_task(network.start(view.say))
            stopping = asyncio.create_task(stop.wait())
            end: float | None = None
            while not stop.is_set():
                if starting.done():
                    starting.result()
                    if seconds is not None and end is None and network.started.is_set():
                        end = time.monotonic() + seconds
                over = end is not None and time.monotonic() >= end
                if network.crash is not None:
                    over = network.crash.done.is_set() and (over or seconds is None)
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


def _twin(network: "LocalNetwork", summary: dict[str, Any]) -> dict[str, Any]:
    """What the simulator makes of the same network."""
    from dataclasses import asdict

    from vinecast.sim.twin import Publication, run_twin

    members, judged = network.tally.members, network.tally.judged
    begin_s = min((event.at_s for event in judged), default=0.0)
    outcome = run_twin(
        [member.point for member in members],
        [member.topics for member in members],
        [Publication(event.at_s - begin_s, event.publisher, event.topic) for event in judged],
        network.config.system.system,
        summary["latency_ms"],
        network.config.seed,
    )
    return asdict(outcome)


class _Lines:
    """The view where there is no terminal: a line now and then."""

    def __init__(self, network: "LocalNetwork", to_errors: bool) -> None:
        self._network, self._last, self._told = network, 0.0, 0
        self._stream = sys.stderr if to_errors else sys.stdout

    def __enter__(self) -> "_Lines":
        return self

    def __exit__(self, *failure: object) -> None:
        pass

    def say(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    def look(self) -> None:
        for text in self._network.trouble[self._told :]:
            self.say(f"trouble: {text}")
        self._told = len(self._network.trouble)
        if time.monotonic() - self._last >= LINE_S and self._network.tally.up:
            self._last = time.monotonic()
            self.say(" · ".join(f"{key} {value}" for key, value in _facts(self._network)))


class _Live:
    """The view on a terminal."""

    def __init__(self, network: "LocalNetwork") -> None:
        from rich.console import Console
        from rich.live import Live

        self._network, self._doing = network, ""
        self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=False)

    def __enter__(self) -> "_Live":
        self._live.__enter__()
        return self

    def __exit__(self, *failure: Any) -> None:
        self._live.__exit__(*failure)

    def say(self, text: str) -> None:
        self._doing = text
        self.look()

    def look(self) -> None:
        self._live.update(_table(self._network, self._doing), refresh=True)


def _view(network: "LocalNetwork", as_json: bool) -> _Lines | _Live:
    return _Live(network) if sys.stderr.isatty() and sys.stdout.isatty() else _Lines(network, as_json)


def _facts(network: "LocalNetwork") -> list[tuple[str, str]]:
    """What is worth knowing, in words."""
    tally, totals = network.tally, network.tally.totals
    complete, rings, right, links = tally.rings()
    share = f"{totals.got / totals.due:.2%}" if totals.due else "–"
    resident = sum(report.resident_bytes for report in tally.reports.values()) / 1e6
    events = totals.events + tally.on_their_way
    facts = [
        ("nodes up", f"{len(tally.up)}/{network.config.nodes}"),
        ("rings complete", f"{complete}/{rings} (links {right}/{links})"),
        ("events", f"{events:,} ({events / max(network.publishing_s, 1.0):.1f}/s)"),
        ("deliveries", f"{totals.got:,}/{totals.due:,} expected ({share})"),
        ("hops", f"{tally.hops_mean():.2f}"),
        ("duplication", f"{tally.duplication():.2f}"),
        ("memory", f"{resident:.0f} MB, {resident / network.config.nodes:.1f} a node"),
    ]
    if network.config.churn:
        facts.insert(1, ("left/came back", f"{tally.left}/{tally.came_back}"))
    return facts


def _table(network: "LocalNetwork", doing: str) -> "Table":
    from rich.table import Table
    from rich.text import Text

    config = network.config
    title = f"{config.nodes} nodes · {config.topics} topics · {config.subscriptions} each"
    table = Table(title=Text(title), show_header=False, min_width=64)
    for key, value in _facts(network):
        table.add_row(Text(key), Text(value))
    table.add_section()
    for event in network.tally.latest:
        style = "green" if event.got == event.due else "red"
        told = f"reached {event.got} of {event.due} subscribers, {event.hops_mean:.1f} hops"
        table.add_row(Text(f"event {event.number} on {event.topic}"), Text(told, style=style))
    if not network.started.is_set() or doing == "leaving":
        table.add_row(
            Text("now"), Text(doing if not network.all_up or doing == "leaving" else "closing rings")
        )
    elif network.addresses():
        join = f"vinecast sub topic/0 --network {config.network} --join {network.addresses()[0]}"
        table.add_row(Text("take part"), Text(join))
    for text in network.trouble[-3:]:
        table.add_row(Text("trouble"), Text(text, style="red"))
    return table


def _conclusion(summary: dict[str, Any]) -> str:
    due, got = summary["deliveries"]["expected"], summary["deliveries"]["got"]
    nodes, complete, rings = summary["nodes"], summary["rings"]["complete"], summary["rings"]["of"]
    cpu_s, memory = summary["cpu_s"] / nodes, summary["resident_mb_per_node"]
    lines = [
        f"{summary['up']} of {nodes} nodes were up, {complete} of {rings} rings complete.",
        f"{summary['events']:,} events: {got:,} of {due:,} expected deliveries, "
        f"{summary['hops_mean']:.2f} hops, duplication {summary['duplication']:.2f}.",
        f"A node took {memory:.1f} MB of memory and {cpu_s:.2f} s of CPU.",
        *_about_crash(summary.get("crash")),
        *_about_twin(summary),
        *(f"trouble: {text}" for text in summary["trouble"]),
        "",
        *NEXT,
    ]
    return "\n".join(lines)


def _about_crash(crash: dict[str, Any] | None) -> list[str]:
    if crash is None:
        return []
    killed = crash["killed"]
    return [
        f"{killed} nodes were killed: in the cycles without them the others got {crash['got']:,} of "
        f"{crash['due']:,} deliveries, and all of them from cycle {crash['whole_again_after_cycles']} on.",
        f"{crash['came_back']} of {killed} came back, {crash['with_their_identity']} with their identity, "
        f"{crash['with_their_subscriptions']} with their subscriptions; from then on "
        f"{crash['got_after_return']:,} of {crash['due_after_return']:,} deliveries.",
    ]


def _about_twin(summary: dict[str, Any]) -> list[str]:
    twin = summary.get("simulated")
    if twin is None:
        return []
    deliveries = summary["deliveries"]
    rows = [
        ("deliveries", *(f"{one['got']:,}/{one['expected']:,}" for one in (deliveries, twin)), ""),
        *(
            (name, f"{summary[key]:.3f}", f"{twin[key]:.3f}", f"{summary[key] / (twin[key] or 1) - 1:+.1%}")
            for name, key in (("hops", "hops_mean"), ("duplication", "duplication"))
        ),
    ]  # fmt: skip
    head = ("", "live", "simulated", "live against simulated")
    return ["", *("{:<12}{:>18}{:>18}{:>24}".format(*row).rstrip() for row in (head, *rows))]
