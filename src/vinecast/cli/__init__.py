"""The command ``vinecast``: parses, imports the room that is asked for, and turns errors into sentences.

Nothing heavy is imported before it is needed, so that ``vinecast --help`` is there at once. Results go to
standard output, progress and errors to standard error. Exit codes: 0 done, 1 done but something does not
hold, 2 wrong input, 130 interrupted.
"""

import io
import os
import sys
from collections.abc import Sequence

from vinecast.cli.parser import build_parser
from vinecast.core.errors import InputError

__all__ = ["build_parser", "main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a sign still shows the rest
    try:
        arguments = build_parser().parse_args(argv)
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except InputError as error:
        return _complain(str(error), 2)
    except KeyboardInterrupt:
        return _complain("interrupted", 130)
    except MemoryError:
        return _complain("there is not enough memory for this", 2)
    except BrokenPipeError:  # whoever read our output has seen enough
        _discard_output()
        return 0
    except OSError as error:
        _discard_output()
        return _complain(f"cannot write the output ({error.strerror or error})", 2)
    return code


def _complain(sentence: str, code: int) -> int:
    said, *rest = sentence.split("\n")
    shows_place = len(rest) == 2 and set(rest[1]) == {" ", "^"}  # the line that is wrong, and marks under it
    if not shows_place:
        said, rest = sentence, []
    print("\n".join([f"vinecast: {' '.join(said.split())}", *rest]), file=sys.stderr)  # noqa: T201
    return code


def _discard_output() -> None:
    """Let what is still buffered go nowhere, so that Python's own exit does not trip over it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
