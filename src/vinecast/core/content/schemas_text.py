"""The text form of schemas and values, and the reader of words that filters share with it.

    price number 0..1000, count integer 0..100, at time 2000-01-01..2100-01-01, order string

An attribute is a name, a type and a range; a string needs no range, or only one end of it. Numbers are
written as in Python, times in ISO 8601 (in UTC unless they say so), strings in double quotes with the escapes
of JSON, or in single quotes with none. What cannot be read is an ``InputError`` that shows the place.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from string import whitespace
from typing import NamedTuple, NoReturn

from vinecast.core.content.schemas import INTEGER, KINDS, NUMBER, Attribute, Schema, Value, check_name
from vinecast.core.errors import InputError

TEXT_MAX = 65_536
"""Characters of a text form (ours)."""

VALUES = ("time", "number", "string")
"""Kinds of words that are values."""

_LINE_MAX = 100  # ours: how much of a line an error shows
_DIGITS_MAX = 40  # ours: whole numbers of more are no numbers of ours
_TOKEN = re.compile(
    r"""\s*(?:
    (?P<time>\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:\d\d)?)?)
    |(?P<number>[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    |(?P<string>"(?:[^"\\]|\\.)*"|'[^']*')
    |(?P<word>[A-Za-z_]\w*)
    |(?P<sign>\.\.|<=|>=|!=|==|[<>=(),])
    |(?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)


class Token(NamedTuple):
    """A word of a text form."""

    kind: str
    """time, number, string, word, sign, or end"""
    text: str
    begin: int
    """Where it stands in the whole text."""
    end: int


class Words:
    """The words of a text, one after the other."""

    def __init__(self, text: str, what: str) -> None:
        if not isinstance(text, str):
            raise InputError(f"{what} must be a string, not {type(text).__name__}")
        if len(text) > TEXT_MAX:
            raise InputError(f"{what} has at most {TEXT_MAX} characters, not {len(text)}")
        self._text = text
        self._tokens = list(self._read())
        self._at = 0

    def _read(self) -> Iterable[Token]:
        at = 0
        while True:
            found = _TOKEN.match(self._text, at)
            if found is None:
                begin = (
                    at + len(self._text[at:]) - len(self._text[at:].lstrip(whitespace))
                )  # as the pattern has it
                sign = self._text[begin]
                fault = "this string has no end" if sign in "\"'" else f"nothing begins with {sign!r} here"
                self.fail(fault, begin, begin + 1)
            kind = str(found.lastgroup)
            yield Token(kind, found[kind], found.start(kind), found.end(kind))
            if kind == "end":
                return
            at = found.end()

    @property
    def next(self) -> Token:
        """The next word."""
        return self._tokens[self._at]

    @property
    def last_end(self) -> int:
        """Where the word taken last ends."""
        return self._tokens[self._at - 1].end if self._at else 0

    def take(self) -> Token:
        """The next word, which is now behind us; the end stays."""
        token = self.next
        self._at += token.kind != "end"
        return token

    def accept(self, *words: str) -> str:
        """Take the next word if it is one of these, in small letters or large; else an empty string."""
        text = self.next.text.lower()
        if self.next.kind not in ("word", "sign") or text not in words:
            return ""
        self._at += 1
        return text

    def expect(self, word: str) -> None:
        """Take this word; InputError if another stands here."""
        if not self.accept(word):
            self.fail_here(f"{word!r} is missing here")

    def value(self, attribute: Attribute) -> Value:
        """Take a value of an attribute."""
        return self.read(self.take(), attribute)

    def read(self, token: Token, attribute: Attribute) -> Value:
        """The value of an attribute that a word is."""
        if token.kind not in VALUES:
            hint = f'; a string stands in quotes: "{token.text}"' if token.kind == "word" else ""
            self.fail(f"a value of {attribute.name} ({attribute.kind}) is missing here{hint}", *token[2:])
        try:
            return attribute.read(_value_of(token))
        except (InputError, ValueError) as error:
            self.fail(str(error), *token[2:])

    def fail_here(self, fault: str) -> NoReturn:
        """Say what is wrong with the next word."""
        self.fail(fault, *self.next[2:])

    def fail(self, fault: str, begin: int, end: int) -> NoReturn:
        """Say what is wrong, and show where."""
        start = self._text.rfind("\n", 0, begin) + 1
        line = "".join(c if c.isprintable() else " " for c in self._text[start:].split("\n", 1)[0])
        at, width = begin - start, max(1, min(end - begin, len(line) - (begin - start)))
        cut = max(0, at - _LINE_MAX // 2)
        shown = line[cut : cut + _LINE_MAX]
        marks = " " * (at - cut) + "^" * min(width, _LINE_MAX - (at - cut))
        raise InputError(f"{fault}\n  {shown}\n  {marks}")


def _value_of(token: Token) -> object:
    if token.kind == "string":
        return token.text[1:-1] if token.text[0] == "'" else json.loads(token.text, strict=False)
    if token.kind == "number":
        whole = token.text.lstrip("+-").isdigit() and len(token.text) <= _DIGITS_MAX
        return int(token.text) if whole else float(token.text)
    return token.text


def parse_schema(name: str, text: str) -> Schema:
    """The schema of this name that a text describes."""
    words = Words(text, "a schema")
    attributes = [_parse_attribute(words)]
    while words.accept(","):
        attributes.append(_parse_attribute(words))
    if words.next.kind != "end":
        words.fail_here("a comma, or nothing more, is expected here")
    return Schema(name, tuple(attributes))


def _parse_attribute(words: Words) -> Attribute:
    first = words.take()
    try:
        check_name(first.text)
    except InputError as error:
        words.fail(str(error), *first[2:])
    kind = words.next
    if words.accept(*KINDS) == "":
        words.fail_here(f"{first.text} needs a type here: one of {', '.join(KINDS)}")
    free = Attribute(first.text, kind.text.lower(), *_ANY[kind.text.lower()])
    low = high = None
    if words.next.text not in (",", ""):
        low = None if words.next.text == ".." else words.value(free)
        words.expect("..")
        high = None if words.next.text in (",", "") else words.value(free)
    try:
        return Attribute(free.name, free.kind, low, high)
    except InputError as error:
        words.fail(str(error), first.begin, words.last_end)


_ANY: dict[str, tuple[object, object]] = dict.fromkeys(KINDS, (0, 0)) | {"string": (None, None)}
"""A range for an attribute whose range is still to be read."""


def schema_text(schema: Schema) -> str:
    """The attributes of a schema, as ``parse_schema`` reads them."""
    return ", ".join(map(_attribute_text, schema.attributes))


def _attribute_text(attribute: Attribute) -> str:
    if attribute.has_default_range:
        return f"{attribute.name} {attribute.kind}"
    return (
        f"{attribute.name} {attribute.kind} {attribute.show(attribute.low)}..{attribute.show(attribute.high)}"
    )


def event_values(schema: Schema, pairs: Iterable[str]) -> dict[str, object]:
    """The values in pairs such as ``price=9.5`` and ``order=buy``: strings and times stand as they are."""
    values: dict[str, object] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise InputError(f"a value is given as name=value, not {pair[:80]!r}")
        attribute = schema.attributes[schema.place(name)]
        if name in values:
            raise InputError(f"{name} is given twice")
        values[name] = _plain_value(attribute, text)
    return values


def _plain_value(attribute: Attribute, text: str) -> object:
    if attribute.kind not in (INTEGER, NUMBER) or len(text) > _DIGITS_MAX:
        return text
    try:
        return int(text) if attribute.kind == INTEGER else float(text)
    except ValueError:
        return text  # which the attribute refuses by name


def schema_digest(schema: Schema) -> str:
    """Tells schemas apart that are not the same: 32 hexadecimal digits of a hash of name and attributes."""
    written = f"vinecast schema\n{schema.name}\n{schema_text(schema)}"
    return hashlib.sha256(written.encode()).hexdigest()[:32]
