"""The log of a node: one line a record, ``key=value``, to standard error; quiet unless asked.

    time=2026-01-31T12:00:00.123Z level=info from=vinecast.node message="could not join" address=a:7000

Facts go along as ``log.info("could not join", extra={"facts": {"address": …}})``.
"""

import json
import logging
import sys
from datetime import UTC, datetime

LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)
"""By how often ``--verbose`` was given."""


class KeyValueFormatter(logging.Formatter):
    """Writes a record as pairs; whatever a peer put into it stays on its line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        pairs = {
            "time": when.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "from": record.name,
            "message": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            pairs["error"] = self.formatException(record.exc_info)
        return " ".join(f"{key}={_quoted(value)}" for key, value in pairs.items())


def set_up_logging(verbosity: int = 0) -> None:
    """Log to standard error: warnings, with 1 also what happens, with 2 everything."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(KeyValueFormatter())
    logger = logging.getLogger("vinecast")
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(LEVELS[min(verbosity, len(LEVELS) - 1)])


def _quoted(value: object) -> str:
    text = str(value)
    plain = text.isascii() and text.isprintable() and text and not any(c in text for c in ' ="\\')
    return text if plain else json.dumps(text)
