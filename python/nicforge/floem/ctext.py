"""The C of a module: its bodies, states and what calls them, as one file, and headers for it."""

from __future__ import annotations

import dataclasses
import re

from nicforge.flow.state import arrows

from . import model
from .model import Array, Unsupported, type_name

_INTEGERS = re.compile(
    r"(const )?((un)?signed )?(char|short|int|long|long long|unsigned|bool|size_t|ssize_t|u?intptr_t"
    r"|u?int(8|16|32|64)_t)"
)


def word(ty: str, value: str) -> str:
    """A value of C as a word."""
    if _INTEGERS.fullmatch(ty):
        return f"(uint64_t)({ty})({value})"
    if ty.rstrip().endswith("*"):
        return f"(uint64_t)(uintptr_t)({value})"
    return f"(uint64_t)(uintptr_t)floem_copy(({ty}[1]){{{value}}}, sizeof({ty}))"


def value(ty: str, word: str) -> str:
    """The value of C that a word is."""
    if _INTEGERS.fullmatch(ty):
        return f"({ty})({word})"
    if ty.rstrip().endswith("*"):
        return f"({ty})(uintptr_t)({word})"
    return f"*({ty} *)(uintptr_t)({word})"


@dataclasses.dataclass
class Body:
    """A body: types of inputs and the names of their values, outputs, C, and what has to have run
    before it."""

    number: int
    inputs: dict[str, list[str]]
    values: dict[str, list[str]]
    outs: list[tuple[str, list[str]]]
    text: str
    before: list[str]
    waits: list

    def c(self, numbers: dict) -> str:
        lines = [f"static void floem_body_{self.number}(struct floem_frame *floem)", "{"]
        if self.waits:
            ran = " || ".join(f"floem_ran({numbers[e]})" for e in self.waits if e in numbers)
            lines.append(f"if (!({ran or 0})) return;")
        at = 0
        for name, types in self.inputs.items():
            for ty, one in zip(types, self.values[name], strict=True):
                lines.append(f"{ty} {one} = {value(ty, f'floem->in[{at}]')};")
                at += 1
        lines += [line for line in self.before if line]
        for port, (name, types) in enumerate(self.outs):
            names = [f"floem_{at}" for at in range(len(types))]
            words = ", ".join(word(ty, one) for ty, one in zip(types, names, strict=True))
            lines.append(
                f"#define {name}({', '.join(names)}) floem_output(floem, {port}, floem->at, "
                f"(uint64_t[]){{{words or 0}}}, {len(types)})"
            )
        lines += [arrows(self.text), *(f"#undef {name}" for name, _ in self.outs), "}"]
        return "\n".join(lines)


def glue(outs: list, fires: str | None) -> list[str]:
    """C that calls the outputs which a body called."""

    def call(name: str, types: list[str], of: str) -> str:
        return f"{name}({', '.join([f'{of}.at', *(f'{of}.words[{at}]' for at in range(len(types)))])});"

    if not outs:
        return []
    if fires == "many":
        arms = [
            f"case {at}: {call(name, types, 'floem.calls[i]')} break;"
            for at, (name, types) in enumerate(outs)
        ]
        return [
            "for (uint32_t i = 0; i < floem.count; i++)",
            "switch (floem.calls[i].port) {",
            *arms,
            "}",
        ]
    lines = [f"const struct floem_call *call_{at};" for at in range(len(outs))]
    if fires == "all":
        for at, (name, types) in enumerate(outs):
            lines.append(
                f"call_{at} = floem_calls(&floem, {at}); {call(name, types, f'(*call_{at})')}"
            )
        return lines
    chain = []
    for at, (name, types) in enumerate(outs):
        last = fires == "one" and at == len(outs) - 1
        condition = f"if ((call_{at} = floem_called(&floem, {at})))"
        sure = f"{{ call_{at} = floem_calls(&floem, {at}); {call(name, types, f'(*call_{at})')} }}"
        chain.append(sure if last else f"{condition} {{ {call(name, types, f'(*call_{at})')} }}")
    # Without an output block nobody said that only one is called.
    return [*lines, "\n".join(chain) if fires is None else " else ".join(chain)]


# -- queues and caches -----------------------------------------------------------------------------


def _fields(state: str) -> dict:
    return model.fields_of(model.world.kind(state))


def _deep(state: str) -> str:
    """C that copies what pointers with a size point to, of `state` for `floem_to`."""
    return " ".join(
        f"if (state->{name}) floem_to->{name} = floem_copy(state->{name}, {field.size});"
        for name, field in _fields(state).items()
        if field.size is not None and str(field.type).endswith("*")
    )


def enqueue(element, state: str, channel: int, clean: int | None) -> str:
    """C that puts a packet's state into a queue. clean: the first output of what is cleaned."""
    smart = element.smart
    cleaned = (
        f"floem_output(floem, {clean} + floem_old->channel - 1,"
        " (uint64_t)(uintptr_t)floem_old->bytes, NULL, 0);"
        if clean is not None
        else ""
    )
    done = "floem_output(floem, 0, floem->at, NULL, 0);" if smart.output else ""
    return f"""
        assert((unsigned)state->qid < {smart.instances});
        struct floem_queue *floem_line = &floem_queue_{smart.name}[state->qid];
        struct floem_entry *floem_old;
        if (floem_full(floem_line)) while ((floem_old = floem_clean(floem_line))) {{ {cleaned} }}
        if ({int(bool(smart.blocking[channel]))} || !floem_full(floem_line)) {{
            {state} *floem_to = floem_reserve(floem_line, sizeof *floem_to, {channel + 1});
            *floem_to = *state; {_deep(state)}
            floem_entry_of(floem_to)->state = FLOEM_FULL;
        }}
        {done}"""


def dequeue(element, state: str) -> str:
    """C that takes the next entry as a new packet."""
    smart = element.smart
    return f"""
        int floem_line = inp();
        assert(floem_line >= 0 && floem_line < {smart.instances});
        {state} *floem_from = floem_get(&floem_queue_{smart.name}[floem_line]);
        if (floem_from) {{
            struct floem_entry *floem_entry = floem_entry_of(floem_from);
            floem_entry->state = FLOEM_RELEASED;
            {state} *floem_made = memcpy(floem_state(), floem_from, sizeof *floem_from);
            floem_output(floem, floem_entry->channel - 1, (uint64_t)(uintptr_t)floem_made, NULL, 0);
        }} else if ({int(smart.waits)}) floem_block();"""


def edge(element) -> str:
    """C of an end of a cache's region."""
    held = element.held
    cache = f"&floem_cache_{held.name}"
    sized, ported = held.lengths is not None, held.state is None
    kinds = [held.key, *held.values]
    if ported:
        key_ports, value_ports = held.ports
        only_key = element.get and element.start
        own = ["key", *(["keylen"] if sized else [])]
        if not only_key:
            own += [*(["vallen"] if sized else []), *(f"val{at}" for at in range(len(held.values)))]
        types = key_ports if only_key else value_ports
        read = ", ".join(f"{ty} floem_{one}" for ty, one in zip(types, own, strict=True))
        read = f"({read}) = inp();"
        names = ["floem_key", *(f"floem_val{at}" for at in range(len(held.values)))]
        lengths = ("floem_keylen", "floem_vallen") if sized else None
        missing = [f"{ty} floem_val{at};" for at, ty in enumerate(held.values)]
        missing += ["int floem_vallen;"] if sized else []
        read += " ".join(missing) if only_key else ""
    else:
        read = ""
        names = [f"state->{held.state[0]}", *(f"state->{one}" for one in held.state[1])]
        lengths = tuple(f"state->{one}" for one in held.lengths) if sized else None
    pointer = [kind.rstrip().endswith("*") for kind in kinds]
    at = [
        name if is_pointer else f"&{name}" for name, is_pointer in zip(names, pointer, strict=True)
    ]
    sizes = [
        f"sizeof(*{name})" if is_pointer else f"sizeof({name})"
        for name, is_pointer in zip(names, pointer, strict=True)
    ]
    if lengths:
        sizes[0] = lengths[0]
        if len(sizes) > 1:
            sizes[-1] = lengths[1]
    find = f"struct floem_kept *floem_kept = floem_find({cache}, {at[0]}, {sizes[0]});"
    take = "".join(
        f"{name} = floem_kept->values[{n}];"
        if is_pointer
        else f"{name} = *({kind} *)floem_kept->values[{n}];"
        for n, (name, kind, is_pointer) in enumerate(
            zip(names[1:], kinds[1:], pointer[1:], strict=True)
        )
    )
    take += f"{lengths[1]} = floem_kept->value_length;" if lengths else ""
    fill = "".join(
        f"floem_kept->values[{n}] = floem_copy({one}, {size});"
        for n, (one, size) in enumerate(zip(at[1:], sizes[1:], strict=True))
    )
    fill += f"floem_kept->value_length = {lengths[1]};" if lengths else ""
    keep = f"floem_kept = floem_keep({cache}, {at[0]}, {sizes[0]});"
    everything = ", ".join(
        [names[0], *(lengths[:1] if lengths else []), *(lengths[1:] if lengths else []), *names[1:]]
    )
    everything = everything if ported else ""
    if element.get and element.start:
        key = ", ".join([names[0], *(lengths[:1] if lengths else [])]) if ported else ""
        return (
            f"{read} {find} if (floem_kept) {{ {take} }}"
            f"output switch {{ case floem_kept: near({everything}); else: out({key}); }}"
        )
    if element.get:
        nothing = f"if ({lengths[1]} > 0)" if lengths else ""
        return (
            f"{read} {find} if (floem_kept) {{ {take} }} else {nothing}"
            f"{{ {keep} if (floem_kept) {{ {fill} }} }} output {{ out({everything}); }}"
        )
    if element.start and held.back:
        return (
            f"{read} struct floem_kept *{keep} if (floem_kept) {{ {fill} }}"
            f"output switch {{ case floem_kept: near({everything}); else: out({everything}); }}"
        )
    if element.start:
        return f"{read} floem_forget({cache}, {at[0]}, {sizes[0]}); output {{ out({everything}); }}"
    return (
        f"{read} struct floem_kept *{keep} if (floem_kept) {{ {fill} }}"
        f"output {{ out({everything}); }}"
    )


# -- states ----------------------------------------------------------------------------------------


def instance(world, state) -> str:
    """The name of a state's memory."""
    number = next(at for at, one in enumerate(world.instances) if one is state)
    return state.name or f"floem_state_{number}"


def _declared(kind: type):
    """A state of a class, which says whether its struct is to be written, and how."""
    for one in model.world.instances:
        if type(one) is kind:
            return one
    try:
        return kind(instance=False)
    except TypeError:
        return kind.__new__(kind)


def structs(world, text: str) -> str:
    """Structs of the states that a text names, and of those inside them."""
    done: list[str] = []
    lines: list[str] = []

    def add(kind: type) -> None:
        if kind.__name__ in done:
            return
        done.append(kind.__name__)
        fields = model.fields_of(kind)
        layout = [field.name for field in getattr(kind, "layout", None) or []]
        names = [*layout, *(name for name in fields if name not in layout)]
        members = []
        for name in names:
            ty = fields[name].type
            inner = world.kind(ty.element if isinstance(ty, Array) else ty)
            if inner is not None:
                add(inner)
            for pointed in re.findall(r"(\w+)\s*\*", str(ty)):
                if world.kind(pointed) is not None and world.kind(pointed) not in waiting:
                    waiting.append(world.kind(pointed))
            members.append(_member(name, ty))
        one = _declared(kind)
        if getattr(one, "declare", True):
            packed = " __attribute__((packed))" if getattr(one, "packed", True) else ""
            heads.append(f"typedef struct {kind.__name__} {kind.__name__};")
            lines.append(f"struct {kind.__name__} {{ {' '.join(members)} }}{packed};")

    heads: list[str] = []
    waiting = [kind for kind in world.kinds if re.search(rf"\b{kind.__name__}\b", text)]
    for kind in waiting:
        if model.fields_of(kind):
            add(kind)
    return "\n".join([*heads, *lines])


def _member(name: str, ty) -> str:
    if not isinstance(ty, Array):
        return f"{type_name(ty)} {name};"
    sizes = ty.size if isinstance(ty.size, list) else ["" if ty.size is None else ty.size]
    return f"{type_name(ty.element)} {name}{''.join(f'[{size}]' for size in sizes)};"


def memory(world) -> tuple[list[str], list[str]]:
    """Variables of states, regions, queues and caches, and C that fills them at first."""
    variables, first = [], []
    for name, size, begin in world.regions:
        variables.append(f"void *{name};")
        first.append(f"{name} = floem_region({size});")
        if begin:
            first.append(begin.rstrip(";") + ";")
    made = [(instance(world, one), one) for one in world.instances]
    for name, one in made:
        variables.append(f"{type(one).__name__} *{name};")
        first.append(f"{name} = calloc(1, sizeof *{name});")
    for name, one in made:
        fields = model.fields_of(type(one))
        for field, given in one.at_first.items():
            first += _given(world, f"{name}->{field}", fields[field], given)
    for name, size, insts in world.queues:
        variables.append(f"struct floem_queue {name}[{insts}];")
        first.append(f"for (int i = 0; i < {insts}; i++) {name}[i].size = {size};")
    variables += [f"struct floem_cache floem_cache_{held.name};" for held in world.caches]
    return variables, first


def _given(world, to: str, field, given) -> list[str]:
    if given is None:
        return []
    if isinstance(given, list):
        return [
            line
            for at, one in enumerate(given)
            for line in _given(world, f"{to}[{at}]", field, one)
        ]
    if isinstance(given, model.State):
        star = "" if str(field.type).rstrip("]0123456789[").endswith("*") else "*"
        return [f"{to} = {star}{instance(world, given)};"]
    if callable(given):
        return [f"{given(to)};"]
    if not isinstance(given, (int, str, float)):
        raise Unsupported("memory of elements that begins with something else")
    return [f"{to} = {int(given) if isinstance(given, bool) else given};"]


def module_header(world, request, text: str, functions) -> str:
    """What every C file of a module finds: runtime.h, its own headers, states, functions."""
    regions = [f"extern void *{name};" for name, _, _ in world.regions]
    heads = [f"{head(function)};" for function in functions]
    return "\n".join(
        [
            '#pragma once\n#include "runtime.h"',
            request.include,
            structs(world, text),
            *regions,
            "void *floem_state(void);",
            *heads,
        ]
    )


def head(function) -> str:
    names = ", ".join(f"{ty} a{at}" for at, ty in enumerate(function.arguments))
    return f"{function.returns or 'void'} {function.name}({names or 'void'})"


def stub(function) -> str:
    """A function that asks the program."""
    words = ", ".join(word(ty, f"a{at}") for at, ty in enumerate(function.arguments))
    call = f"floem_function({function.number}, {len(function.arguments)}, (uint64_t[]){{{words or 0}}})"
    gives = function.returns
    if gives is None:
        return f"{head(function)} {{ {call}; }}"
    if _INTEGERS.fullmatch(gives) or gives.rstrip().endswith("*"):
        return f"{head(function)} {{ return {value(gives, call)}; }}"
    return (
        f"{head(function)} {{ static {gives} none; uint64_t got = {call};"
        f" return got ? {value(gives, 'got')} : none; }}"
    )
