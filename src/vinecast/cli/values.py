"""The values of options: what may be typed, and a sentence for what may not."""

import argparse
from typing import Any


def positive(text: str) -> int:
    """A count."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not 1 <= value < 2**31 - 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 1 to 2^31 - 2")
    return value


def seed(text: str) -> int:
    """A seed, or any other number that is a key."""
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not 0 <= value < 2**63:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 0 to 2^63 - 1")
    return value


def positives(text: str) -> tuple[int, ...]:
    """Counts with commas between them."""
    return tuple(positive(part) for part in text.split(","))


def setting(text: str) -> tuple[str, Any]:
    """``KEY=VALUE``, the value as in TOML; what is none there is taken as a string, without its quotes."""
    import tomllib

    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"'{text}' is not KEY=VALUE")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        return key, value


def pair(text: str) -> tuple[str, str]:
    """``KEY=VALUE``, both as they are."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"'{text}' is not KEY=VALUE")
    return key, value
