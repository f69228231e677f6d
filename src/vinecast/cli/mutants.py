"""``vinecast mutants``: small changes that break a promise, and what notices them."""

import argparse
import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from vinecast.cli.output import complain, print_json, print_table, progress
from vinecast.cli.stopping import INTERRUPTED, Stopped, stopped_by_sigterm
from vinecast.cli.values import positive
from vinecast.core.errors import InputError

if TYPE_CHECKING:
    from vinecast.lab.mutants.mutant import Mutant
    from vinecast.lab.mutants.trial import MutantResult


def add_mutants(commands: Any, command: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = command(
        commands,
        "mutants",
        mutants,
        "put small changes that break a promise into a copy of the project, and see what notices them",
        "vinecast mutants ack-before-sync --search 50",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="which mutants (default: all)")
    parser.add_argument("--list", action="store_true", help="list them, and what should notice each")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument(
        "--search", type=positive, metavar="N",
        help="where the seed that is named shows nothing, try the campaign's seeds 1 to N",
    )  # fmt: skip
    parser.add_argument(
        "--threads",
        type=positive,
        default=len(os.sched_getaffinity(0)),
        metavar="N",
        help="mutants that are tried at a time (default: all cores, %(default)s)",
    )


def mutants(arguments: argparse.Namespace) -> int:
    """Run the command."""
    chosen = _chosen(arguments.names)
    if arguments.list:
        return _list(chosen, arguments)
    began = time.monotonic()
    try:
        with stopped_by_sigterm():
            results = _try(chosen, arguments)
    except Stopped:
        complain("stopped")
        return INTERRUPTED
    took_s = time.monotonic() - began
    status = 0 if all(result.is_right for result in results) else 1
    if arguments.json:
        print_json({**_as_told(results), "seconds": round(took_s, 1)})
        return status
    _print_results(results, arguments.markdown)
    print("", *_conclusion(results, took_s), sep="\n")  # noqa: T201
    return status


def _as_told(results: "Sequence[MutantResult]") -> dict[str, Any]:
    """What came of all of them."""
    return {
        "mutants": [_as_dict(result) for result in results],
        "survivors": [one.mutant.name for one in results if not one.is_caught and not one.broken],
        "unnoticed": {one.mutant.name: list(one.unnoticed_by) for one in results if one.unnoticed_by},
        "broken": {one.mutant.name: one.broken for one in results if one.broken},
    }


def _conclusion(results: "Sequence[MutantResult]", took_s: float) -> list[str]:
    """The same in words."""
    told = _as_told(results)
    survivors, broken = told["survivors"], told["broken"]
    by_seed = sum(one.seed is not None and not one.broken for one in results)
    by_test = sum(bool(one.tests) and not one.broken for one in results)
    return [
        f"{len(results)} mutants: {by_seed} shown by the campaign, {by_test} by tests, {len(survivors)} by "
        f"nothing{': ' * bool(survivors)}{', '.join(survivors)}. It took {took_s / 60:.0f} min.",
        *(f"{name} is not noticed by {which}" for name, which in _each(told["unnoticed"])),
        *(f"{name} is no mutant but an error: {why}" for name, why in broken.items()),
    ]


def _each(unnoticed: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(name, which) for name, named in unnoticed.items() for which in named]


def _chosen(names: Sequence[str]) -> "Sequence[Mutant]":
    from vinecast.lab.mutants.catalogue import MUTANTS

    known = {mutant.name: mutant for mutant in MUTANTS}
    for name in names:
        if name not in known:
            raise InputError(f"no mutant is called {name[:80]!r}: vinecast mutants --list has their names")
    return [known[name] for name in names] if names else MUTANTS


def _try(chosen: "Sequence[Mutant]", arguments: argparse.Namespace) -> "list[MutantResult]":
    from vinecast.lab.mutants.trial import try_mutants

    done = 0
    with progress("the unchanged code", len(chosen)) as show:

        def tell(result: "MutantResult") -> None:
            nonlocal done
            done += 1
            show(done, f"{result.mutant.name}: {_caught_by(result)}")

        threads = min(arguments.threads, len(chosen))
        return try_mutants(chosen, threads, arguments.search or 0, tell)


def _print_results(results: "Sequence[MutantResult]", markdown: bool) -> None:
    headings = ("mutant", "breaks", "what it does", "seed that shows it", "tests that fail")
    rows = [
        (
            result.mutant.name,
            result.mutant.breaks,
            result.mutant.what,
            "–" if result.seed is None else f"{result.seed}: {result.shown}",
            "\n".join(result.tests) or "–",
        )
        for result in results
    ]
    print_table(headings, rows, "vinecast mutants", markdown)


def _caught_by(result: "MutantResult") -> str:
    if result.broken:
        return f"an error: {result.broken}"
    by = [*([f"seed {result.seed}"] if result.seed is not None else []), *result.tests]
    missed = "".join(f", but not {named}" for named in result.unnoticed_by)
    return (" and ".join(by) or "nothing notices it") + missed * bool(by)


def _list(chosen: "Sequence[Mutant]", arguments: argparse.Namespace) -> int:
    if arguments.json:
        print_json([_facts(mutant) for mutant in chosen])
        return 0
    headings = ("mutant", "breaks", "what it does", "seed that should show it", "tests that should fail")
    rows = [
        (
            one.name,
            one.breaks,
            one.what,
            "–" if one.seed is None else str(one.seed),
            "\n".join(one.tests) or "–",
        )
        for one in chosen
    ]
    print_table(headings, rows, "vinecast mutants --list", arguments.markdown)
    return 0


def _facts(mutant: "Mutant") -> dict[str, Any]:
    named = {"name": mutant.name, "breaks": mutant.breaks, "what": mutant.what, "module": mutant.module}
    return {**named, "tests": list(mutant.tests), "seed": mutant.seed}


def _as_dict(result: "MutantResult") -> dict[str, Any]:
    found = {
        "seed": result.seed,
        "shown": result.shown,
        "tests": list(result.tests),
        "unnoticed_by": list(result.unnoticed_by),
        "broken": result.broken,
        "seconds": round(result.took_s, 1),
    }
    return {"name": result.mutant.name, "breaks": result.mutant.breaks, "what": result.mutant.what, **found}
