"""One tree of errors. Its branches say whose fault it is: the caller's, the remote peer's, or ours.

``InputError``   the caller gave something wrong; the message is one sentence, fit to show a user.
``RemoteError``  a peer sent something wrong; the node counts it, drops it and lives on.
``Bug``          an invariant of ours does not hold; please report it.

``OverloadedError`` and ``UnsafeError`` are nobody's fault: what was asked for was right, at a bad moment.
"""


class VinecastError(Exception):
    """The root of every error that Vinecast raises on purpose. Catch it to catch them all."""


# The caller's fault.


class InputError(VinecastError):
    """The caller's fault: a bad argument, file or configuration. The command line exits with 2. Change what
    the message names; the same call will fail again."""


class ClosedError(InputError):
    """The node, or what it keeps, was closed before the call or during it. Make another node to go on."""


class NotStartedError(InputError):
    """The node was used before it was started. Use it in ``with`` or ``async with``, or call ``start``."""


class BadNameError(InputError):
    """This cannot be the name of a topic, a schema, an attribute or a consumer, or a pattern of topics. The
    message says what a name looks like; choose another."""


class RightsError(InputError):
    """Another key speaks for the topic. Let its owner hand it on to this node, or fork it."""


class JoinError(InputError):
    """None of the addresses led into the network. The message says why for each: check them, the network's
    name, and that a node runs there."""


class RefusedError(InputError):
    """The node that was asked over its control socket refused. ``reason`` is what it said; act on that."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TimedOutError(InputError, TimeoutError):
    """No answer came in time. Try again, or wait longer; what was asked for may have been done. It is a
    ``TimeoutError`` as well."""


class MissingExtraError(InputError):
    """The caller asked for something whose optional dependencies are not installed. Install the extra that
    the message names."""

    def __init__(self, what: str, extra: str, module: str) -> None:
        super().__init__(
            f"{what} needs the extra '{extra}' ({module} is not installed): pip install 'vinecast[{extra}]'"
        )


# Nobody's fault.


class OverloadedError(VinecastError):
    """The neighbours cannot take more at the moment, or the disk cannot: the event was not published. Try
    again later."""


class UnsafeError(VinecastError):
    """The event was sent on its way, but could not be written down on this node in time. It may be lost if
    the node ends now; to publish it once more would make two of it."""


# The peer's, and ours.


class RemoteError(VinecastError):
    """The remote peer's fault: it broke the protocol. Never leaves the node that met it, which drops what
    came; nothing is to be done."""


class Bug(VinecastError):
    """Our fault: an invariant does not hold. Report it, with the message and what led to it."""
