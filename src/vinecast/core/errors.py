"""Errors that say whose fault it is: the caller's, the remote peer's, or ours.

``InputError``   the caller gave something wrong; the message is one sentence, fit to show a user.
``RemoteError``  a peer sent something wrong; the node counts it, drops it and lives on.
``Bug``          an invariant of ours does not hold; please report it.
"""


class VinecastError(Exception):
    """The root of every error that Vinecast raises on purpose."""


class InputError(VinecastError):
    """The caller's fault: a bad argument, file or configuration. The command line exits with 2."""


class MissingExtraError(InputError):
    """The caller asked for something whose optional dependencies are not installed."""

    def __init__(self, what: str, extra: str, module: str) -> None:
        super().__init__(
            f"{what} needs the extra '{extra}' ({module} is not installed): pip install 'vinecast[{extra}]'"
        )


class RemoteError(VinecastError):
    """The remote peer's fault: it broke the protocol. Never leaves the node that met it."""


class Bug(VinecastError):
    """Our fault."""
