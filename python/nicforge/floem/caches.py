"""Caches in front of what a function runs.

Between `GetStart` and `GetEnd` lies what finds a value, between `SetStart` and `SetEnd` what stores
one. The cache is a table of the program: a hit goes from the start to what is behind the end. With
write-back a value that is set stays in the table; only where there is no room for it does it go the
long way, which is also the way of all values with write-through.
"""

from __future__ import annotations

import dataclasses

from nicforge import flow

from . import model
from .model import Element, Field, Input, Int, Output, State, type_name

#: Entries of a cache: Floem's buckets, of one entry each.
ENTRIES = 1 << 15


@dataclasses.dataclass(eq=False)
class Held:
    """A cache as it was asked for. state: names of fields of key and values, or None where ports
    carry them."""

    name: str
    key: str
    values: list[str]
    back: bool
    state: tuple[str, list[str]] | None
    #: Names of the lengths of key and last value in the state, where these are of any size.
    lengths: tuple[str, str] | None = None
    table: flow.Table | None = None
    value: flow.Struct | None = None

    def made(self, type_of) -> flow.Table:
        """Its table."""
        if self.table is None:
            members = {f"v{at}": type_of(ty) for at, ty in enumerate(self.values)}
            self.value = flow.Struct(f"{self.name}_value", **members)
            self.table = flow.Table(
                f"{self.name}_held", "hash", type_of(self.key), self.value, ENTRIES
            )
        return self.table

    @property
    def ports(self) -> tuple[list[str], list[str]]:
        """What ports carry of a key, and of a key with its values."""
        key = [self.key, Int] if self.lengths else [self.key]
        return key, [*key, *([Int] if self.lengths else []), *self.values]

    @property
    def plain(self) -> bool:
        """Whether tables can hold it: no addresses, nothing of any size."""
        return not self.lengths and not any("*" in name for name in [self.key, *self.values])

    @property
    def names(self) -> tuple[str, list[str]]:
        """The key and the values in C, of an element whose values come by ports or in the state."""
        if self.state is not None:
            return f"state->{self.state[0]}", [f"state->{name}" for name in self.state[1]]
        return "inp_0", [f"inp_{at + 1}" for at in range(len(self.values))]


class Edge(Element):
    """An end of a region. `get`: of a lookup; `start`: its beginning."""

    held: Held
    get = start = False

    def configure(self):
        held = self.held
        key, values = held.ports
        types = [] if held.state is not None else key if self.get and self.start else values
        self.inp, self.out = Input(*types), Output(*types)


def _classes(held: Held) -> list[type]:
    kinds = [
        ("GetStart", True, True),
        ("GetEnd", True, False),
        ("SetStart", False, True),
        ("SetEnd", False, False),
    ]
    return [
        type(name, (Edge,), {"held": held, "get": get, "start": start})
        for name, get, start in kinds
    ]


class CacheState(State):
    """The fields that a cache keeps with packets."""

    qid = Field(Int)
    hash = Field("uint32_t")


def _converters(held: Held, ported: tuple) -> list[type]:
    """Classes of elements that take key, or key and values, from ports to the state and back."""
    made = []
    for name, types, fields, to in (
        ("Key2State", *ported[0], True),
        ("KV2State", *ported[1], True),
        ("State2Key", *ported[0], False),
        ("State2KV", *ported[1], False),
    ):

        def configure(self, types=types, to=to):
            self.inp, self.out = Input(*(types if to else [])), Output(*([] if to else types))

        def impl(self, types=types, fields=fields, to=to):
            own = ", ".join(f"{ty} floem_{one}" for ty, one in zip(types, fields, strict=True))
            put = " ".join(f"state->{one} = floem_{one};" for one in fields)
            give = ", ".join(f"state->{one}" for one in fields)
            self.run_c(
                f"({own}) = inp(); {put} output {{ out(); }}"
                if to
                else f"output {{ out({give}); }}"
            )

        made.append(type(name, (Element,), {"configure": configure, "impl": impl}))
    return made


def smart_cache(
    name,
    key,
    values,
    var_size=False,
    hash_value=False,
    update_func="f",
    write_policy="write_through",
    write_miss="",
):
    """Classes of the four ends, of the state, and of converters."""
    key, values = type_name(key), [type_name(value) for value in values]
    lengths = ("keylen", "vallen") if var_size else None
    held = Held(name, key, values, write_policy == "write_back", None, lengths)
    model.world.caches.append(held)
    fields = {"key": Field(key, size="state->keylen" if var_size else None)}
    if var_size:
        fields |= {"keylen": Field(Int), "vallen": Field(Int)}
    for at, ty in enumerate(values):
        last = var_size and at == len(values) - 1
        size = "state->vallen" if last else f"sizeof({ty[:-1]})" if ty.endswith("*") else None
        fields[f"val{at}"] = Field(ty, size=size)
    for at, field in fields.items():
        field.name = at
    names = [f"val{at}" for at in range(len(values))]
    each = ["key", "keylen"] if var_size else ["key"]
    every = [*each, *(["vallen"] if var_size else []), *names]
    state = type("CacheState", (CacheState,), fields if var_size else {})
    return (
        *_classes(held),
        state,
        *_converters(held, ((held.ports[0], each), (held.ports[1], every))),
    )


def smart_cache_with_state(
    name,
    key,
    values,
    var_size=False,
    hash_value=False,
    n_hashes=ENTRIES,
    write_policy="write_through",
    write_miss="",
):
    """Classes of the four ends and of the state, whose fields hold key and values."""
    names = [type_name(key[0]), *(type_name(value[0]) for value in values)]
    held = Held(
        name,
        names[0],
        names[1:],
        write_policy == "write_back",
        (key[1], [value[1] for value in values]),
        (key[2], values[-1][2]) if var_size else None,
    )
    model.world.caches.append(held)
    return (*_classes(held), type("CacheState", (CacheState,), {}))


def body(edge: Edge) -> str:
    """The C of an end: `near` is what a hit, or a value that found room, goes by."""
    held = edge.held
    key, values = held.names
    ported = held.state is None
    through = ", ".join([key, *values]) if ported else ""
    holds = " ".join(f"held.v{at} = {value};" for at, value in enumerate(values))
    keep = f"struct {held.value.name} held = {{0}}; {holds}"
    if edge.get and edge.start:
        found = [f"held.v{at}" for at in range(len(values))]
        given = ", ".join([key, *found]) if ported else ""
        take = (
            ""
            if ported
            else " ".join(f"{value} = {one};" for value, one in zip(values, found, strict=True))
        )
        miss = key if ported else ""
        return f"""
            struct {held.value.name} held;
            if (nf_lookup(&{held.table.name}, {key}, &held)) {{ {take} near({given}); }} else {{ out({miss}); }}"""
    if edge.start and held.back:
        return f"{keep} if (nf_update(&{held.table.name}, {key}, held)) {{ near({through}); }} else {{ out({through}); }}"
    if edge.start:
        return f"nf_delete(&{held.table.name}, {key}); out({through});"
    return f"{keep} nf_update(&{held.table.name}, {key}, held); out({through});"
