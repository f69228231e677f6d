"""``vinecast replay``: the record of a node, had again."""

import argparse
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vinecast.cli.output import complain, patience, plain, print_json, print_table
from vinecast.core.errors import InputError

if TYPE_CHECKING:
    from vinecast.peer.record.replay import ReplayStep
    from vinecast.peer.record.segment import CutOffError, Place, SegmentHeader
    from vinecast.peer.record.summary import ReplaySummary

SHOWN_OUTPUTS = 5
"""Of an entry that differs, so many outputs are shown."""
PEERS_SHOWN = 8
DIGEST_SHOWN = 12

Command = Callable[..., argparse.ArgumentParser]


class Moment(NamedTuple):
    """Where in a record something is: an entry by its number, or a time since the first."""

    entry: int = 0
    seconds: float = 0.0
    is_time: bool = False

    def is_reached(self, entry: int, seconds: float) -> bool:
        """Whether an entry is there, or later."""
        return seconds >= self.seconds if self.is_time else entry >= self.entry

    def __str__(self) -> str:
        return f"{self.seconds:g}s" if self.is_time else str(self.entry)


def moment(text: str) -> Moment:
    """``1200``: the entry of this number; ``12.5s``: so many seconds after the first."""
    try:
        if text.endswith("s"):
            seconds = float(text[:-1])
            if 0 <= seconds < 1e12:
                return Moment(0, seconds, True)
        elif text.isascii() and text.isdecimal() and len(text) <= 15:
            return Moment(int(text))
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"'{text}' is neither an entry's number nor a time such as 12.5s")


def add_replay(commands: Any, command: Command) -> None:
    """``vinecast replay``."""
    parser = command(
        commands,
        "replay",
        replay,
        "have the record of a node again, and say whether the same comes out",
        "vinecast replay ~/.local/share/vinecast/node --step --from 61.5s --to 62s",
    )
    parser.add_argument(
        "folder",
        type=Path,
        metavar="FOLDER",
        help="a record (record_folder of a node), the folder of a node that has one, or one segment of it",
    )
    parser.add_argument("--step", action="store_true", help="show inputs and outputs one by one")
    parser.add_argument(
        "--from",
        dest="begin",
        type=moment,
        metavar="WHEN",
        help="show from there on: an entry's number, or a time since the first such as 12.5s",
    )
    parser.add_argument("--to", dest="end", type=moment, metavar="WHEN", help="show up to there")
    parser.add_argument(
        "--anyway", action="store_true", help="also what other code recorded, which may do otherwise"
    )


def replay(arguments: argparse.Namespace) -> int:
    """Exit code 0: the same comes out, bit for bit; 1: it does not."""
    from vinecast.node.runtime.recorder import code_digest
    from vinecast.node.storage.record_folder import read_segments
    from vinecast.peer.record import replay as pure

    _check_part(arguments)
    shown = _Shown(arguments)
    with patience("reading the record and compiling rules, which takes a while the first time …"):
        cut = pure.replay(read_segments(arguments.folder), None if arguments.anyway else code_digest(), shown)
    if arguments.json:
        print_json({**_as_dict(shown), "cut_off": None if cut is None else str(cut)})
    else:
        _show(shown.summary, arguments.folder, cut)
    if cut is not None:
        complain(f"{cut}; it was replayed up to there")
    return 1 if shown.summary.different else 0


def _check_part(arguments: argparse.Namespace) -> None:
    """InputError when the part that is to be shown makes no sense."""
    begin, end = arguments.begin, arguments.end
    if not arguments.step and (begin is not None or end is not None):
        raise InputError("--from and --to say which part --step shows: give it too, or leave them out")
    if begin is None or end is None or begin.is_time != end.is_time:
        return
    if (end.entry, end.seconds) < (begin.entry, begin.seconds):
        raise InputError(f"--to {end} is before --from {begin}: nothing is between them")


class _Shown:
    """Shows steps as they come, if that is asked for, and counts all."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        from vinecast.peer.record.summary import ReplaySummary

        self.summary = ReplaySummary()
        self.steps: list[dict[str, Any]] | None = [] if arguments.step else None
        self._as_json = arguments.json
        self._begin, self._end = arguments.begin or Moment(), arguments.end

    def began(self, header: "SegmentHeader") -> None:
        """See ``ReplayWatcher``."""
        self.summary.began(header)

    def ended(self, counted: "Counter[str]") -> None:
        """See ``ReplayWatcher``."""
        self.summary.ended(counted)

    def stepped(self, place: "Place", step: "ReplayStep") -> None:
        """See ``ReplayWatcher``."""
        self.summary.stepped(place, step)
        if self.steps is None:
            return
        seconds = self.summary.seconds
        late = self._end is not None and self._end.is_reached(place.entry, seconds)
        at_end = self._end is not None and not self._end.is_time and place.entry == self._end.entry
        if not self._begin.is_reached(place.entry, seconds) or (late and not at_end):
            return
        told = _step_as_dict(place, step, seconds)
        if self._as_json:
            self.steps.append(told)
            return
        same = "" if step.is_same else "   NOT THE SAME" + (f": {step.trouble}" if step.trouble else "")
        lines = [f"{place.entry:>8}  {seconds:12.6f} s  {told['input']}{same}"]
        lines += [f"{'':24}→ {output}" for output in told["outputs"]]
        print("\n".join(map(plain, lines)))  # noqa: T201


def _step_as_dict(place: "Place", step: "ReplayStep", seconds: float) -> dict[str, Any]:
    from vinecast.peer.record.words import input_in_words, output_in_words

    return {
        "entry": place.entry,
        "segment": place.segment,
        "seconds": seconds,
        "input": input_in_words(step.entry.what),
        "outputs": [output_in_words(output) for output in step.outputs],
        "same": step.is_same,
        "trouble": step.trouble,
    }


def _as_dict(shown: _Shown) -> dict[str, Any]:
    summary = shown.summary
    told = summary.as_dict()
    if summary.first_difference is not None:
        place, step = summary.first_difference
        seconds = (step.entry.now_us - summary.began_us) / 1e6
        told["first_difference"] = {
            **_step_as_dict(place, step, seconds),
            "byte": place.byte,
            "expected": step.entry.digest.hex(),
            "came": step.digest.hex(),
        }
    if shown.steps is not None:
        told["steps"] = shown.steps
    return told


def _show(summary: "ReplaySummary", folder: Path, cut: "CutOffError | None") -> None:
    from vinecast.core.content.schemas import time_text
    from vinecast.peer.record.words import name_of

    header = summary.header
    assert header is not None
    payloads = "" if header.with_payloads else ", without payloads"
    rows = [
        ("node", f"key {header.public.hex()[:16]}… in network {plain(header.network)}{payloads}"),
        (
            "recorded",
            f"{summary.seconds:,.1f} s from {time_text(summary.began_us)}, in "
            f"{_counted(summary.segments, 'segment')} of {_counted(len(summary.lives), 'run')}, "
            f"by vinecast {plain(header.version)}",
        ),
        ("inputs", f"{summary.entries:,}: {_counts(summary.inputs)}"),
        ("outputs", _counts(summary.outputs)),
        ("events", f"{summary.published:,} published here, {summary.delivered:,} delivered to readers"),
        ("refused and dropped", _counts(summary.turned_away) or "nothing"),
        ("peers up", _peers(summary.up)),
        ("connections lost", _peers(summary.lost)),
        ("shunned", ", ".join(map(name_of, summary.shunned)) or "nobody"),
        ("the same comes out", _same(summary, cut is not None)),
    ]
    if cut is not None:
        there = (
            f"after {cut.place}: {cut.why}; replayed up to there, {_counted(summary.entries, 'input')} in all"
        )
        rows.insert(-1, ("cut off", plain(there)))
    print_table(("what", "how it was"), rows, f"vinecast replay {folder}")


def _same(summary: "ReplaySummary", is_cut: bool) -> str:
    if summary.different:
        return _difference(summary)
    return "yes, bit for bit, up to where the record is cut off" if is_cut else "yes, bit for bit"


def _difference(summary: "ReplaySummary") -> str:
    """Where it begins to be another run."""
    from vinecast.peer.record.words import input_in_words, output_in_words

    assert summary.first_difference is not None
    place, step = summary.first_difference
    seconds = (step.entry.now_us - summary.began_us) / 1e6
    trouble = f" ({step.trouble})" if step.trouble else ""
    lines = [
        f"no: {summary.different:,} of {summary.entries:,} entries differ, the first at {place}, "
        f"{seconds:.6f} s after the beginning",
        f"input: {input_in_words(step.entry.what)}",
        f"expected: outputs with the digest {step.entry.digest.hex()[:DIGEST_SHOWN] or 'of nothing'}",
        f"came: outputs with the digest {step.digest.hex()[:DIGEST_SHOWN] or 'of nothing'}{trouble}",
        *(f"→ {output_in_words(output)}" for output in step.outputs[:SHOWN_OUTPUTS]),
    ]
    if len(step.outputs) > SHOWN_OUTPUTS:
        lines.append(f"… and {len(step.outputs) - SHOWN_OUTPUTS} more")
    return "\n".join(map(plain, lines))


def _counts(counts: "Counter[str]") -> str:
    return "\n".join(f"{count:,} {plain(what)}" for what, count in counts.most_common())


def _peers(peers: "Counter[bytes]") -> str:
    from vinecast.peer.record.words import name_of

    if not peers:
        return "none"
    some = [
        f"{name_of(peer)} ({count} times)" if count > 1 else name_of(peer)
        for peer, count in list(peers.items())[:PEERS_SHOWN]
    ]
    more = f" and {len(peers) - PEERS_SHOWN} more" if len(peers) > PEERS_SHOWN else ""
    return f"{len(peers)}: {', '.join(some)}{more}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count:,} {what}s"
