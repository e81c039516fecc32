"""Programs with addresses: packets, entries of queues, states with pointers, arrays, any size.

Values are words: integers as they are, addresses as numbers, and of everything else the address of
a copy. Every body is a function of C in one file that is compiled as it is, with packets as real
memory (runtime.h); in the program it is an opaque element that hands words to that function and
words on. A state is memory, too: its address is the first word of every port.
"""

from __future__ import annotations

import re

from nicforge import flow

from . import caches, calls, ctext, model, queues
from .body import convert, fires
from .lower import SEVERAL, Function, Lower, _element
from .model import Element, Input, Output, Port, Unsupported, ports

#: Words of a port at most (frame.h).
WORDS = 16


def _order(code: str, outputs: list[Port]) -> list[Port]:
    """Outputs in the order in which an output block calls them."""
    block = re.search(r"\boutput\s*\{(.*)", code, re.S)
    text = block[1] if block else ""
    at = {port: re.search(rf"\b{port.name}\s*\(", text) for port in outputs}
    return sorted(outputs, key=lambda port: at[port].start() if at[port] else 0)


class Memory(Lower):
    """Lowers a module whose values are words."""

    #: Words in front of a port's own: the state.
    ahead = 1

    def __init__(self, module, request, folder):
        super().__init__(module, request, folder)
        #: Bodies as C, by their numbers.
        self.bodies: list[str] = []
        self.numbers: dict[Element, int] = {}
        #: Mailboxes between threads, and the functions that fill them.
        self.boxes: dict[tuple[Port, Port], int] = {}
        self.givers_of: dict[int, int] = {}

    def _share(self) -> None:
        """Bodies share what their file has."""

    def _includes(self) -> tuple[str, ...]:
        return (f'"{self.folder / "floem_frame.h"}"',)

    def _has(self) -> tuple[str, ...]:
        return tuple(map(str, calls.objects(self)))

    def _types(self, types) -> list:
        return [flow.u64] * (self.ahead + len(types))

    def _word(self, ty: str, word: str) -> str:
        return word

    # -- threads -----------------------------------------------------------------------------------

    def _thread(self, element: Element):
        """What runs an element: a segment, or a thread that names it."""
        if element.of_segment is not None:
            return element.of_segment
        for thread in [*self.world.apis, *self.world.segments]:
            if model.active(thread.modes, self.request.mode) and element in [
                one
                for each in getattr(thread, "elements", None) or []
                for one in self._inside(each)
            ]:
                return thread
        if ports(element, Input):
            return None
        return next(
            (edge.segment for edge in self.edges if edge.source.owner is element and edge.segment),
            None,
        )

    def _crosses(self, source: Port, end: Port) -> bool:
        """Whether a way leads from one thread to another, and is a mailbox."""
        one, other = self._thread(source.owner), self._thread(end.owner)
        return None not in (one, other) and one is not other

    def _others(self, apis):
        made = []
        for segment in self.world.segments:
            if getattr(segment, "callable", False):
                continue
            if not model.active(segment.modes, self.request.mode):
                continue
            if isinstance(segment, model.InternalThread):
                made.append(model.Api(segment.name, None, None, elements=segment.elements))
            else:
                made.append(model.Api(segment.name, None, None, segment=segment))
            number = len(apis) + len(made) - 1
            self.ticks += [(number, core) for core in segment.cores]
        if not apis and not made:
            alone = [e for e in self.elements if not ports(e, Input) and not ports(e, Output)]
            made += [model.Api(e.name, [], None, elements=[e]) for e in alone]
        return made

    def _function(self, number, api) -> Function:
        thread = api.segment
        if thread is not None:
            order = list(thread.args_order())
            starts = [(port, self._taken(port)) for port in order]
            own = [e for e in self.elements if self._thread(e) is thread]
            outs = [port for port in ports(thread, Output) if port is not thread.core_id]
            returns = self._returned(outs)
            if self._behind(thread.core_id):
                starts.append((thread.core_id, ["int"]))
        else:
            own = [e for each in api.elements or [] for e in self._inside(each)]
            free = [port for e in own for port in ports(e, Input) if not self._sources(port)]
            starts = [(port, port.types) for port in free]
            returns = api.returns
        arguments = [ty for _, types in starts for ty in types]
        for port in (port for e in own for port in ports(e, Input)):
            crossing = [source for source in self._sources(port) if self._crosses(source, port)]
            starts += [(self._box(source, port), []) for source in crossing]
        for source in (port for e in own for port in ports(e, Output)):
            for end in self._behind(source):
                if isinstance(end.owner, Element) and self._crosses(source, end):
                    self.givers_of[self._box(source, end)[0]] = number
        alone = [
            e for e in own if not ports(e, Input) and not isinstance(e, (queues.Clean, caches.Edge))
        ]
        # What runs after others begins after them.
        alone.sort(key=lambda e: any(other is e for _, other in self.world.orders))
        starts += [(e, []) for e in alone]
        if not starts:
            raise Unsupported("a function with nothing to run")
        if len(arguments) + 1 > WORDS:
            raise Unsupported(f"a function of more than {WORDS - 1} arguments")
        return Function(api.name, number, arguments, returns, api.default, starts)

    def _returned(self, outs: list[Port]) -> str | None:
        if not outs:
            return None
        types = [ty for source in self._sources(outs[0]) for ty in source.types[:1]]
        return (types or outs[0].types or [None])[0]

    def _sources(self, port: Port) -> list[Port]:
        """Outputs of elements that lead to a port."""
        found = []
        for before in self._before(port):
            inside = isinstance(before.owner, Element)
            found += [before] if inside else self._sources(before)
        return found

    def _box(self, source: Port, end: Port) -> tuple[int, Port]:
        number = self.boxes.setdefault((source, end), len(self.boxes))
        return number, end

    # -- elements ----------------------------------------------------------------------------------

    def _start(self, made, start, types) -> None:
        if not isinstance(start, tuple):
            return super()._start(made, start, types)
        number, end = start
        self.number += 1
        take = _element(f"Take{self.number}", flow.In(at=flow.u64), {})
        take.out = flow.Out(*self._types(end.types))
        values = "".join(f", floem.calls[0].words[{at}]" for at in range(len(end.types)))
        self._opaque(
            take,
            f"struct floem_frame floem; if (floem_take({number}, &floem))"
            f" out(floem.calls[0].at{values});",
        )
        box = take()
        made >> box
        self._wire(box.outputs["out"], [end], end.types)

    def _wire(self, made, ends, types, source: Port | None = None) -> None:
        kept = []
        for end in ends:
            crosses = source is not None and isinstance(end, Port)
            if not (crosses and isinstance(end.owner, Element) and self._crosses(source, end)):
                kept.append(end)
                continue
            number, _ = self._box(source, end)
            self.number += 1
            values = {f"v{at}": flow.u64 for at in range(1 + len(types))}
            put = _element(f"Put{self.number}", flow.In(**values), {})
            words = "".join(
                f" floem.calls[0].words[{at}] = v{at + 1};" for at in range(len(end.types))
            )
            self._opaque(
                put,
                f"struct floem_frame floem; floem.calls[0].at = v0;{words}"
                f" floem_put({number}, &floem);",
            )
            made >> put()
        if kept or not ends:
            super()._wire(made, kept, types, source)

    def _make(self, element: Element) -> flow.Element:
        if isinstance(element, caches.Edge):
            return self._edge(element)
        if isinstance(element, queues.Dequeue):
            code = self._c("dequeue", element)
            return self._element_of(element, code, "zero-or-one")
        if element.c is None and element.cavium is not None:
            raise Unsupported(f"a body for the NIC only ({element.name})")
        code = element.c or ""
        return self._element_of(element, code, fires(code))

    def _c(self, what: str, element, *more) -> str:
        state = self._state_name(element)
        if what == "enqueue" and "qid" not in ctext._fields(state):
            raise Unsupported("a smart queue of a state without `qid`")
        return getattr(ctext, what)(element, state, *more)

    def _state_name(self, element: Element) -> str:
        if element.of_flow is None or element.of_flow.state is None:
            raise Unsupported(f"a state that no flow has ({element.name})")
        return element.of_flow.state.state.__name__

    def _put(self, element: queues.Enqueue, end: Port) -> flow.Element:
        if end not in self.puts:
            channel = element.inp.index(end)
            cleaner = next(
                (
                    e
                    for e in self.elements
                    if isinstance(e, queues.Clean) and e.smart is element.smart
                ),
                None,
            )
            outs = ports(element, Output)
            cleans = cleaner.out if cleaner is not None else []
            code = self._c("enqueue", element, channel, len(outs) if cleans else None)
            every = [(port.name, port) for port in outs]
            every += [(f"clean{at}", port) for at, port in enumerate(cleans)]
            self.number += 1
            self.puts[end] = self._opaque_element(
                f"Enqueue{self.number}",
                {"inp": []},
                [(name, []) for name, _ in every],
                self._body(element, code, {}, []),
                "many" if cleans else "all" if outs else None,
            )
            for name, port in every:
                self._wire(self.puts[end].outputs[name], self._behind(port), [], port)
        return self.puts[end]

    def _edge(self, element: caches.Edge) -> flow.Element:
        held, near = element.held, element.start and (element.get or element.held.back)
        code = ctext.edge(element)
        outs = [(element.out.name, element.out.types)]
        end = None
        if near:
            alike = [
                e
                for e in self.elements
                if isinstance(e, caches.Edge)
                and e.held is held
                and e.get == element.get
                and not e.start
            ]
            same = [e for e in alike if e.of_segment is element.of_segment]
            alike = same or alike
            if len(alike) != 1:
                raise Unsupported("a cache whose region does not end once")
            end = alike[0]
            outs.append(("near", end.out.types))
        text = self._body(element, code, {element.inp.name: element.inp.types}, outs)
        made = self._opaque_element(
            f"Edge{self.number}",
            {element.inp.name: element.inp.types},
            outs,
            text,
            "one" if near else "all",
        )
        self.number += 1
        self.made[element] = made
        if near:
            self._wire(made.outputs["near"], self._behind(end.out), end.out.types, end.out)
        return made

    def _element_of(self, element: Element, code: str, fires_: str | None) -> flow.Element:
        inputs = {port.name: port.types for port in ports(element, Input)}
        outs = [(port.name, port.types) for port in _order(code, ports(element, Output))]
        number = self._body(element, code, inputs, outs)
        self.number += 1
        name = f"{type(element).__name__}{self.number}"
        return self._opaque_element(name, inputs, outs, number, fires_ if outs else None)

    def _body(self, element: Element, code: str, inputs: dict, outs: list) -> int:
        """Writes a body as a function of C; its number."""
        number = len(self.bodies)
        self.numbers[element] = number
        values = {
            name: [f"{name}_{at}" for at in range(len(types))] for name, types in inputs.items()
        }
        text = convert(code, values, [name for name, _ in outs])
        before = [one for one, other in self.world.orders if other is element]
        waits = before if not ports(element, Input) else []
        state = ""
        if re.search(r"\bstate\s*(->|\.)", text):
            name = self._state_name(element)
            state = f"struct {name} *state = (struct {name} *)(uintptr_t)floem->at;"
        bindings = [
            f"{type(instance).__name__} *{name} = {ctext.instance(self.world, instance)};"
            for name, instance in element.bound.items()
        ]
        self.bodies.append(
            ctext.Body(number, inputs, values, outs, text, [state, *bindings], waits)
        )
        return number

    def _opaque_element(self, name: str, inputs: dict, outs: list, body: int, fires_):
        """The element that runs a body: words in, words out."""
        made, lines = _element(name, None, {}), ["struct floem_frame floem;"]
        ats, at = [], 0
        for port, types in inputs.items():
            values = {
                f"{port}_at": flow.u64,
                **{f"{port}_{n}": flow.u64 for n in range(len(types))},
            }
            setattr(made, port if len(inputs) > 1 else "inp", flow.In(**values))
            ats.append(f"{port}_at")
            for n in range(len(types)):
                lines.append(f"floem.in[{at}] = {port}_{n};")
                at += 1
        if not inputs:
            made.inp = flow.In(at=flow.u64)
            ats.append("at")
        if at > WORDS or any(len(types) > WORDS for _, types in outs):
            raise Unsupported(f"ports of more than {WORDS} values")
        lines.append(f"floem.at = {' : '.join(f'{one} ? {one}' for one in ats)} : 0;")
        lines.append(f"floem_run({body}, &floem);")
        for port, types in outs:
            setattr(made, port, flow.Out(*self._types(types)))
        lines += ctext.glue(outs, fires_)
        made.fires = fires_ if outs else None
        if fires_ == "many":
            made.calls = SEVERAL
        self._opaque(made, "\n".join(lines))
        return made()

    def _opaque(self, made: type, body: str) -> None:
        made.body, made.opaque, made.looked_at = body, True, True
        made.includes, made.has = self._includes(), self._has()
