"""Reading the record of a node: the segments in a folder, in their order."""

from collections.abc import Iterator
from pathlib import Path

from vinecast.core.errors import InputError
from vinecast.node.storage.record_writer import SUFFIX, segments_in

RECORD_FOLDER = "record"
"""In the folder of a node."""


def find_segments(place: Path) -> list[Path]:
    """The segments at a place: a record's folder, the folder of a node that has one, or one segment."""
    if place.is_file() and place.suffix == SUFFIX:
        return [place]
    if not place.exists():
        raise InputError(f"{place}: no such folder")
    if not place.is_dir():
        raise InputError(f"{place}: this is no record of a node, but a file of another kind")
    for folder in (place, place / RECORD_FOLDER):
        found = segments_in(folder)
        if found:
            return found
    raise InputError(f"{place}: there is no record of a node (set record = true, and run it)")


def read_segments(place: Path) -> Iterator[tuple[str, bytes]]:
    """The segments at a place, one after the other: the name of each, and what is in it."""
    for path in find_segments(place):
        try:
            yield path.name, path.read_bytes()
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from None
