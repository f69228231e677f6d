"""The strict reader: reads the few instructions of a pickle that snapshots are made of, and no others.

Pickles are written by Python's own pickler, which is fast. They are not read by its unpickler, which obeys:
it calls whatever a pickle names. This reader builds numbers, texts, bytes and plain containers; it makes
what ``makers`` can make, by their names; and it sets the state of what was made in this very pickle and of
nothing else. So a record from somebody else is data, whatever it says.
"""

import io
import pickletools
from collections.abc import Callable, Mapping
from typing import Any

from vinecast.core.errors import Bug, InputError

_MARK = object()
_VALUES = frozenset(
    (
        *("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT", "SHORT_BINUNICODE", "BINUNICODE"),
        *("BINUNICODE8", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8"),
    )
)
_CONSTANTS: Mapping[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_CONTAINERS: Mapping[str, type[Any]] = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_SET": set}
_SKIPPED = frozenset(("PROTO", "FRAME"))
_OTHERS = frozenset(
    (
        *(
            "ADDITEMS",
            "APPEND",
            "APPENDS",
            "BINGET",
            "BINPERSID",
            "BUILD",
            "FROZENSET",
            "LONG_BINGET",
            "MARK",
        ),
        *("MEMOIZE", "POP", "POP_MARK", "REDUCE", "SETITEM", "SETITEMS", "STACK_GLOBAL", "STOP", "TUPLE"),
    )
)
_READABLE = frozenset((*_VALUES, *_CONSTANTS, *_TUPLES, *_CONTAINERS, *_SKIPPED, *_OTHERS))
_INSTRUCTIONS = {one.code.encode("latin-1"): one for one in pickletools.opcodes if one.name in _READABLE}
_NAMES = {one.code.encode("latin-1"): one.name for one in pickletools.opcodes}


class _NamedMaker:
    """A maker that a pickle has named, and nothing has called yet."""

    __slots__ = ("fills", "make")

    def __init__(self, make: Callable[..., Any], fills: bool) -> None:
        self.make, self.fills = make, fills


class StrictReader:
    """Reads one pickle. ``module``: where its makers are; ``makers``: what makes a thing from arguments, by
    name; ``known``: what stands for a thing that the pickle does not hold → the thing; ``fill(thing,
    state)``: gives what the maker ``fills`` made its state."""

    def __init__(
        self,
        module: str,
        makers: Mapping[str, Callable[..., Any]],
        known: Callable[[Any], Any],
        fills: str,
        fill: Callable[[Any, Any], None],
    ) -> None:
        self._module, self._makers, self._known = module, makers, known
        self._fills, self._fill = fills, fill
        self._stack: list[Any] = []
        self._memo: list[Any] = []
        self._begun: set[int] = set()
        """Identities of containers made here: no other is changed."""
        self._empty: list[Any] = []
        """Things made here that have no state yet."""

    def read(self, data: bytes) -> Any:
        """What the pickle holds. InputError when it is none that a snapshot can be."""
        try:
            stream = io.BytesIO(data)
            while code := stream.read(1):
                instruction = _INSTRUCTIONS.get(code)
                if instruction is None:
                    named = _NAMES.get(code, ascii(code))
                    raise InputError(f"a record has an instruction that no state of a node has ({named})")
                argument = None if instruction.arg is None else instruction.arg.reader(stream)
                if instruction.name == "STOP":
                    (found,) = self._stack
                    if found is _MARK or isinstance(found, _NamedMaker):
                        raise InputError("this is no state of a node: it holds nothing")
                    return found
                self._do(instruction.name, argument)
        except InputError:
            raise
        except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise InputError(f"this is no state of a node ({type(error).__name__}: {error})") from None
        raise InputError("this is no state of a node: it is cut off")

    def _do(self, name: str, argument: Any) -> None:
        stack = self._stack
        if name in _VALUES:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name == "MEMOIZE":
            self._memo.append(stack[-1])
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self._memo[argument])
        elif name == "BINPERSID":
            stack.append(self._known(stack.pop()))
        elif name in _TUPLES:
            self._tuple(_TUPLES[name])
        elif name == "MARK":
            stack.append(_MARK)
        elif name in _SKIPPED:
            pass
        else:
            self._contain(name, argument)

    def _tuple(self, count: int) -> None:
        found = tuple(self._stack[len(self._stack) - count :])
        if len(found) < count:
            raise InputError("this is no state of a node: a tuple of nothing")
        del self._stack[len(self._stack) - count :]
        self._stack.append(found)

    def _contain(self, name: str, argument: Any) -> None:
        stack = self._stack
        match name:
            case "EMPTY_LIST" | "EMPTY_DICT" | "EMPTY_SET":
                stack.append(_CONTAINERS[name]())
                self._begun.add(id(stack[-1]))
            case "APPEND":
                one = stack.pop()
                self._own(list).append(one)
            case "APPENDS":
                several = self._since_mark()
                self._own(list).extend(several)
            case "SETITEM":
                value, key = stack.pop(), stack.pop()
                self._own(dict)[key] = value
            case "SETITEMS":
                items = self._since_mark()
                self._own(dict).update(zip(items[::2], items[1::2], strict=True))
            case "ADDITEMS":
                several = self._since_mark()
                self._own(set).update(several)
            case "TUPLE":
                stack.append(tuple(self._since_mark()))
            case "FROZENSET":
                stack.append(frozenset(self._since_mark()))
            case "POP":
                stack.pop()
            case "POP_MARK":
                self._since_mark()
            case _:
                self._make(name)

    def _make(self, name: str) -> None:
        stack = self._stack
        match name:
            case "STACK_GLOBAL":
                named, module = stack.pop(), stack.pop()
                if module != self._module or named not in self._makers:
                    what = ascii(f"{module}.{named}")[:80]
                    raise InputError(f"a record names {what}, which no state of a node does")
                stack.append(_NamedMaker(self._makers[named], named == self._fills))
            case "REDUCE":
                arguments, maker = stack.pop(), stack.pop()
                if not isinstance(maker, _NamedMaker) or not isinstance(arguments, tuple):
                    raise InputError("a record calls what is no maker")
                stack.append(maker.make(*arguments))
                if maker.fills:
                    self._empty.append(stack[-1])
            case "BUILD":
                state = stack.pop()
                if not self._empty or self._empty.pop() is not stack[-1]:
                    raise InputError("a record changes what it did not make")
                self._fill(stack[-1], state)
            case _:
                raise Bug(f"nobody has said what {name} does")

    def _since_mark(self) -> list[Any]:
        at = len(self._stack) - 1
        while self._stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise InputError("this is no state of a node: it has lost count")
        several = self._stack[at + 1 :]
        del self._stack[at:]
        return several

    def _own(self, kind: type[Any]) -> Any:
        """The container at the top, which this pickle has begun."""
        thing = self._stack[-1]
        if type(thing) is not kind or id(thing) not in self._begun:
            raise InputError(f"a record takes a {type(thing).__name__} for a {kind.__name__} of its own")
        return thing
