"""Flow programs (nicforge.flow) of what a module made.

A message of the host lets the program take one step: it asks what the module's C waits for, which is
a function or a segment, runs those elements, and gives back what they return (runtime.c). Elements
stay elements. A body that prints, includes headers or has memory of its own is opaque C.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re

from nicforge import flow

from . import caches, calls, model, queues
from .body import convert, fires
from .model import Api, Element, Input, Output, Port, Unsupported, active, ports

#: Arguments of a function at most.
ARGUMENTS = 15
#: Calls of one output in one run of an element that calls it several times.
SEVERAL = 64

_TYPES = {
    **{
        "int": flow.i32,
        "unsigned": flow.u32,
        "unsigned int": flow.u32,
        "size_t": flow.u64,
        "bool": flow.bool_,
    },
    **{"long": flow.i64, "uintptr_t": flow.u64, "char": flow.i8, "short": flow.i16},
    **{f"uint{bits}_t": getattr(flow, f"u{bits}") for bits in (8, 16, 32, 64)},
    **{f"int{bits}_t": getattr(flow, f"i{bits}") for bits in (8, 16, 32, 64)},
}

Step = flow.Struct("step", number=flow.u32)


def type_of(name: str):
    known = _TYPES.get(name.strip())
    if known is None:
        raise Unsupported(
            f"values of type `{re.sub(r'[A-Za-z_]+', 'T', name) if '*' in name else name}`"
        )
    return known


@dataclasses.dataclass
class Function:
    """A function that C calls: its number, types of arguments, and what it returns."""

    name: str
    number: int
    arguments: list[str]
    returns: str | None
    default: object
    starts: list[tuple[object, list[str]]]


@dataclasses.dataclass
class Lowered:
    program: flow.Program
    functions: list[Function]
    #: Numbers of functions that stand for segments which run by themselves, and their cores.
    ticks: list[tuple[int, int]]
    lower: Lower


class Lower:
    """Lowers a module whose values are integers, and whose states are fields of these."""

    #: Words in front of a port's own values.
    ahead = 0

    def __init__(self, module, request, folder):
        self.world, self.request, self.folder = module.world, request, folder
        self.elements = [e for e in self.world.elements if active(e.of_modes, request.mode)]
        self.edges = [e for e in self.world.edges if active(e.modes, request.mode)]
        #: Elements that return what comes from ports.
        self.returning: dict[Port, flow.Element] = {}
        self.number = 0
        #: Elements of threads that only give values.
        self.givers: list[Element] = []
        #: Elements that put packets into queues, by the inputs they stand for.
        self.puts: dict[Port, flow.Element] = {}
        #: Functions that nobody's C calls: segments that run by themselves.
        self.ticks: list[tuple[int, int]] = []
        self.made: dict[Element, flow.Element] = {}
        self.states: dict[type, type] = {}
        self.instances: dict[model.State, str] = {}

    def program(self, name: str) -> Lowered:
        apis = [api for api in self.world.apis if active(api.modes, self.request.mode)]
        apis += self._others(apis)
        if not apis:
            raise Unsupported("nothing runs it")
        self._share()
        functions = [self._function(number, api) for number, api in enumerate(apis)]
        for function, api in zip(functions, apis, strict=True):
            self._returns(function, api)
        source, dispatch = flow.FromHost(Step), self._dispatch(functions)
        source >> dispatch
        for function in functions:
            enter = self._enter(function)
            dispatch.outputs[f"call_{function.number}"] >> enter
            for at, (start, types) in enumerate(function.starts):
                self._start(enter.outputs[f"start_{at}"], start, types)
        return Lowered(flow.Program(name, source), functions, self.ticks, self)

    def _start(self, made, start, types: list[str]) -> None:
        """Connects what a call begins with."""
        inside = not isinstance(start, Port) or isinstance(start.owner, Element)
        self._wire(made, [start] if inside else self._behind(start), types)

    def _types(self, types: list[str]) -> list:
        """What a port of types carries."""
        return [type_of(ty) for ty in types]

    def _word(self, ty: str, word: str) -> str:
        """A value that comes as a word, in C."""
        return f"({ty}){word}"

    def _others(self, apis: list[Api]) -> list[Api]:
        """Functions that nobody declared: segments that run by themselves are run by who calls, and
        so are elements of no thread, by their names."""
        threads = [set(map(id, api.elements)) for api in apis if api.elements]
        for at, some in enumerate(threads):
            if any(some & other for other in threads[:at]):
                raise Unsupported("an element of two functions")
        made = []
        for segment in self.world.segments:
            if getattr(segment, "callable", False):
                continue
            if isinstance(segment, model.InternalThread):
                self._given_by(segment)
                continue
            made.append(Api(f"segment_{segment.name}", None, None, segment=segment))
            self.ticks.append((len(apis) + len(made) - 1, 0))
        if not apis and not made:
            alone = [e for e in self.elements if not ports(e, Input) and not ports(e, Output)]
            made += [Api(e.name, [], None, elements=[e]) for e in alone]
        return made

    def _given_by(self, thread: model.InternalThread) -> None:
        """A thread that only gives values: whoever waits for one asks for it."""
        elements = [e for each in getattr(thread, "elements", []) for e in self._inside(each)]
        if not elements or any(ports(e, Input) for e in elements):
            raise Unsupported("a thread that runs between others")
        self.givers += elements

    # -- ways --------------------------------------------------------------------------------------

    def _behind(self, port: Port) -> list[Port]:
        """Inputs of elements that a port leads to, in the order of connection; ways end at borders
        of functions."""
        found: list[Port] = []
        for edge in self.edges:
            if edge.source is port:
                inside = isinstance(edge.to.owner, Element)
                found += [edge.to] if inside else self._behind(edge.to) or [edge.to]
        return found

    def _before(self, port: Port) -> list[Port]:
        return [edge.source for edge in self.edges if edge.to is port]

    def _wire(self, made, ends: list, types: list[str], source: Port | None = None) -> None:
        """Connects an output to elements' inputs and to returns, through what drops values that an
        input does not take. source: the output in the module."""
        connected = False
        for end in ends:
            if isinstance(end, Port) and not isinstance(end.owner, Element):
                if end in self.returning:
                    made >> self.returning[end]
                    connected = True
                continue
            element, takes = (end, []) if isinstance(end, Element) else (end.owner, end.types)
            put = isinstance(element, queues.Enqueue)
            target = self._put(element, end) if put else self._flow_element(element)
            entry = target.inputs[end.name] if target.inputs else target
            connected = True
            if types and not takes:
                values = {f"v{at}": ty for at, ty in enumerate(self._types(types))}
                kept = list(values)[: self.ahead]
                out = flow.Out(*self._types([]))
                dropped = _element("Dropped", flow.In(**values), {"out": out})
                dropped.body = f"out({', '.join(kept)});"
                between = dropped()
                made >> between
                between.outputs["out"] >> entry
            else:
                made >> entry
        if not connected:
            made >> flow.Discard(*self._types(types))

    # -- functions ---------------------------------------------------------------------------------

    def _function(self, number: int, api: Api) -> Function:
        if api.segment is not None:
            order = list(api.segment.args_order())
            takes = [self._taken(port) for port in order]
            starts = list(zip(order, takes, strict=True))
            arguments = [ty for types in takes for ty in types]
            own = [e for e in self.elements if e.of_segment is api.segment]
            outs = ports(api.segment, Output)
            outs = [port for port in outs if port is not api.segment.core_id]
            returns = outs[0].types[0] if outs else None
        else:
            own = api.elements or []
            own = [e for each in own for e in self._inside(each)]
            own = [*(giver for giver in self.givers if self._leads_to(giver, own)), *own]
            free = [port for e in own for port in ports(e, Input) if not self._reached(port)]
            starts = [(port, port.types) for port in free]
            arguments, returns = [ty for port in free for ty in port.types], api.returns
            if returns is not None and not any(
                self._ends(port) for e in own for port in ports(e, Output)
            ):
                raise Unsupported("a function that returns what another thread made")
            if len(arguments) < len(api.arguments or []):
                raise Unsupported("a function whose elements get values from another thread")
            if any(self._from_outside(port, own) for e in own for port in ports(e, Input)):
                raise Unsupported("a function whose elements get values from another thread")
        starts += [(e, []) for e in own if not ports(e, Input) and not isinstance(e, queues.Clean)]
        if not starts:
            raise Unsupported("a function with nothing to run")
        if len(arguments) > ARGUMENTS:
            raise Unsupported(f"a function of more than {ARGUMENTS} arguments")
        for ty in arguments:
            type_of(ty)
        return Function(api.name, number, arguments, returns, api.default, starts)

    def _taken(self, port: Port) -> list[str]:
        """What a function takes: what the element takes that is behind its port."""
        ends = [end for end in self._behind(port) if isinstance(end.owner, Element)]
        return ends[0].types if ends else port.types

    def _inside(self, each) -> list[Element]:
        if isinstance(each, Element):
            return [each] if each in self.elements else []
        return [e for e in self.elements if any(of is each for of, _ in e.of_modes)]

    def _reached(self, port: Port) -> bool:
        return any(
            isinstance(before.owner, Element) or self._reached(before)
            for before in self._before(port)
        )

    def _ends(self, port: Port) -> bool:
        """Whether no element is behind a port."""
        return not any(isinstance(end.owner, Element) for end in self._behind(port))

    def _leads_to(self, element: Element, own: list[Element]) -> bool:
        return any(
            end.owner in own for port in ports(element, Output) for end in self._behind(port)
        )

    def _from_outside(self, port: Port, own: list[Element]) -> bool:
        def sources(at):
            for before in self._before(at):
                yield from [before.owner] if isinstance(before.owner, Element) else sources(before)

        return any(source not in own for source in sources(port))

    def _dispatch(self, functions: list[Function]):
        outs, lines = {}, ["struct floem_frame floem;", "floem_next(&floem);"]
        lines.append("switch (floem.function) {")
        for function in functions:
            outs[f"call_{function.number}"] = flow.Out(*self._types(function.arguments))
            values = ["floem.at"][: self.ahead]
            words = enumerate(function.arguments)
            values += [self._word(ty, f"floem.in[{at}]") for at, ty in words]
            lines.append(
                f"case {function.number}: call_{function.number}({', '.join(values)}); break;"
            )
        made = _element("Dispatch", flow.In(step=Step), outs)
        made.body, made.opaque, made.looked_at = "\n".join([*lines, "}"]), True, True
        made.includes, made.has = self._includes(), self._has()
        return made()

    def _enter(self, function: Function) -> flow.Element:
        """The fork of a function: everything that a call starts."""
        values = {f"a{at}": ty for at, ty in enumerate(self._types(function.arguments))}
        outs = {
            f"start_{at}": flow.Out(*self._types(types))
            for at, (_, types) in enumerate(function.starts)
        }
        made, given, lines = _element(f"Enter{function.number}", flow.In(**values), outs), 0, []
        for at, (_, types) in enumerate(function.starts):
            own = [*range(self.ahead), *(self.ahead + given + n for n in range(len(types)))]
            lines.append(f"start_{at}({', '.join(f'a{n}' for n in own)});")
            given += len(types)
        made.body = "\n".join(lines)
        return made()

    def _returns(self, function: Function, api: Api) -> None:
        if function.returns is None:
            return
        values = {f"v{at}": ty for at, ty in enumerate(self._types([function.returns]))}
        made = _element("Return", flow.In(**values), {})
        made.body = f"floem_answer((uint64_t)v{self.ahead});"
        made.opaque = made.looked_at = True
        made.includes, made.has = self._includes(), self._has()
        if api.segment is not None:
            ends = [port for port in ports(api.segment, Output) if port is not api.segment.core_id]
        else:
            own = [e for each in api.elements or [] for e in self._inside(each)]
            ends = [port for e in own for port in ports(e, Output) if self._ends(port)]
        element = made(f"return_{function.number}")
        for end in ends:
            self.returning[end] = element

    # -- elements ----------------------------------------------------------------------------------

    def _flow_element(self, element: Element) -> flow.Element:
        if element not in self.made:
            self.made[element] = self._make(element)
            for port in ports(element, Output):
                out = self.made[element].outputs[port.name]
                if port in self.returning:
                    out >> self.returning[port]
                else:
                    self._wire(out, self._behind(port), port.types, port)
        return self.made[element]

    def _put(self, element: queues.Enqueue, end: Port) -> flow.Element:
        """The element that puts packets into one channel of a queue."""
        if end not in self.puts:
            smart, channel = element.smart, element.inp.index(end)
            state = self._state_of(element)
            cleaner = next(
                (e for e in self.elements if isinstance(e, queues.Clean) and e.smart is smart), None
            )
            self.number += 1
            made = _element(f"Enqueue{self.number}", flow.In(), {})
            made.state, made.tables, made.fires = state, smart.made(state), "many"
            for port in [*ports(element, Output)]:
                setattr(made, port.name, flow.Out())
            for at, _ in enumerate(cleaner.out if cleaner is not None else []):
                setattr(made, f"clean{at}", flow.Out())
            made.body = queues.enqueue_body(smart, channel, cleaner is not None)
            self.puts[end] = made()
            for port in ports(element, Output):
                self._wire(self.puts[end].outputs[port.name], self._behind(port), [])
            for at, port in enumerate(cleaner.out if cleaner is not None else []):
                self._wire(self.puts[end].outputs[f"clean{at}"], self._behind(port), [])
        return self.puts[end]

    def _edge(self, element: caches.Edge, made: type) -> flow.Element:
        """An end of a cache's region. From a start, `near` goes to what is behind the end."""
        if not element.held.plain:
            raise Unsupported("caches of addresses")
        made.tables = (element.held.made(type_of),)
        if element.held.state is not None:
            made.state = self._state_of(element)
        near = element.start and (element.get or element.held.back)
        if near:
            alike = [
                e for e in self.elements if isinstance(e, caches.Edge) and e.held is element.held
            ]
            ends = [
                e
                for e in alike
                if e.get == element.get and not e.start and e.of_segment is element.of_segment
            ]
            if len(ends) != 1:
                raise Unsupported("a cache whose region does not end where it starts")
            made.near = flow.Out(*map(type_of, ends[0].out.types))
        made.body = caches.body(element)
        if not near:
            return made()
        self.made[element] = made()
        self._wire(self.made[element].outputs["near"], self._behind(ends[0].out), ends[0].out.types)
        return self.made[element]

    def _state_of(self, element: Element) -> type:
        if element.of_flow is None or element.of_flow.state is None:
            raise Unsupported("a state that no flow has")
        return self._state(element.of_flow.state.state)

    def _make(self, element: Element) -> flow.Element:
        inputs, outputs = ports(element, Input), ports(element, Output)
        values = {port: [f"{port.name}_{at}" for at in range(len(port.types))] for port in inputs}
        self.number += 1
        made = _element(f"{type(element).__name__}{self.number}", None, {})
        for port in inputs:
            named = dict(zip(values[port], map(type_of, port.types), strict=True))
            setattr(made, port.name if len(inputs) > 1 else "inp", flow.In(**named))
        if not inputs:
            made.inp = flow.In()
        for port in outputs:
            setattr(made, port.name, flow.Out(*map(type_of, port.types)))
        if isinstance(element, queues.Dequeue):
            made.state = self._state_of(element)
            made.tables, made.body = (
                element.smart.made(made.state),
                queues.dequeue_body(element.smart),
            )
            return made()
        if isinstance(element, caches.Edge):
            return self._edge(element, made)
        code = element.c or ""
        names = [port.name for port in outputs]
        made.body = convert(code, {port.name: values[port] for port in inputs}, names) or ";"
        if re.search(r"\bstate\s*(->|\.)", made.body):
            made.state = self._state_of(element)
        bindings = [
            f"struct {type(instance).__name__} *{name} = &{self.instances[instance]};"
            for name, instance in element.bound.items()
        ]
        made.body = "\n".join([*bindings, made.body])
        if outputs:
            made.fires = fires(code)
        if re.search(r"\boutput\s+multiple\b", code):
            made.calls, made.opaque = SEVERAL, True
        plain = (
            re.fullmatch(r"[^\"#]*", made.body)
            and not bindings
            and not re.search(r"\b(printf|print_)", made.body)
        )
        if not plain or self.request.include.strip() or self.world.regions:
            made.opaque, made.includes, made.has = True, self._includes(), self._has()
        elif made.opaque:
            made.includes, made.has = self._includes(), self._has()
        return made()

    def _state(self, state: type) -> type:
        if state not in self.states:
            fields, queued = (
                {},
                any(isinstance(e, (queues.Enqueue, caches.Edge)) for e in self.elements),
            )
            for name, field in model.fields_of(state).items():
                ty = field.type if isinstance(field.type, str) else ""
                if isinstance(field.type, model.Array) or field.size is not None:
                    raise Unsupported("fields that are arrays or have a size")
                fields[name] = flow.Field(
                    type_of(ty or model.type_name(field.type)), initial=0 if queued else None
                )
            if not fields:
                raise Unsupported("a state without fields")
            self.states[state] = type(flow.State)(state.__name__, (flow.State,), fields)
        return self.states[state]

    # -- what opaque bodies share ------------------------------------------------------------------

    def _share(self) -> None:
        """The header of all opaque bodies, and the file with memory that they share."""
        bound = [instance for element in self.elements for instance in element.bound.values()]
        structs, variables, defined = [], [], []
        for at, instance in enumerate(dict.fromkeys(bound)):
            name = type(instance).__name__
            members = model.fields_of(type(instance))
            if any(not isinstance(field.type, str) for field in members.values()):
                raise Unsupported("memory of elements with states inside")
            struct = f"struct {name} {{ {' '.join(f'{field.type} {n};' for n, field in members.items())} }};"
            if struct not in structs:
                structs += [struct]
            self.instances[instance] = f"{name}_{at}"
            variables.append(f"extern struct {name} {name}_{at};")
            first = ", ".join(f".{n} = {value}" for n, value in instance.at_first.items())
            defined.append(f"struct {name} {name}_{at} = {{ {first} }};")
        for name, size, begin in self.world.regions:
            if begin:
                raise Unsupported("a region that C fills at first")
            variables.append(f"extern unsigned char {name}[{size}];")
            defined.append(f"unsigned char {name}[{size}] __attribute__((aligned(64)));")
        self.header = "\n".join([_HEADER, *structs, *variables, self._own_c(), ""])
        (self.folder / "floem_elements.h").write_text(self.header)
        self.shared = "\n".join(['#include "floem_elements.h"', *defined, ""])
        (self.folder / "floem_shared.c").write_text(self.shared)

    def _own_c(self) -> str:
        """The module's own C, which is one file's: where several include it, functions are one all
        the same."""
        lines = self._absolute(self.request.include).splitlines()
        included = [line for line in lines if line.lstrip().startswith("#")]
        written = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
        if written.strip() and not re.search(r"\bstatic\b", written):
            begin = "#pragma clang attribute push(__attribute__((weak)), apply_to = function)"
            return "\n".join([*included, begin, written, "#pragma clang attribute pop"])
        return "\n".join([*included, written])

    @staticmethod
    def _absolute(include: str) -> str:
        """Headers beside the module by their whole path: elements are compiled elsewhere."""

        def place(found: re.Match) -> str:
            beside = pathlib.Path.cwd() / found[1]
            return f'#include "{beside if beside.is_file() else found[1]}"'

        return re.sub(r'#\s*include\s*"([^"]+)"', place, include)

    def _includes(self) -> tuple[str, ...]:
        return (f'"{self.folder / "floem_elements.h"}"',)

    def _has(self) -> tuple[str, ...]:
        return (str(self.folder / "floem_shared.c"), *map(str, calls.objects(self)))


def _element(name: str, inp, outs: dict) -> type:
    members = {**({"inp": inp} if inp is not None else {}), **outs}
    return type(name, (flow.Element,), members)


_HEADER = """#pragma once
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "floem_frame.h"
FILE *floem_out(void);
#define printf(...) fprintf(floem_out(), __VA_ARGS__)
"""
