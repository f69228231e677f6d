"""Numbers for topics, and for filters: machines deal in numbers, the wire in names."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from vinecast.core.content.names import is_filter


class TopicNumbers:
    """Numbers for topics, for as long as somebody has them."""

    def __init__(self, room: int) -> None:
        self.names: list[str | None] = []
        self.numbers: dict[str, int] = {}
        self._room = room
        self._point_of: Callable[[str], int] | None = None
        self._points: NDArray[Any] = np.zeros(0, dtype=np.uint64)
        self._on_take: Callable[[int, str], object] = lambda number, name: None
        self._on_leave: Callable[[int], object] = lambda number: None
        self._uses: list[int] = []
        self._free: list[int] = []

    def place(self, point_of: Callable[[str], int], dtype: DTypeLike = np.uint64) -> NDArray[Any]:
        """Keep the points of all topics from now on, by number, for a system that asks where they are."""
        self._point_of, self._points = point_of, np.zeros(self._room, dtype=dtype)
        return self._points

    def watch(self, on_take: Callable[[int, str], object], on_leave: Callable[[int], object]) -> None:
        """Be told of every number that is given, and for which name, and of every one that is given back."""
        self._on_take, self._on_leave = on_take, on_leave

    def number_of(self, name: str) -> int | None:
        """The number of a topic that somebody has."""
        return self.numbers.get(name)

    def take(self, name: str, mine: bool = True) -> int | None:
        """Use a topic once more; None when there is no room for another one.

        A quarter of the room is kept for the node's own topics: others cannot take it.
        """
        number = self.numbers.get(name)
        if number is None:
            if not mine and len(self.numbers) >= self._room - self._room // 4:
                return None
            if self._free:
                number = self._free.pop()
                self.names[number] = name
            elif len(self.names) < self._room:
                number = len(self.names)
                self.names.append(name)
                self._uses.append(0)
            else:
                return None
            self.numbers[name] = number
            if self._point_of is not None:
                self._points[number] = self._point_of(name)
            self._on_take(number, name)
        self._uses[number] += 1
        return number

    def leave(self, number: int) -> None:
        """Use a topic once less."""
        self._uses[number] -= 1
        if self._uses[number] == 0:
            name = self.names[number]
            assert name is not None
            self._on_leave(number)
            del self.numbers[name]
            self.names[number] = None
            self._free.append(number)

    def known(self) -> list[str]:
        """The names of all topics that somebody has, in order."""
        return sorted(name for name in self.numbers if not is_filter(name))
