"""What ``vinecast net`` says in the end."""

from typing import Any

from vinecast.cli.net_simulated import about_comparison

NEXT = (
    "Try next:",
    "  vinecast net 50 --churn                       nodes come and go",
    "  vinecast net 10 --hostile                     somebody attacks them",
    "  vinecast node --listen 127.0.0.1:7000         a node of your own; then, in other terminals:",
    "  vinecast sub sports/tennis",
    "  vinecast pub sports/tennis 15:0",
)


def conclusion(summary: dict[str, Any]) -> str:
    """A summary in words."""
    due, got = summary["deliveries"]["expected"], summary["deliveries"]["got"]
    nodes, complete, rings = summary["nodes"], summary["rings"]["complete"], summary["rings"]["of"]
    cpu_s, memory, found = summary["cpu_s"] / nodes, summary["resident_mb_per_node"], summary["measures"]
    lines = [
        f"{summary['up']} of {nodes} nodes of {summary['system']} were up"
        f"{f', {complete} of {rings} rings complete' if rings else ''}.",
        f"{summary['events']:,} events: {got:,} of {due:,} expected deliveries, "
        f"{found['hops_mean'] or 0:.2f} hops, duplication {found['duplication'] or 0:.2f}.",
        f"They took {found['latency_ms_mean'] or 0:.1f} ms, 99 of 100 at most "
        f"{found['latency_ms_p99'] or 0:.1f}; {found['traffic_overhead'] or 0:.1%} of the messages with "
        "events went to nodes that did not want them.",
        f"A node sent {found['control_messages'] or 0:.1f} other messages a cycle, "
        f"{(found['control_bytes'] or 0) / 1000:.1f} kB.",
        f"A node took {memory:.1f} MB of memory and {cpu_s:.2f} s of CPU.",
        *_about_crash(summary.get("crash")),
        *_about_attacks(summary.get("hostile")),
        *_about_overload(summary.get("overload")),
        *about_comparison(summary),
        *_about_replay(summary.get("replayed")),
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


def _about_replay(replayed: dict[str, Any] | None) -> list[str]:
    if replayed is None:
        return []
    if not replayed["nodes"]:
        return ["Replayed: nothing, since the network ended before any node was recorded."]
    cut = f"; {replayed['cut_off']} records are cut off" if replayed["cut_off"] else ""
    return [
        f"Replayed: of {replayed['same']} of {replayed['nodes']} nodes the same comes out, bit for bit "
        f"({replayed['inputs']:,} inputs in {replayed['runs']} runs){cut}."
    ]


def _about_attacks(hostile: dict[str, Any] | None) -> list[str]:
    if hostile is None:
        return []
    during, after = hostile["deliveries"], hostile["deliveries_afterwards"]
    nodes = ", ".join(map(str, hostile["attacked_nodes"])) or "none"
    return [
        "",
        f"Attacked{'' if hostile['finished'] else ', not to the end'} (nodes: {nodes}):",
        *(line for attack in hostile["attacks"] for line in _about_attack(attack)),
        f"Meanwhile {_deliveries(during)}, afterwards {_deliveries(after)}.",
        f"The attacked process held {_memory(hostile['resident_mb'])}.",
    ]


def _about_attack(attack: dict[str, Any]) -> list[str]:
    refused = sorted(attack["refused"].items(), key=lambda item: (-item[1], item[0]))
    return [
        f"  {attack['kind']}: {attack['tried']:,} tried in {attack['seconds']:.1f} s, "
        f"{_deliveries(attack['deliveries'])} meanwhile",
        *(f"    {count:,} × {reason}" for reason, count in refused),
    ]


def _about_overload(overload: dict[str, Any] | None) -> list[str]:
    if overload is None:
        return []
    return [
        "",
        f"Node {overload['reader']} read at most {overload['reads_per_s_max']:g} events a second, "
        f"{overload['waiting_max']} could wait; node {overload['publisher']} published"
        f"{'' if overload['finished'] else ', not to the end'}:",
        *(line for step in overload["steps"] for line in _about_step(step)),
        f"All processes held {_memory(overload['resident_mb'])}.",
    ]


def _about_step(step: dict[str, Any]) -> list[str]:
    dropped = ", ".join(f"{count:,} dropped ({reason})" for reason, count in step["dropped"].items())
    sums = "nothing else" if not step["unaccounted"] else f"{step['unaccounted']:,} unaccounted for"
    return [
        f"  {step['step']}: {step['published']:,} events, {step['published_per_s']:,} a second; "
        f"{step['refused_to_the_publisher']:,} more were refused to the publisher",
        f"    due {step['due']:,} = {step['delivered']:,} delivered, {dropped}, {sums}",
    ]


def _deliveries(counted: dict[str, int]) -> str:
    return f"{counted['got']:,} of {counted['expected']:,} deliveries"


def _memory(resident_mb: dict[str, float]) -> str:
    before, highest, after = (resident_mb[key] for key in ("before", "highest", "after"))
    return f"{before:.1f} MB of memory before, {highest:.1f} at most, {after:.1f} after"
