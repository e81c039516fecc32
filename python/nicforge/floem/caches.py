"""Caches in front of what a function runs.

Between `GetStart` and `GetEnd` lies what finds a value, between `SetStart` and `SetEnd` what stores
one. The cache is a table of the program: a hit goes from the start to what is behind the end. With
write-back a value that is set stays in the table; only where there is no room for it does it go the
long way, which is also the way of all values with write-through.
"""

from __future__ import annotations

import dataclasses

from nicforge import flow

from .model import Element, Field, Input, Int, Output, State, Unsupported, type_name

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
        every = [] if held.state is not None else [held.key, *held.values]
        types = every[:1] if self.get and self.start else every
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


def _checked(key, values, var_size):
    names = [type_name(ty) for ty in [key, *values]]
    if var_size or any("*" in name or "[" in name for name in names):
        raise Unsupported("caches of addresses")
    return names


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
    """Classes of the four ends, the state, and converters that are not there."""
    names = _checked(key, values, var_size)
    held = Held(name, names[0], names[1:], write_policy == "write_back", None)
    return (*_classes(held), type("CacheState", (CacheState,), {}), None, None, None, None)


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
    names = _checked(key[0], [value[0] for value in values], var_size)
    held = Held(
        name,
        names[0],
        names[1:],
        write_policy == "write_back",
        (key[1], [value[1] for value in values]),
    )
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
