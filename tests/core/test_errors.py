"""The tree of errors: documented, public, and raised where it says."""

import asyncio

import pytest

import vinecast
from vinecast import BadNameError, ClosedError, InputError, Node, NotStartedError, SyncNode, VinecastError
from vinecast.core import errors
from vinecast.peer.topics import Pattern, check_topic

ALL = [found for found in vars(errors).values() if isinstance(found, type) and issubclass(found, Exception)]


@pytest.mark.parametrize("error", ALL, ids=lambda error: str(error.__name__))
def test_each_is_documented_public_and_in_the_tree(error: type[Exception]) -> None:
    assert error.__dict__["__doc__"]
    assert issubclass(error, VinecastError)
    assert error.__name__ in vinecast.__all__
    assert getattr(vinecast, error.__name__) is error


@pytest.mark.parametrize("name", vinecast.__all__)
def test_what_is_public_can_be_imported(name: str) -> None:
    assert getattr(vinecast, name).__name__ == name


def test_a_caller_at_fault_is_told_with_an_input_error() -> None:
    wanted = ["BadName", "Closed", "Join", "MissingExtra", "NotStarted", "Refused", "Rights", "TimedOut"]
    assert all(issubclass(getattr(errors, f"{name}Error"), InputError) for name in wanted)
    assert issubclass(errors.TimedOutError, TimeoutError)
    assert errors.RefusedError("no room").reason == str(errors.RefusedError("no room")) == "no room"


@pytest.mark.parametrize("name", ["", "a//b", "a/#", "a\0"])
def test_a_bad_name_is_refused_as_one(name: str) -> None:
    with pytest.raises(BadNameError):
        check_topic(name)


def test_a_bad_pattern_is_refused_as_a_name() -> None:
    with pytest.raises(BadNameError, match="only at the end"):
        Pattern.parse("#/a")


def test_a_node_says_that_it_was_not_started() -> None:
    with pytest.raises(NotStartedError):
        Node().topics()
    with pytest.raises(NotStartedError):
        SyncNode().topics()


def test_a_node_says_that_it_was_closed() -> None:
    async def main() -> None:
        node = Node()
        await node.close()
        with pytest.raises(ClosedError):
            await node.start()

    asyncio.run(main())
