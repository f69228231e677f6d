"""Requests: what an application has asked its node's peer for, and has not been answered."""

import asyncio
import itertools
from typing import Any


class OpenRequests:
    """The requests of one node, by number."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}

    def begin(self) -> tuple[int, asyncio.Future[Any]]:
        """The number of a new request, and its answer to come."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        return number, answer

    def answer(self, number: int, value: Any, error: Exception | None) -> None:
        """The answer to a request has come."""
        answer = self._answers.pop(number, None)
        if answer is None or answer.done():
            return
        if error is None:
            answer.set_result(value)
        else:
            answer.set_exception(error)

    def drop(self, answer: asyncio.Future[Any]) -> int | None:
        """Nobody waits for an answer any longer; the number of its request, if that has none yet."""
        answer.cancel()
        number = next((number for number, one in self._answers.items() if one is answer), None)
        if number is not None:
            del self._answers[number]
        return number
