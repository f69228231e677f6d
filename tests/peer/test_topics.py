"""Topic names and patterns, against a slow and obvious matcher."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vinecast.core.errors import InputError
from vinecast.peer.topics import Pattern, check_topic, is_topic

names = st.lists(st.sampled_from(["a", "b", "é", "a.b", ".*"]), min_size=1, max_size=4).map("/".join)
wildcards = st.lists(st.sampled_from(["a", "b", "a.b", ".*", "+"]), max_size=4)
patterns = (
    st.tuples(wildcards, st.booleans())
    .filter(lambda p: p[0] or p[1])
    .map(lambda p: "/".join(p[0] + ["#"] * p[1]))
)


def slow_match(pattern: str, name: str) -> bool:
    """By a regular expression over the name with a slash after every segment."""
    segments = {"+": "[^/]+/", "#": "([^/]+/)*"}
    expression = "".join(segments.get(part, re.escape(part) + "/") for part in pattern.split("/"))
    return re.fullmatch(expression, name + "/") is not None


@given(patterns, names)
def test_patterns_mean_what_mqtt_means(pattern: str, name: str) -> None:
    parsed = Pattern.parse(pattern)
    assert parsed.matches(name) == slow_match(pattern, name)
    assert str(parsed) == pattern
    assert parsed.is_plain == ("+" not in pattern and "#" not in pattern)


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("sports/#", "sports", True),
        ("sports/#", "sports/tennis/final", True),
        ("sports/#", "sport", False),
        ("#", "a/b/c", True),
        ("+", "a", True),
        ("+", "a/b", False),
        ("+/tennis/#", "sports/tennis", True),
        ("+/tennis/+", "sports/tennis", False),
        ("sports/tennis", "sports/tennis", True),
        ("sports/tennis", "sports/Tennis", False),
    ],
)
def test_examples(pattern: str, name: str, matches: bool) -> None:
    assert Pattern.parse(pattern).matches(name) is matches


def test_choose_keeps_the_order() -> None:
    assert Pattern.parse("b/+").choose(["b/2", "a/1", "b", "b/1"]) == ["b/2", "b/1"]


@given(names)
def test_a_name_is_a_pattern_for_itself(name: str) -> None:
    assert is_topic(name)
    assert check_topic(name) == name
    assert Pattern.parse(name).choose(["a", name, name + "/a"]).count(name) >= 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "non-empty segments"),
        ("/a", "non-empty segments"),
        ("a/", "non-empty segments"),
        ("a//+", "non-empty segments"),
        ("a/#/b", "only at the end"),
        ("a#", "a whole segment"),
        ("a/b+", "a whole segment"),
        ("a/##", "a whole segment"),
        ("a\0", "no NUL"),
        ("a" * 256, "at most 255 bytes"),
        ("\ud800", "valid Unicode"),
    ],
)
def test_impossible_patterns(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Pattern.parse(text)


@pytest.mark.parametrize("name", ["", "a/", "//", "a/+", "#", "a\0b", "\ud800", "é" * 128])
def test_impossible_names(name: str) -> None:
    assert not is_topic(name)
    with pytest.raises(InputError, match="topic"):
        check_topic(name)


@pytest.mark.parametrize("what", [check_topic, Pattern.parse])
def test_only_strings_are_topics(what: object) -> None:
    with pytest.raises(InputError, match="not bytes"):
        what(b"a")  # type: ignore[operator]
