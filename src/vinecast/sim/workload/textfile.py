"""Reading the text files that users hand us: plain or gzipped, and never trusted.

Whatever is wrong with a file, the reader learns it in one sentence: which file, which line, why.
"""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from vinecast.core.errors import InputError

GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""What some editors put before UTF-8 text; it is no part of the first line."""


def read_bytes(path: Path) -> bytes:
    """The whole file, unpacked if it is gzipped (its first bytes tell, not its name)."""
    try:
        raw = Path(path).read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    if not raw.startswith(GZIP_MAGIC):
        return raw
    try:
        return gzip.decompress(raw)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: broken gzip file ({error})") from None


def lines_of(path: Path, comments: tuple[str, ...] = ("#",)) -> Iterator[tuple[int, str]]:
    """Numbered lines, stripped; blank lines and comments are left out."""
    for number, raw in enumerate(read_bytes(path).removeprefix(BYTE_ORDER_MARK).split(b"\n"), start=1):
        try:
            line = raw.decode().strip()
        except UnicodeDecodeError:
            raise InputError(f"{path}:{number}: not UTF-8 text") from None
        if line and not line.startswith(comments):
            yield number, line
