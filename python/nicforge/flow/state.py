"""State of a packet: fields that elements on its way share, without ports for them.

    class Request(State):
        key = Field(u64)
        found = Field(u8, initial=0)
        value = Field(bytes_(64), size="length")
        length = Field(u32, initial=0)

    class Parse(Element):
        inp, out = In(pkt=packet), Out(packet)
        state = Request
        body = "… state->key = nf_ntohll(header.key); out(pkt);"

Bodies read and write `state->key` (or `state.key`). A packet has its state from where it comes in;
on queues it goes along, each way with a copy of its own, and of it only what is used behind the
queue: the compiler finds out, along all ways, so a field that is written on some ways only still
crosses. Reading a field that some way has not written is an error at its line; with `initial` it
has a value from the start.

**Bytes of some length.** `Field(bytes_(64), size="length")` holds at most 64 bytes, `state->value.b[i]`, of which `length`
(another field) count; behind a queue they are zero beyond it. To the other side of the host link
what counts crosses, rounded up to 8 bytes. Other queues carry a quarter of them, a half or all,
whichever is enough. Of two such fields a half or all: each of the four combinations is a handler,
and so a stage, of which targets have few. Others go as a whole, with zeros.
"""

from __future__ import annotations

import re

from .errors import FlowError, Place, caller
from .types import Struct, Type, check_name, packet, u8


def bytes_(max: int) -> Struct:
    """So many bytes at most, for a field with a `size`: a struct with the member `b`."""
    if not isinstance(max, int) or not 4 <= max <= 4096:
        raise FlowError(f"bytes_({max}) is no byte string", caller(), "take 4 to 4096 bytes")
    return _bytes.setdefault(max, Struct(f"bytes_{max}", b=u8[max]))


_bytes: dict[int, Struct] = {}

#: Byte strings of which a queue has a handler for each length.
BY_SIZE = 2


class Field:
    """A field of a State.

    type     of values, a Struct or another State.
    initial  an integer that it has from the start; without, it must be written before it is read.
             Arrays take 0.
    size     of `bytes_`: the field that says how many of them count.
    """

    def __init__(self, type: Type | type, initial: int | None = None, size: str | None = None):
        self.place = caller()
        if isinstance(type, Type) and type is not packet:
            self.type = type
        elif isinstance(type, _StateClass) and type is not State:
            self.type = type.struct
        else:
            raise FlowError(
                "a field has no type that values can have", self.place, "write Field(u64) or such"
            )
        plain = not isinstance(self.type, Struct) and not self.type.count
        if initial is not None and (not isinstance(initial, int) or (initial != 0 and not plain)):
            raise FlowError(
                f"a field of `{self.type.c}` cannot be {initial!r} at first",
                self.place,
                "take an integer; arrays and structs take 0",
            )
        self.initial, self.size = initial, size


class _StateClass(type):
    """Makes the struct of a State's fields."""

    def __init__(cls, name, bases, members):
        super().__init__(name, bases, members)
        cls.place = caller()
        fields = {
            n: f
            for base in reversed(cls.__mro__)
            for n, f in vars(base).items()
            if isinstance(f, Field)
        }
        cls.fields: dict[str, Field] = fields
        if not bases:
            return
        word = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
        cls.struct = (
            Struct(check_name(word, cls.place), **{n: f.type for n, f in fields.items()})
            if fields
            else None
        )
        if not fields:
            raise FlowError(f"state `{name}` has no fields", cls.place, "write key = Field(u64)")
        object.__setattr__(cls.struct, "place", cls.place)
        for field_name, field in fields.items():
            _check_size(name, field_name, field, fields)

    def __str__(cls) -> str:
        return f"state `{cls.__name__}`"


def _check_size(state: str, name: str, field: Field, fields: dict[str, Field]) -> None:
    if field.size is None:
        return
    size = fields.get(field.size)
    if size is None or size.type.count or isinstance(size.type, Struct) or size.initial is None:
        raise FlowError(
            f"the size of field `{name}` of state `{state}` is `{field.size}`, which is no integer field with a first value",
            field.place,
            'name one: size="length" with length = Field(u32, initial=0)',
        )
    if field.type not in _bytes.values():
        raise FlowError(
            f"field `{name}` of state `{state}` has a size and is no byte string",
            field.place,
            "take bytes_(64)",
        )


class State(metaclass=_StateClass):
    """Fields that the elements on a packet's way share. Subclasses say them; elements name the
    class as `state`."""

    fields: dict[str, Field]
    struct: Struct
    place: Place


def parameter(state: type[State], own: type[State] | None) -> str:
    """The parameter by which a function has a state: an element calls its own `state`."""
    return "state" if state is own else f"state_{state.struct.name}"


def guards(state: type[State]) -> list[tuple[str, Place]]:
    """What is to be written before it is read, as C."""
    return [
        (f"NF_WRITE_FIRST({state.struct.c}, {name})", field.place)
        for name, field in state.fields.items()
        if field.initial is None and field.size is None
    ]


def declared(state: type[State], name: str) -> str:
    """The C declaration of a packet's state at its beginning."""
    given = [f".{field} = {f.initial}" for field, f in state.fields.items() if f.initial]
    return f"{state.struct.c} {name}" + (f" = {{{', '.join(given)}}}" if given else "") + ";"


#: Comments, strings and characters are left alone, and so is a member that is called `state`.
_WORDS = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|(?:\.|->)\s*\w+|\bstate(\s*)\.(?=\s*[A-Za-z_])""",
    re.DOTALL,
)


def arrows(text: str) -> str:
    """`state.field`, as bodies may write it, as `state->field`. This looks at words, not at what
    they mean."""
    return _WORDS.sub(
        lambda found: f"state{found[1]}->" if found[1] is not None else found[0], text
    )


# -- byte strings of some length on queues ---------------------------------------------------------


def variable(state: type[State]) -> list[tuple[str, Field]]:
    """The fields of which a queue carries no more than their sizes."""
    return [(name, field) for name, field in state.fields.items() if field.size is not None]


def parts(field: Field, alone: bool) -> list[Struct]:
    """Byte strings that a queue may carry instead of the whole, shortest first: a quarter (if it is
    `alone`), a half, all."""
    most = field.type.members["b"].count
    return [
        bytes_(length)
        for length in sorted({*([max(4, most // 4)] if alone else []), max(4, most // 2), most})
    ]
