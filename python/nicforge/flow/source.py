"""A program as C for the compiler, with where each line was written.

Every element becomes a static function, every output a function that calls what is behind it, every queue a handler
(`nf_enqueue`), and `FromNet` the handler of packets. A packet's state is a variable of the handler, which functions get by
its address and queues by value; what waits for a join is a variable of its fork.
"""

from __future__ import annotations

import dataclasses

from .element import Element, Input, Port, Queue, structs_of
from .errors import Place
from .joins import Join
from .library import FromHost, FromNet
from .state import State, arrows, declared, guards, parameter, parts, variable
from .types import Struct, Type


@dataclasses.dataclass(frozen=True)
class Source:
    """The C of a program: its lines, and where each was written (None for what was made here).

    elements: of which element a line is; bodies: the lines, counted from 1, that a body has.
    """

    lines: list[str]
    places: list[Place | None]
    elements: list[Element | None]
    bodies: set[int]

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
        self.joins: dict[Element, Join] = {join.element: join for join in program.joins}

    def add(self, *lines: str, place: Place | None = None, element: Element | None = None) -> None:
        self.lines.extend(lines)
        self.places.extend([place] * len(lines))
        self.owners.extend([element] * len(lines))

    def source(self) -> Source:
        program = self.program
        self.add(f"/* {program.name}: made from {program.place.file.rsplit('/', 1)[-1]}. */", "#include <nicforge.h>", "")
        self.add(f"NF_PORTS({program.ports});", "")
        tables = program.tables()
        for struct in structs_of(self._types(tables)):
            self.add(*struct.definition().split("\n"), "")
        for state in program.all_states():
            for line, place in guards(state):
                self.add(line, place=place)
        for table in tables:
            self.add(table.definition(), place=table.place)
        self.add("")
        for queue in program.queues:
            for name, extra in self._handlers(queue):
                self.add(f"void {name}({self._handed(queue, extra)});")
        for element in program.elements:
            if element.inp is not None:
                self.add(f"static void {self._name(element)}({self._parameters(element)});")
                self.add(*(f"static void {self._name(one)}({self._parameters(one)});" for one in element.inputs.values()))
        for queue in program.queues:
            self._by_length(queue)
        for element in program.elements:
            self._element(element)
        for queue in program.queues:
            self._queue(queue)
        return Source(self.lines, self.places, self.owners, self.bodies)

    def _types(self, tables: list) -> list[Type]:
        program = self.program
        types: list[Type] = [ty for element in program.elements for port in element.outputs.values() for ty in port.types]
        types += [ty for table in tables for ty in (table.key, table.value)]
        types += [struct for element in program.elements for struct in element.structs]
        for state in program.all_states():
            types += [*(field.type for field in state.fields.values()), state.struct]
            types += parts(state) if variable(state) else []
        types += [ty for join in self.joins.values() for ty in join.waits.values()]
        return types + [join.struct for join in self.joins.values() if join.struct is not None]

    # -- what functions get beside values --------------------------------------------------------------------------------

    def _name(self, of: Element | Input) -> str:
        if isinstance(of, Input):
            return f"{self.program.functions[of.element]}_{of.name}"
        return self.program.functions[of]

    def _needs(self, of: Element | Input) -> tuple[list[type[State]], list[Join]]:
        """The states and joins that an element, or an input of one, gets by their address."""
        element = of.element if isinstance(of, Input) else of
        own = [self.joins[element]] if isinstance(of, Input) and self.joins[element].struct is not None else []
        return self.program.states[element], [*self.program.waiting[element], *own]

    def _port_needs(self, port: Port) -> tuple[list[type[State]], list[Join]]:
        """The same for an output: what all that it leads to need."""
        states, joins = [], []
        for to in port.to:
            more = (self.program.states[to.to], []) if isinstance(to, Queue) else self._needs(to)
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
        return ", ".join([*words, *(f"{join.struct.c} *{join.variable}" for join in joins)]) or "void"

    def _handed(self, queue: Queue, part: Struct | None) -> str:
        """The parameters of a queue's handler."""
        words = [ty.declare(name) for name, ty in queue.to.inp.values.items()]
        words += [f"{state.struct.c} {parameter(state, None)}" for state in self.program.states[queue.to]]
        return ", ".join([*words, *([f"{part.c} part"] if part else [])]) or "void"

    # -- elements --------------------------------------------------------------------------------------------------------

    def _element(self, element: Element) -> None:
        name = self._name(element)
        self.add("")
        for port in element.outputs.values():
            self._port(name, port)
        if isinstance(element, FromNet):
            if element.segment is not None:
                self.add(*_where(element.segment.device, element.segment.replicas), place=element.segment.place)
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
        self.add(f"static void {name}({self._parameters(element)})", place=element.place, element=element)
        self.add("{")
        for join in forks:
            if join.struct is not None:
                self.add(f"    {join.struct.c} {join.variable};")
        for line, place in self._body(element):
            self.bodies.add(len(self.lines) + 1)
            self.add(f"    {line}" if line.strip() else "", place=place, element=element)
        self.add("}", place=element.place, element=element)
        self.add(*(f"#undef {word}" for word in [*element.outputs, *element.constants]))

    @staticmethod
    def _body(element: Element) -> list[tuple[str, Place]]:
        lines = element.lines()
        if element.state is None:
            return lines
        texts = arrows("\n".join(line for line, _ in lines)).split("\n")
        return [(text, place) for text, (_, place) in zip(texts, lines, strict=True)]

    def _begin(self, head: str, element: Element, value: str) -> None:
        """The handler with which a program begins."""
        states = self.program.states[element]
        self.add(head, "{", *(f"    {declared(state, parameter(state, None))}" for state in states))
        call = ", ".join([value, *(f"&{parameter(state, None)}" for state in self._port_needs(element.outputs["out"])[0])])
        self.add(f"    {self._name(element)}_out({call});", "}")

    def _port(self, name: str, port: Port) -> None:
        values = [f"value_{at}" for at in range(len(port.types))]
        states, joins = self._port_needs(port)
        words = [ty.declare(value) for ty, value in zip(port.types, values, strict=True)]
        words += [f"{state.struct.c} *{parameter(state, None)}" for state in states]
        words += [f"{join.struct.c} *{join.variable}" for join in joins]
        self.add(f"static void {name}_{port.name}({', '.join(words) or 'void'})", "{")
        for to in self.program.orders[port]:
            if isinstance(to, Queue):
                self._enqueue(to, values, port)
                continue
            states, joins = self._needs(to)
            call = [*values, *(parameter(state, None) for state in states), *(join.variable for join in joins)]
            self.add(f"    {self._name(to)}({', '.join(call)});", place=port.place, element=port.element)
        self.add("}")

    def _fires(self, element: Element, forks: list[Join]) -> None:
        """What the compiler is to count."""
        name = self._name(element)
        outputs = [f"{name}_{port}" for port in element.outputs]
        if outputs and (element.fires is not None or self.infer):
            word = (element.fires or "many").replace("-", "_")
            self.add(f"NF_FIRES({word}, {name}, {', '.join(outputs)})", place=element.place)
        for join in forks:
            inputs = sorted(join.element.inputs.values(), key=lambda one: one is join.last)
            word, names = "together" if join.last is None else "last", [self._name(one) for one in inputs]
            self.add(f"NF_FIRES({word}, {name}, {', '.join(names)})", place=join.element.place)

    def _input(self, join: Join, one: Input) -> None:
        """What feeds a join."""
        element, of = join.element, join.variable
        self.add(f"static void {self._name(one)}({self._parameters(one)})", "{")
        states, joins = self._needs(element)
        more = [*(parameter(state, None) for state in states), *(each.variable for each in joins)]
        if join.last is one:
            call = [name if name in one.values else f"{of}->{name}" for name in element.inp.values]
            self.add(f"    {self._name(element)}({', '.join([*call, *more])});", place=element.place, element=element)
        else:
            self.add(*(f"    {of}->{name} = {name};" for name in one.values))
        if join.last is None:
            bit = 1 << list(element.inputs).index(one.name)
            call = [f"{of}->{name}" for name in element.inp.values]
            self.add(f"    {of}->fed |= {bit};", f"    if ({of}->fed == {(1 << len(element.inputs)) - 1})")
            self.add(f"        {self._name(element)}({', '.join([*call, *more])});", place=element.place)
        self.add("}")

    # -- queues ----------------------------------------------------------------------------------------------------------

    def _variable(self, queue: Queue) -> type[State] | None:
        """The state of which the queue carries a byte string by its size."""
        return next((state for state in self.program.states[queue.to] if variable(state)), None)

    def _handlers(self, queue: Queue) -> list[tuple[str, Struct | None]]:
        """The handlers behind a queue: one, or one for each length of the state's byte string."""
        state = self._variable(queue)
        if state is None:
            return [(queue.name, None)]
        return [(f"{queue.name}_{part.members['b'].count}", part) for part in parts(state)]

    def _enqueue(self, queue: Queue, values: list[str], port: Port) -> None:
        states = [parameter(state, None) for state in self.program.states[queue.to]]
        if self._variable(queue) is not None:
            line = f"{queue.name}({', '.join([*values, *states])});"
        else:
            line = f"nf_enqueue({', '.join([queue.name, *values, *(f'*{state}' for state in states)])});"
        self.add(f"    {line}", place=port.place, element=port.element)

    def _by_length(self, queue: Queue) -> None:
        """Chooses the handler that takes just enough of the state's byte string."""
        state = self._variable(queue)
        if state is None:
            return
        (field, of), name = variable(state), parameter(state, None)
        states = self.program.states[queue.to]
        words = [ty.declare(value) for value, ty in queue.to.inp.values.items()]
        words += [f"{each.struct.c} *{parameter(each, None)}" for each in states]
        self.add("", f"static void {queue.name}({', '.join(words)})", "{")
        self.add(f"    {state.struct.c} rest = *{name};", f"    rest.{field} = ({of.type.c}){{0}};")
        handed = [*queue.to.inp.values, *("rest" if each is state else f"*{parameter(each, None)}" for each in states)]
        handlers = self._handlers(queue)
        for at, (handler, part) in enumerate(handlers):
            length = part.members["b"].count
            condition = f"if ({name}->{of.size} <= {length}) " if at + 1 < len(handlers) else ""
            self.add(f"    {'else ' if at else ''}{condition}{{", f"        {part.c} part = {{0}};")
            self.add(f"        for (uint32_t i = 0; i < {length}; i++)")
            self.add(f"            part.b[i] = i < {name}->{of.size} ? {name}->{field}.b[i] : 0;")
            self.add(f"        nf_enqueue({', '.join([handler, *handed, 'part'])});", "    }", place=queue.place)
        self.add("}")

    def _queue(self, queue: Queue) -> None:
        state = self._variable(queue)
        states = [parameter(each, None) for each in self.program.states[queue.to]]
        for handler, part in self._handlers(queue):
            self.add("")
            self.add(*_where(queue.side, queue.instances), place=queue.place)
            if not queue.ordered:
                self.add("NF_UNORDERED", place=queue.place)
            self.add(f"void {handler}({self._handed(queue, part)})", place=queue.place)
            self.add("{")
            if part is not None:
                field = variable(state)[0]
                self.add(f"    for (uint32_t i = 0; i < {part.members['b'].count}; i++)")
                self.add(f"        {parameter(state, None)}.{field}.b[i] = part.b[i];")
            words = [*queue.to.inp.values, *(f"&{each}" for each in states)]
            self.add(f"    {self._name(queue.to)}({', '.join(words)});", "}")


def _where(side: str | None, replicas: int | None) -> list[str]:
    """Annotations of a handler."""
    return [*([f"NF_ON({side});"] if side else []), *([f"NF_MAX_REPLICAS({replicas});"] if replicas else [])]
