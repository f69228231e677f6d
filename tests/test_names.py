"""Names: modules that a reader can look up, classes that stand once, docstrings that say something."""

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from support.source import source_of

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/vinecast"
GLOSSARY = ROOT / "docs/glossary.md"

PLAIN = set(
    """
    accept access address api arrays arrivals attacker attacks base batch bench beyond bitsets blocks
    bucket buckets candidates capabilities catch cbor checker choice churn circle claims cli client
    clock codec comings commands common config connection content control core costs counts crash
    degrees deliveries direct disk distance doctor durable edges engine entry errors event events
    exchange faults fields figures file filter filters floods folder footprint frame frames further
    gateway gossip graph handshake histograms history hostile identity index ingest inputs interface
    java job keeping keys kinds known lab limits lines link links live load log logs lookup loop main
    matching measure measures members membership memory message messages metrics mutants name names
    network node nonsense notes operations output overlay overload pages parser passes path payloads
    peer people pipeline places plain plan plans points poll process processes profiles promises
    proposals protocols providing publications publisher queue rates reader readiness reading receipt
    recent records reduction registry regular relations repair replay report requests result rivals
    routing rules run runs runtime sample scenario schemas seeds seeking send server service serving
    settings show silence sim simulated splits stage stages stopping storage store story streams
    subscription subscriptions summary sync systems table tables tasks team text textfile timed timers times
    topic topics trace tracer tracing traffic transport tree trees trial up values version view walk
    wire words work worker workload writer
    """.split()  # noqa: SIM905
)
"""Plain words of English and of the trade: a module whose words all stand here needs no line in the
glossary."""
KNOWN = set(
    """
    anycast balance bloom bootstrap cyclon descriptor directed dissemination duckdb ferry flooding gravity
    grid higgs kademlia libp2p mosquitto multicast myspace nats net opt parquet pastry poldercast pulsarcast
    py quasar reddit redis regularity relay retention ringcast rings rvr scribe small spark sqlite tls tman
    twitter vicinity victor vinecast vinifera vitis world zenoh zipf
    """.split()  # noqa: SIM905
)
"""Names of protocols, systems, data sets and tools, and words of the papers and the field."""
pytestmark = pytest.mark.xdist_group("source")  # so that files are parsed once
EMPTY = {"one of them", "all of them", "see above", "the same", "as above", "it", "this", "todo"}
"""Whole docstrings that say nothing, without the full stop."""


def modules() -> Iterator[Path]:
    return (path for path in sorted(PACKAGE.rglob("*.py")) if path.name != "__init__.py")


def terms() -> list[str]:
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", GLOSSARY.read_text(), flags=re.MULTILINE)
    return [term.strip() for term in rows[2:]]


def words_of(name: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())


def is_named(name: str, known: set[str]) -> bool:
    """Whether all words of a name are plain, or make terms of the glossary, in the singular or plural."""
    words = words_of(name)
    for begin in range(len(words)):
        for end in range(len(words), begin, -1):
            part = " ".join(words[begin:end])
            if {part, part.removesuffix("s"), f"{part}s"} & known:
                rest = [*words[:begin], *words[end:]]
                return not rest or is_named(" ".join(rest), known)
    return not words


def test_the_glossary_is_in_order_and_has_one_line_a_term() -> None:
    found = terms()
    assert len(found) > 50, "docs/glossary.md: the table of terms was not found"
    wrong = [after for before, after in pairwise(found) if before.casefold() >= after.casefold()]
    assert not wrong, (
        f"docs/glossary.md: put these terms in alphabetical order, each once: {', '.join(wrong)}"
    )


def test_every_module_name_is_plain_or_in_the_glossary() -> None:
    known = {term.replace("-", " ") for term in terms()} | PLAIN | KNOWN
    names = {part for path in modules() for part in path.relative_to(PACKAGE).with_suffix("").parts}
    strange = sorted(name for name in names if not is_named(name.strip("_"), known))
    assert not strange, (
        f"say in docs/glossary.md what these module names mean, in one line each, or choose plain words "
        f"(and add them to PLAIN in {Path(__file__).name}): {', '.join(strange)}"
    )


def test_no_class_name_stands_twice() -> None:
    places = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        for one in source_of(path).definitions:
            if one.is_class:
                places[one.name].append(str(path.relative_to(ROOT)))
    twice = {name: found for name, found in places.items() if len(found) > 1}
    told = "; ".join(f"{name} ({', '.join(found)})" for name, found in sorted(twice.items()))
    assert not twice, f"give each of these classes a name of its own, or make one class of them: {told}"


def says_nothing(name: str, docstring: str, is_class: bool) -> bool:
    """A docstring says nothing if it is a phrase that fits everything, or has only the words of its name.
    That of a class also if it only sends the reader elsewhere, or begins with whose it is ("One node's.")."""
    text = " ".join(docstring.split()).rstrip(".")
    words = [word for word in words_of(text) if word not in {"a", "an", "the", "of", "one", "this"}]
    if text.lower() in EMPTY or (words and words == words_of(name.strip("_"))):
        return True
    return is_class and bool(re.match(r"See ``[^`]+``$|(One|A) \w+'s(\.|$)|Of one \w+$", text))


def test_no_docstring_says_nothing() -> None:
    empty = [
        f"{path.relative_to(ROOT)}:{one.line} {one.name}: {one.docstring!r}"
        for path in PACKAGE.rglob("*.py")
        for one in source_of(path).definitions
        if one.docstring and says_nothing(one.name, one.docstring, one.is_class)
    ]
    assert not empty, "say what these are, or delete the docstring where the name says it all:\n" + "\n".join(
        empty
    )
