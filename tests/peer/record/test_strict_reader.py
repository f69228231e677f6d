"""The strict reader: what a record may say, and what it may not."""

import collections
import functools
import io
import os
import pickle
import pickletools
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.recorded_peers import config_of
from vinecast.core.content.filters import Range
from vinecast.core.errors import InputError
from vinecast.peer.address import Address
from vinecast.peer.codecs.frame_codec import FrameCodec
from vinecast.peer.links import LinkLimits
from vinecast.peer.peer import Peer
from vinecast.peer.record import makers, snapshot
from vinecast.peer.record.skeleton import Skeleton
from vinecast.peer.record.snapshot import read_value, restore, take_snapshot, write_value
from vinecast.peer.record.tape import Tape, taped_ports
from vinecast.peer.scratch import ScratchPool


class Calls:
    """Has a pickle call something."""

    def __init__(self, what: Any, *arguments: Any, state: Any = None) -> None:
        self.what, self.arguments, self.state = what, arguments, state

    def __reduce__(self) -> Any:
        return self.what, self.arguments, self.state


def refused(data: bytes) -> str:
    with pytest.raises(InputError) as caught:
        read_value(data)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        Calls(os.system, "true"),
        Calls(eval, "1"),
        Calls(exec, "1"),
        Calls(getattr, "", "__class__"),
        Calls(__import__, "os"),
        Calls(functools.partial, print),
        Calls(collections.Counter, "aab"),
        Calls(np.array, [1]),
        Calls(io.open, "x", "w"),
        Calls(Path, "x"),
        Calls(write_value, 1),
        os.system,
        Peer,
    ],
)
@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_a_pickle_calls_nothing_but_makers(value: Any, protocol: int) -> None:
    refused(pickle.dumps(value, protocol))


@pytest.mark.parametrize(
    "call",
    [
        Calls(makers.make_object, "os:_Environ"),
        Calls(makers.make_object, "vinecast.core.rule:Path"),
        Calls(makers.make_object, "vinecast.core.rule:os"),
        Calls(makers.make_object, "vinecast.node.api.node:Node"),
        Calls(makers.make_object, "vinecast.peer.peer:Peer.__init__"),
        Calls(makers.make_object, "vinecast.peer.peer:Peer.handle"),
        Calls(makers.make_object, "vinecast.peer.nothing:Nothing"),
        Calls(makers.make_object, "vinecast.peer..peer:Peer"),
        Calls(makers.make_object, "vinecast.peer.codecs.frame_codec:FrameCodec"),
        Calls(makers.make_object, "vinecast.core.errors:InputError"),
        Calls(makers.make_object, "vinecast.systems.common.wire:Card"),
        Calls(makers.make_class, "builtins:object"),
        Calls(makers.make_struct, "vinecast.peer.address:Address", ()),
        Calls(makers.make_struct, "vinecast.systems.common.wire:Card", (1,)),
        Calls(makers.make_tuple, "vinecast.core.log.event_record:EventRecord", (1,)),
        Calls(makers.make_tuple, "vinecast.peer.address:Address", ("a", 1)),
        Calls(makers.make_error, "builtins:OSError", ("x",)),
        Calls(makers.make_error, "vinecast.core.errors:InputError", (1,)),
        Calls(makers.make_member, "vinecast.peer.address:Address", 1),
        Calls(makers.make_method, "text", "upper"),
        Calls(makers.make_method, b"", "__class__"),
        Calls(makers.make_partial, Calls(makers.make_class, "vinecast.peer.address:Address"), (), {}),
        Calls(makers.make_array, "O", (1,), bytes(8)),
        Calls(makers.make_array, "<i8", (2,), bytes(8)),
        Calls(makers.make_array, "V8", (1,), bytes(8)),
        Calls(makers.make_view, b"text", "<i8", 0, (1,), (8,)),
        Calls(makers.make_view, Calls(makers.make_array, "<i8", (1,), bytes(8)), "<i8", 0, (1 << 30,), (8,)),
        Calls(makers.make_view, Calls(makers.make_array, "<i8", (1,), bytes(8)), "<i8", -8, (1,), (8,)),
        Calls(makers.make_number, "O", bytes(8)),
        Calls(makers.make_numbers, "?", b""),
        Calls(makers.make_defaulting, "print", {}),
        Calls(makers.make_counter, [1], 2),
        Calls(makers.make_object, "vinecast.peer.address:Address", state={"__class__": int}),
        Calls(makers.make_object, "vinecast.peer.address:Address", state={"other": 1}),
        Calls(makers.make_object, "vinecast.peer.address:Address", state=[1]),
        Calls(makers.make_object, "vinecast.peer.bootstrap:Bootstrap", state={"addresses": 1}),
        Calls(makers.make_object, "vinecast.peer.bootstrap:Bootstrap", state={"fire": 1}),
        Calls(makers.make_class, "vinecast.peer.address:Address", state={"host": 1}),
        Calls(makers.make_queue, [1], 1, state={"x": 1}),
    ],
)
def test_makers_make_values_and_nothing_else(call: Calls) -> None:
    refused(pickle.dumps(call, 4))


def test_what_makers_make_is_what_was_written() -> None:
    whole = np.arange(12, dtype=np.int32).reshape(3, 4)
    address = Address("a", 1)
    value = {
        "numbers": [1, -5, 1 << 80, 0.5, True, None, b"x" * 300, "ä"],
        "sets": [{1, 2}, frozenset((3, 4))],
        "queue": collections.deque([1, 2], 5),
        "counts": collections.Counter("aab"),
        "ordered": collections.OrderedDict([(2, 1), (1, 2)]),
        "default": collections.defaultdict(list, {1: [2]}),
        "arrays": [whole, whole[1:, ::2], whole[0], np.uint64(7)],
        "twice": [address, address],
        "errors": [InputError("no")],
        "limits": LinkLimits(),
        "method": functools.partial(Range(1, 5).holds, 4),
    }
    found = read_value(write_value(value))
    assert str({**found, "method": 0}) == str({**value, "method": 0})
    assert found["twice"][0] is found["twice"][1]
    found["arrays"][0][1, 2] = 99
    assert found["arrays"][1][0, 1] == 99, "a view changes with what it is a view of"
    assert found["method"]() is True


@pytest.mark.parametrize(
    "data", [b"", b".", b"\x80\x04", b"\x80\x04N", b"(.", b"text", b"\x80\x04h\x05.", b"0."]
)
def test_what_is_no_pickle_is_refused(data: bytes) -> None:
    refused(data)


def test_instructions_that_snapshots_do_not_have_are_refused() -> None:
    unknown = ("GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "PERSID", "NEXT_BUFFER", "DUP", "PUT")
    for instruction in pickletools.opcodes:
        if instruction.name in unknown:
            argument = b"1\n2\n" if instruction.name in ("GLOBAL", "INST") else b"1\n"
            refused(b"\x80\x04N(" + instruction.code.encode("latin-1") + argument + b".")


# A snapshot for a peer.


def new_peer() -> Skeleton:
    ports = taped_ports(Tape(True, bytes), ScratchPool())
    return Skeleton(Peer(bytes(32), "test", 1, config_of("vitis"), ports, LinkLimits()), ports)


def persistent(number: int) -> bytes:
    """The instruction that names a thing of the peer."""
    return b"J" + struct.pack("<i", number) + b"Q"


def written(skeleton: Skeleton, change: Callable[[list[Any]], None]) -> bytes:
    """A snapshot that somebody has changed."""
    content = [snapshot._content_of(thing, kind) for thing, kind in skeleton.changing()]
    change(content)
    return skeleton.digest() + snapshot._written(content, skeleton.numbers, True)


def test_a_snapshot_does_not_change_what_the_machine_is_wired_of() -> None:
    skeleton = new_peer()
    restore(new_peer(), take_snapshot(skeleton))  # as it is
    tried = 0
    for at, (thing, _) in enumerate(skeleton.changing()):
        attributes = getattr(thing, "__dict__", {}).items()
        wired = [
            name for name, one in attributes if skeleton.is_wiring(one) and one is not skeleton.things[0]
        ]
        for name in wired[:2]:

            def change(content: list[Any], at: int = at, name: str = name) -> None:
                content[at][name] = skeleton.things[0]

            with pytest.raises(InputError, match="wired otherwise"):
                restore(new_peer(), written(skeleton, change))
            tried += 1
    assert tried > 20


def test_a_snapshot_changes_nothing_that_it_did_not_make() -> None:
    skeleton = new_peer()
    begin = skeleton.digest() + b"\x80\x04"
    lists = [number for number, thing in enumerate(skeleton.things) if type(thing) is list]
    classes = [number for number, thing in enumerate(skeleton.things) if isinstance(thing, type)]
    functions = [number for number, thing in enumerate(skeleton.things) if callable(thing)]
    assert min(map(len, (lists, classes, functions))) > 5
    for number in lists[:5]:
        with pytest.raises(InputError, match="of its own"):
            restore(new_peer(), begin + persistent(number) + b"K\x01a.")
    for number in (*classes[:5], *functions[:5]):
        with pytest.raises(InputError, match="did not make"):
            restore(new_peer(), begin + persistent(number) + b"}\x8c\x01xK\x01sb.")
        with pytest.raises(InputError, match="no maker"):
            restore(new_peer(), begin + persistent(number) + b")R.")
    with pytest.raises(InputError):
        restore(new_peer(), begin + persistent(1 << 20) + b".")
    with pytest.raises(InputError):
        restore(new_peer(), begin + persistent(-1) + b".")


def test_tables_of_codecs_are_not_part_of_a_snapshot() -> None:
    skeleton = new_peer()
    tables = [thing._kinds for thing in skeleton.things if isinstance(thing, FrameCodec)]
    assert len(tables) > 1
    assert not any(thing is table for table in tables for thing, _ in skeleton.changing())
