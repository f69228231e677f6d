"""``vinecast net --compare``: a live network beside simulations of it."""

from collections.abc import Sequence
from dataclasses import asdict
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from vinecast.cli.output import progress

if TYPE_CHECKING:
    from vinecast.lab.localnet.network import LocalNetwork
    from vinecast.node.transport.interface import TransportConfig
    from vinecast.sim.scenario.live_comparison import ComparedRun, SimulatedOutcome, WhoGotWhat

COMPARED = (
    ("hops", "hops_mean"),
    ("duplication", "duplication"),
    ("latency, ms", "latency_ms_mean"),
    ("traffic overhead", "traffic_overhead"),
    ("control messages", "control_messages"),
    ("control bytes", "control_bytes"),
)
"""Of a live network and its simulations: what it is called, and its name among the measures."""


def compare(network: "LocalNetwork", simulations: int) -> dict[str, Any]:
    """What the simulator makes of the same network: the first time with the network's seed, then with others;
    who got what, event by event, each time; and how far the simulations are from each other."""
    from vinecast.lab.localnet.tally import numbers_of
    from vinecast.sim.scenario.live_comparison import Recipients, run_comparison, who_got_what

    run, seed = _run_of(network), network.config.seed
    outcomes, compared = [], []
    live = [Recipients(numbers_of(one.due_at), numbers_of(one.got_by)) for one in network.tally.judged]
    with progress("simulation", simulations) as tell:
        for number in range(simulations):
            outcomes.append(run_comparison(run, seed, seed + number))
            compared.append(who_got_what(live, outcomes[-1].reached))
            tell(number + 1, f"{number + 1} of {simulations}")
    return told(outcomes, compared)


def _run_of(network: "LocalNetwork") -> "ComparedRun":
    """What can be had once more of a network that has ended."""
    from vinecast.lab.localnet.worker import PAYLOAD
    from vinecast.sim.scenario.live_comparison import JITTER, ComparedNode, ComparedRun, Publication

    tally, config = network.tally, network.config
    return ComparedRun(
        [ComparedNode(one.key, one.topics, one.up_s, one.contacts) for one in tally.members],
        [Publication(event.at_s, event.publisher, event.topic) for event in tally.judged],
        config.node,
        config.network,
        config.latency_ms or tally.meter.link_latency_ms,
        network.patience_s,
        network.ended_s,
        PAYLOAD,
        0.0 if config.latency_ms else JITTER,
        idle_close_s(config.node.transport),
    )


def idle_close_s(transport: "TransportConfig") -> float:
    """How long a connection of live nodes carries nothing until it is closed, in the mean. Each end looks at
    it now and then (``ConnectionTransport``), at times of its own, and finds it idle up to a pause late; the
    first of the two closes it."""
    pause_s = min(transport.heartbeat_s, transport.idle_s, transport.stalled_s_max) / 2
    return transport.idle_s + pause_s / 3


def told(outcomes: Sequence["SimulatedOutcome"], compared: Sequence["WhoGotWhat"]) -> dict[str, Any]:
    """Simulations in numbers: all of the first, and what the figures of all are."""
    first = asdict(outcomes[0])
    del first["reached"]
    return {
        **first,
        "who_got_what": [asdict(one) for one in compared],
        "deliveries": [{"expected": one.expected, "got": one.got} for one in outcomes],
        "spread": {key: _spread([one.measures[key] for one in outcomes]) for _, key in COMPARED},
    }


def _spread(values: Sequence[float | None]) -> dict[str, float] | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return {"mean": sum(known) / len(known), "lowest": min(known), "highest": max(known)}


def about_comparison(summary: dict[str, Any]) -> list[str]:
    """The same in words."""
    simulated = summary.get("simulated")
    if simulated is None:
        return []
    made = sorted(simulated["deliveries"], key=itemgetter("expected", "got"))
    times, live = len(made), _deliveries(summary["deliveries"])
    fewest, most = _deliveries(made[0]), _deliveries(made[-1])
    rows = [("deliveries", live, *((most, "") if fewest == most else ("", f"{fewest} … {most}")), "")]
    for name, key in COMPARED:
        found, spread = summary["measures"][key] or 0.0, simulated["spread"][key]
        mean, low, high = (spread[of] for of in ("mean", "lowest", "highest")) if spread else (0.0, 0.0, 0.0)
        against = f"{found / mean - 1:+.1%}" if mean else ""
        rows.append((name, f"{found:,.3f}", f"{mean:,.3f}", f"{low:,.3f} … {high:,.3f}", against))
    head = ("", "live", "simulated", f"in {times} simulations", "live against simulated")
    table = ("{:<16} {:>16} {:>16} {:>26} {:>23}".format(*row).rstrip() for row in (head, *rows))
    return ["", *table, *_about_events(simulated["who_got_what"])]


def _deliveries(made: dict[str, int]) -> str:
    return f"{made['got']:,}/{made['expected']:,}"


def _about_events(compared: Sequence[dict[str, Any]]) -> list[str]:
    """Who got what, event by event."""
    equal, left_out = ({one[key] for one in compared} for key in ("equal", "left_out"))
    times = f" in each of {len(compared)} simulations" if len(compared) > 1 else ""
    lines = [f"who got what: {_range(equal)} of {compared[0]['events']:,} events equal{times}"]
    if max(left_out):
        lines.append(
            f"  left out: {_range(left_out)} deliveries{times} that were due on one side alone, since the "
            "subscription was ready before the event there, and on the other side it was not"
        )
    if min(equal) < compared[0]["events"]:
        lines.append("  --json tells which events differ, and who got them on either side")
    return lines


def _range(numbers: set[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
