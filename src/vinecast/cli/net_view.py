"""What ``vinecast net`` shows while it runs."""

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from vinecast.lab.localnet.network import LocalNetwork

LINE_S = 2.0
"""Seconds between two lines where there is no terminal."""


class _LineView:
    """The view where there is no terminal: a line now and then."""

    def __init__(self, network: "LocalNetwork", to_errors: bool) -> None:
        self._network, self._last, self._told = network, 0.0, 0
        self._stream = sys.stderr if to_errors else sys.stdout

    def __enter__(self) -> "_LineView":
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
    """Redraws the state of a local network on a terminal."""

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


def view_of(network: "LocalNetwork", as_json: bool) -> _LineView | _Live:
    return _Live(network) if sys.stderr.isatty() and sys.stdout.isatty() else _LineView(network, as_json)


def _facts(network: "LocalNetwork") -> list[tuple[str, str]]:
    """What is worth knowing, in words."""
    tally, found = network.tally, network.tally.meter.measures()
    complete, rings, right, links = tally.rings()
    share = f"{found['hit_ratio']:.2%}" if found["due"] else "–"
    resident = sum(report.resident_bytes for report in tally.reports.values()) / 1e6
    events = found["published"] + tally.on_their_way
    facts = [
        ("nodes up", f"{len(tally.up)}/{network.config.nodes}"),
        ("rings complete", f"{complete}/{rings} (links {right}/{links})")
        if network.config.has_rings
        else ("ready", f"{sum(member.ready for member in tally.up)}/{len(tally.up)}"),
        ("events", f"{events:,} ({events / max(network.publishing_s, 1.0):.1f}/s)"),
        ("deliveries", f"{found['hits']:,}/{found['due']:,} expected ({share})"),
        ("hops", f"{found['hops_mean'] or 0:.2f}"),
        ("duplication", f"{found['duplication'] or 0:.2f}"),
        ("memory", f"{resident:.0f} MB, {resident / network.config.nodes:.1f} a node"),
    ]
    if network.config.churn:
        facts.insert(1, ("left/came back", f"{tally.left}/{tally.came_back}"))
    if network.scenario is not None and network.scenario.doing:
        facts.append((network.scenario.NAME, network.scenario.doing))
    return facts


def _table(network: "LocalNetwork", doing: str) -> "Table":
    from rich.table import Table
    from rich.text import Text

    config = network.config
    nodes = f"{config.nodes} nodes of {config.given.system}"
    title = f"{nodes} · {config.topics} topics · {config.subscriptions} each"
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
            Text("now"), Text(doing if not network.all_up or doing == "leaving" else "getting ready")
        )
    elif network.addresses():
        join = f"vinecast sub topic/0 --network {config.network} --join {network.addresses()[0]}"
        if not config.has_rings:
            join = f"VINECAST_NODE_SYSTEM={config.given.system} {join}"
        table.add_row(Text("take part"), Text(join))
    for text in network.trouble[-3:]:
        table.add_row(Text("trouble"), Text(text, style="red"))
    return table
