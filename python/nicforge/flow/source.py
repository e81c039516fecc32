"""A program as C for the compiler, with where each line was written.

Every element becomes a static function, every output a function that calls what is behind it, every
queue a handler (`nf_enqueue`), and `FromNet` the handler of packets. A packet's state is a variable
of the handler, which functions get by its address and queues by value; what waits for a join is a
variable of its fork.
"""

from __future__ import annotations

import dataclasses

from . import bodies, opaque
from .element import Element, Input, Port, Queue, structs_of
from .errors import Place
from .joins import Join
from .library import FromHost, FromNet
from .queues import Queues, where
from .state import State, arrows, declared, guards, parameter, parts, variable
from .types import Type


@dataclasses.dataclass(frozen=True)
class Source:
    """The C of a program: its lines, and where each was written (None for what was made here).

    elements: of which element a line is; bodies: the lines, counted from 1, that a body has;
    queues: by the names of their handlers.
    """

    lines: list[str]
    places: list[Place | None]
    elements: list[Element | None]
    bodies: set[int]
    queues: dict[str, Queue]

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def place(self, line: int) -> Place | None:
        """Where a line, counted from 1, was written."""
        return self.places[line - 1] if 0 < line <= len(self.places) else None

    def element(self, line: int) -> Element | None:
        """The element whose line it is."""
        return self.elements[line - 1] if 0 < line <= len(self.elements) else None


def write(program, infer: bool = False) -> Source:
    """A program's C. `infer`: it asks the compiler for the firing classes that are not declared."""
    return _Writer(program, infer).source()


class _Writer:
    def __init__(self, program, infer: bool):
        self.program, self.infer = program, infer
        self.lines: list[str] = []
        self.places: list[Place | None] = []
        self.owners: list[Element | None] = []
        self.bodies: set[int] = set()
        self.queues = Queues(program, self)
        self.joins: dict[Element, Join] = {join.element: join for join in program.joins}

    def add(self, *lines: str, place: Place | None = None, element: Element | None = None) -> None:
        self.lines.extend(lines)
        self.places.extend([place] * len(lines))
        self.owners.extend([element] * len(lines))

    def source(self) -> Source:
        program = self.program
        self.add(
            f"/* {program.name}: made from {program.place.file.rsplit('/', 1)[-1]}. */",
            "#include <nicforge.h>",
            "",
        )
        self.add(f"NF_PORTS({program.ports});", "")
        tables = program.tables()
        for struct in structs_of(self._types(tables)):
            self.add(*struct.definition().split("\n"), "")
        for external in program.externals():
            self.add(external.declaration(), place=external.place)
        for one in program.opaque.values():
            self.add(opaque.declaration(one), place=one.element.defined, element=one.element)
        for state in program.all_states():
            for line, place in guards(state):
                self.add(line, place=place)
        for table in [
            *tables,
            *(table for queue in program.queues for table in self.queues.tables(queue)),
        ]:
            self.add(*table.definition().split("\n"), place=table.place)
        self.add("")
        for queue in program.queues:
            self.queues.declare(queue)
        for element in program.elements:
            if element.inp is not None:
                self.add(f"static void {self.name_of(element)}({self._parameters(element)});")
                self.add(
                    *(
                        f"static void {self.name_of(one)}({self._parameters(one)});"
                        for one in element.inputs.values()
                    )
                )
        for queue in program.queues:
            self.queues.send(queue)
        for element in program.elements:
            self._element(element)
        for queue in program.queues:
            self.queues.handle(queue)
        return Source(self.lines, self.places, self.owners, self.bodies, self.queues.by_handler())

    def _types(self, tables: list) -> list[Type]:
        program = self.program
        types: list[Type] = [
            ty
            for element in program.elements
            for port in element.outputs.values()
            for ty in port.types
        ]
        types += [ty for table in tables for ty in (table.key, table.value)]
        types += [struct for element in program.elements for struct in element.structs]
        for state in program.all_states():
            types += [*(field.type for field in state.fields.values()), state.struct]
            types += [
                part
                for _, field in variable(state)
                for alone in (True, False)
                for part in parts(field, alone)
            ]
        types += [ty for join in self.joins.values() for ty in join.waits.values()]
        return types + [join.struct for join in self.joins.values() if join.struct is not None]

    # -- what functions get beside values ----------------------------------------------------------

    def name_of(self, of: Element | Input) -> str:
        if isinstance(of, Input):
            return f"{self.program.functions[of.element]}_{of.name}"
        return self.program.functions[of]

    def _needs(self, of: Element | Input) -> tuple[list[type[State]], list[Join]]:
        """The states and joins that an element, or an input of one, gets by their address."""
        element = of.element if isinstance(of, Input) else of
        own = (
            [self.joins[element]]
            if isinstance(of, Input) and self.joins[element].struct is not None
            else []
        )
        return self.program.states[element], [*self.program.waiting[element], *own]

    def _port_needs(self, port: Port) -> tuple[list[type[State]], list[Join]]:
        """The same for an output: what all that it leads to need."""
        states, joins = [], []
        for to in port.to:
            more = (
                (self.program.states[to.to], self.queues.joins(to))
                if isinstance(to, Queue)
                else self._needs(to)
            )
            states += [state for state in more[0] if state not in states]
            joins += [join for join in more[1] if join not in joins]
        return states, joins

    def _parameters(self, of: Element | Input) -> str:
        element = of.element if isinstance(of, Input) else of
        values = of.values if isinstance(of, Input) else element.inp.values
        states, joins = self._needs(of)
        own = None if isinstance(of, Input) else element.state
        words = [ty.declare(name) for name, ty in values.items()]
        words += [f"{state.struct.c} *{parameter(state, own)}" for state in states]
        return (
            ", ".join([*words, *(f"{join.struct.c} *{join.variable}" for join in joins)]) or "void"
        )

    # -- elements ----------------------------------------------------------------------------------

    def _element(self, element: Element) -> None:
        name = self.name_of(element)
        self.add("")
        for port in element.outputs.values():
            self._port(name, port)
        if isinstance(element, FromNet):
            if element.segment is not None:
                self.add(
                    *where(element.segment.device, element.segment.replicas),
                    place=element.segment.place,
                )
            self._begin("void net_recv(nf_pkt pkt)", element, "pkt")
            return
        if isinstance(element, FromHost):
            self._begin(f"void host_send({element.message.declare('message')})", element, "message")
            return
        for one in element.inputs.values():
            self._input(self.joins[element], one)
        forks = [join for join in self.joins.values() if join.fork is element]
        self._fires(element, forks)
        # Outputs as macros with arguments: a member of the same name is left alone.
        for port in element.outputs.values():
            states, joins = self._port_needs(port)
            more = [parameter(state, element.state) for state in states]
            more += [f"&{join.variable}" if join in forks else join.variable for join in joins]
            words = ", ".join([*(["__VA_ARGS__"] if port.types or not more else []), *more])
            self.add(f"#define {port.name}(...) {name}_{port.name}({words})")
        self.add(*(f"#define {word} {value}" for word, value in element.constants.items()))
        self.add(
            f"static void {name}({self._parameters(element)})", place=element.place, element=element
        )
        self.add("{")
        for join in forks:
            if join.struct is not None:
                self.add(f"    {join.struct.c} {join.variable};")
        for target, directive in bodies.in_order(element, self.program.opaque):
            self.add(*([directive] if directive else []))
            if (element, target) in self.program.opaque:
                for line, place in opaque.wrapper(self.program.opaque[element, target]):
                    self.add(f"    {line}", place=place, element=element)
                continue
            for line, place in self._body(element, target):
                self.bodies.add(len(self.lines) + 1)
                self.add(f"    {line}" if line.strip() else "", place=place, element=element)
        self.add(*(["#endif"] if element.bodies else []))
        self.add("}", place=element.place, element=element)
        self.add(*(f"#undef {word}" for word in [*element.outputs, *element.constants]))

    @staticmethod
    def _body(element: Element, target: str) -> list[tuple[str, Place]]:
        lines = element.lines(target)
        if element.state is None:
            return lines
        texts = arrows("\n".join(line for line, _ in lines)).split("\n")
        return [(text, place) for text, (_, place) in zip(texts, lines, strict=True)]

    def _begin(self, head: str, element: Element, value: str) -> None:
        """The handler with which a program begins."""
        states = self.program.states[element]
        self.add(head, "{", *(f"    {declared(state, parameter(state, None))}" for state in states))
        call = ", ".join(
            [
                value,
                *(
                    f"&{parameter(state, None)}"
                    for state in self._port_needs(element.outputs["out"])[0]
                ),
            ]
        )
        self.add(f"    {self.name_of(element)}_out({call});", "}")

    def _port(self, name: str, port: Port) -> None:
        values = [f"value_{at}" for at in range(len(port.types))]
        states, joins = self._port_needs(port)
        words = [ty.declare(value) for ty, value in zip(port.types, values, strict=True)]
        words += [f"{state.struct.c} *{parameter(state, None)}" for state in states]
        words += [f"{join.struct.c} *{join.variable}" for join in joins]
        self.add(f"static void {name}_{port.name}({', '.join(words) or 'void'})", "{")
        for to in self.program.orders[port]:
            if isinstance(to, Queue):
                self.add(
                    f"    {self.queues.call(to, values)}", place=port.place, element=port.element
                )
                continue
            states, joins = self._needs(to)
            call = [
                *values,
                *(parameter(state, None) for state in states),
                *(join.variable for join in joins),
            ]
            self.add(
                f"    {self.name_of(to)}({', '.join(call)});",
                place=port.place,
                element=port.element,
            )
        self.add("}")

    def _fires(self, element: Element, forks: list[Join]) -> None:
        """What the compiler is to count."""
        name = self.name_of(element)
        outputs = [f"{name}_{port}" for port in element.outputs]
        if outputs and (element.fires is not None or self.infer):
            word = (element.fires or "many").replace("-", "_")
            self.add(f"NF_FIRES({word}, {name}, {', '.join(outputs)})", place=element.place)
        for join in forks:
            inputs = sorted(join.element.inputs.values(), key=lambda one: one is join.last)
            word, names = (
                "together" if join.last is None else "last",
                [self.name_of(one) for one in inputs],
            )
            if join.late is not None:
                names[-1] = self.queues.entrance(join.queues[0])
            self.add(f"NF_FIRES({word}, {name}, {', '.join(names)})", place=join.element.place)
        for join in self.joins.values():
            if any(queue.to is element for queue in join.queues):
                self.add(
                    f"NF_FIRES(zero_or_one, {name}, {self.name_of(join.late)})",
                    place=join.element.place,
                )

    def _input(self, join: Join, one: Input) -> None:
        """What feeds a join."""
        element, of = join.element, join.variable
        self.add(f"static void {self.name_of(one)}({self._parameters(one)})", "{")
        states, joins = self._needs(element)
        more = [*(parameter(state, None) for state in states), *(each.variable for each in joins)]
        if join.last is one:
            call = [name if name in one.values else f"{of}->{name}" for name in element.inp.values]
            self.add(
                f"    {self.name_of(element)}({', '.join([*call, *more])});",
                place=element.place,
                element=element,
            )
        else:
            self.add(*(f"    {of}->{name} = {name};" for name in one.values))
        if join.last is None:
            bit = 1 << list(element.inputs).index(one.name)
            call = [f"{of}->{name}" for name in element.inp.values]
            self.add(
                f"    {of}->fed |= {bit};",
                f"    if ({of}->fed == {(1 << len(element.inputs)) - 1})",
            )
            self.add(
                f"        {self.name_of(element)}({', '.join([*call, *more])});",
                place=element.place,
            )
        self.add("}")
