"""Queues as C: what is enqueued, by whom it is handled, and what is checked before.

A queue is a handler and its `nf_enqueue`. Before it may stand a function that chooses an instance,
and one that chooses how much of a byte string goes along; the handler gets what they found and
calls the element behind the queue. Where a queue leads to the other side of the host link the
second one clears what does not count, since zeros at a string's end do not cross there
(`codegen/xdp/process`, `runtime/host/nf_link_words.h`, `sim`), and one handler does for all
lengths.

**Instances.** The number of an entry's instance goes along, and the handler counts in a table by that number. Accesses of one
entry of a table happen in order and on one core at a time, on all targets and in all plans; so are,
by that, the entries of an instance handled. The table is one by number (`NF_BY_NUMBER`): where the
queue has as many cores as instances, each has the one of its own number, else ranges of them.
"""

from __future__ import annotations

import itertools

from .element import Queue, behind
from .errors import FlowError
from .joins import Join
from .state import BY_SIZE, Field, State, arrows, parameter, parts, variable
from .types import Struct, Table, packet, u32, u64


class Queues:
    """The C of a program's queues; `writer` (of source.py) is where it goes."""

    def __init__(self, program, writer=None):
        self.program, self.writer = program, writer
        self.crossing = crossing(program)

    def _states(self, queue: Queue) -> list[type[State]]:
        return self.program.states[queue.to]

    def _strings(self, queue: Queue) -> list[tuple[type[State], str, Field]]:
        """The byte strings that have sizes, with their states."""
        return [
            (state, name, field) for state in self._states(queue) for name, field in variable(state)
        ]

    def _by_size(self, queue: Queue) -> list[tuple[type[State], str, Field]]:
        """Those of them that a handler gets beside their states."""
        strings = self._strings(queue)
        return strings if queue in self.crossing else strings[:BY_SIZE]

    def _sizing(self, queue: Queue) -> str:
        """The function that looks at lengths."""
        return f"{queue.name}_cut" if queue in self.crossing else queue.name

    def _handlers(self, queue: Queue) -> list[tuple[str, tuple[Struct, ...]]]:
        """The handlers behind a queue: one, or one for each length of its byte strings, the
        shortest first."""
        strings = self._by_size(queue)
        if queue in self.crossing:
            return [(queue.name, tuple(field.type for _, _, field in strings))]
        chosen = itertools.product(*(parts(field, len(strings) == 1) for _, _, field in strings))
        return [("_".join([queue.name, *(str(_length(part)) for part in of)]), of) for of in chosen]

    def by_handler(self) -> dict[str, Queue]:
        """The queues by the names of their handlers."""
        return {name: queue for queue in self.program.queues for name, _ in self._handlers(queue)}

    def names(self, queue: Queue) -> list[str]:
        """Names of functions that are the queue's."""
        more = [f"{queue.name}_choose"] if queue.instance is not None else []
        more += [self.entrance(queue)] if self._counted(queue) else []
        more += [self._sizing(queue)] if self._strings(queue) else []
        return [queue.name, *(name for name, _ in self._handlers(queue)), *more]

    def tables(self, queue: Queue) -> list[Table]:
        """Entries handled by each instance, and entries of no instance that have no packet to
        drop."""
        if queue.instance is None:
            return []
        tables = [
            Table(
                f"{queue.name}_handled",
                "array",
                u32,
                u64,
                queue.instances,
                queue.place,
                by_number=True,
            )
        ]
        if packet not in queue.to.inp.types:
            tables.append(Table(f"{queue.name}_refused", "array", u32, u64, 1, queue.place))
        return tables

    def joins(self, queue: Queue) -> list[Join]:
        """Joins behind the queue whose values wait before it: its entries carry them."""
        return [
            join for join in self.program.joins if queue in join.queues and join.struct is not None
        ]

    def entrance(self, queue: Queue) -> str:
        """The function that enqueues, where somebody counts how often."""
        return f"{queue.name}_enter"

    def _given(self, queue: Queue, own: bool = False) -> list[str]:
        """The parameters of functions before the queue."""
        words = [ty.declare(name) for name, ty in queue.to.inp.values.items()]
        name = queue.to.state if own else None
        words += [f"{state.struct.c} *{parameter(state, name)}" for state in self._states(queue)]
        return [*words, *(f"{join.struct.c} *{join.variable}" for join in self.joins(queue))]

    def _handed(self, queue: Queue, of: tuple[Struct, ...]) -> str:
        """The parameters of a handler."""
        words = [ty.declare(name) for name, ty in queue.to.inp.values.items()]
        words += [f"{state.struct.c} {parameter(state, None)}" for state in self._states(queue)]
        words += [f"{join.struct.c} {join.variable}" for join in self.joins(queue)]
        words += ["uint32_t nf_instance"] if queue.instance is not None else []
        return (
            ", ".join([*words, *(f"{part.c} {_part(at)}" for at, part in enumerate(of))]) or "void"
        )

    def declare(self, queue: Queue) -> None:
        """Prototypes of the handlers."""
        for name, of in self._handlers(queue):
            self.writer.add(f"void {name}({self._handed(queue, of)});")

    # -- before the queue --------------------------------------------------------------------------

    def call(self, queue: Queue, values: list[str]) -> str:
        """The statement by which an output hands something on; it has states and joins by their
        address."""
        states = [parameter(state, None) for state in self._states(queue)]
        joins = [join.variable for join in self.joins(queue)]
        if self._counted(queue):
            return f"{self.entrance(queue)}({', '.join([*values, *states, *joins])});"
        return self._hand(queue, values, [*states, *joins])

    def _counted(self, queue: Queue) -> bool:
        return any(join.queues[:1] == [queue] for join in self.program.joins)

    def _hand(self, queue: Queue, values: list[str], states: list[str]) -> str:
        if queue.instance is not None:
            return f"{queue.name}_choose({', '.join([*values, *states])});"
        return self._onward(queue, values, states, [])

    def _onward(self, queue: Queue, values: list[str], states: list[str], more: list[str]) -> str:
        if self._strings(queue):
            return f"{self._sizing(queue)}({', '.join([*values, *states, *more])});"
        return f"nf_enqueue({', '.join([queue.name, *values, *(f'*{state}' for state in states), *more])});"

    def send(self, queue: Queue) -> None:
        """Functions between outputs and the queue."""
        self._by_length(queue)
        self._choose(queue)
        if self._counted(queue):
            states = [parameter(state, None) for state in self._states(queue)]
            states += [join.variable for join in self.joins(queue)]
            call = self._hand(queue, list(queue.to.inp.values), states)
            self.writer.add(
                "", f"static void {self.entrance(queue)}({', '.join(self._given(queue))})", "{"
            )
            self.writer.add(f"    {call}", "}", place=queue.place)

    def _choose(self, queue: Queue) -> None:
        """Checks the number of the instance."""
        if queue.instance is None:
            return
        add, given = self.writer.add, self._given(queue, own=True)
        carried = next((name for name, ty in queue.to.inp.values.items() if ty is packet), None)
        give_up = f'nf_drop({carried}, "{queue.name}: no such instance");'
        if carried is None:
            give_up = f"nf_add_value(&{queue.name}_refused, 0, 1);"
        add("", f"static void {queue.name}_choose({', '.join(given)})", "{")
        add(f"    uint32_t nf_instance = {arrows(queue.instance)};", place=queue.place)
        add(
            f"    if (nf_instance >= {queue.instances}) {{",
            f"        {give_up}",
            "        return;",
            "    }",
        )
        states = [parameter(state, queue.to.state) for state in self._states(queue)]
        states += [join.variable for join in self.joins(queue)]
        add(
            f"    {self._onward(queue, list(queue.to.inp.values), states, ['nf_instance'])}",
            "}",
            place=queue.place,
        )

    def _by_length(self, queue: Queue) -> None:
        """Chooses the handler that takes just enough of the byte strings."""
        strings = self._by_size(queue)
        if not strings:
            return
        add = self.writer.add
        chosen = [] if queue.instance is None else ["nf_instance"]
        words = [*self._given(queue), *(f"uint32_t {each}" for each in chosen)]
        add("", f"static void {self._sizing(queue)}({', '.join(words)})", "{")
        rest = {state: f"rest_{state.struct.name}" for state, _, _ in self._strings(queue)}
        add(
            *(
                f"    {state.struct.c} {name} = *{parameter(state, None)};"
                for state, name in rest.items()
            )
        )
        for state, name, field in strings:
            add(f"    {rest[state]}.{name} = ({field.type.c}){{0}};")
        for state, name, field in self._strings(queue)[len(strings) :]:
            own = parameter(state, None)
            add(f"    for (uint32_t i = 0; i < {field.type.members['b'].count}; i++)")
            add(
                f"        {rest[state]}.{name}.b[i] = i < {own}->{field.size} ? {own}->{name}.b[i] : 0;"
            )
        states = [rest.get(each, f"*{parameter(each, None)}") for each in self._states(queue)]
        states += [f"*{join.variable}" for join in self.joins(queue)]
        handlers = self._handlers(queue)
        for number, (handler, of) in enumerate(handlers):
            fits = [
                f"{parameter(state, None)}->{field.size} <= {_length(part)}"
                for (state, _, field), part in zip(strings, of, strict=True)
                if part is not field.type
            ]
            condition = f"if ({' && '.join(fits)}) " if fits else ""
            add(f"    {'else ' if number else ''}{condition}{{")
            for at, ((state, name, field), part) in enumerate(zip(strings, of, strict=True)):
                own = parameter(state, None)
                add(f"        {part.c} {_part(at)} = {{0}};")
                add(f"        for (uint32_t i = 0; i < {_length(part)}; i++)")
                add(
                    f"            {_part(at)}.b[i] = i < {own}->{field.size} ? {own}->{name}.b[i] : 0;"
                )
            call = ", ".join(
                [
                    handler,
                    *queue.to.inp.values,
                    *states,
                    *chosen,
                    *(_part(at) for at in range(len(of))),
                ]
            )
            add(f"        nf_enqueue({call});", "    }", place=queue.place)
        add("}")

    # -- behind it ---------------------------------------------------------------------------------

    def handle(self, queue: Queue) -> None:
        """The handlers."""
        add = self.writer.add
        for handler, of in self._handlers(queue):
            add("")
            add(*where(queue.side, queue.instances), place=queue.place)
            if not queue.ordered:
                add("NF_UNORDERED", place=queue.place)
            if queue.room is not None:
                add(
                    f"NF_QUEUE({queue.room[0]}, {'loses' if queue.room[1] else 'waits'});",
                    place=queue.place,
                )
            add(f"void {handler}({self._handed(queue, of)})", place=queue.place)
            add("{")
            if queue.instance is not None:
                table = f"{queue.name}_handled"
                add("    uint64_t handled;", f"    nf_lookup(&{table}, nf_instance, &handled);")
                add(f"    nf_update(&{table}, nf_instance, handled + 1);")
            if queue.number is not None:
                add(
                    f"    {parameter(_numbered(queue, self._states(queue)), None)}.{queue.number} = nf_instance;"
                )
            for at, ((state, name, _), part) in enumerate(
                zip(self._by_size(queue), of, strict=True)
            ):
                if queue in self.crossing:
                    # As a whole, so that nothing is left of the zeros that came in its place.
                    add(f"    {parameter(state, None)}.{name} = {_part(at)};")
                    continue
                add(f"    for (uint32_t i = 0; i < {_length(part)}; i++)")
                add(f"        {parameter(state, None)}.{name}.b[i] = {_part(at)}.b[i];")
            words = [
                *queue.to.inp.values,
                *(f"&{parameter(each, None)}" for each in self._states(queue)),
            ]
            words += [f"&{join.variable}" for join in self.joins(queue)]
            add(f"    {self.writer.name_of(queue.to)}({', '.join(words)});", "}")


def _length(part: Struct) -> int:
    return part.members["b"].count


def _part(at: int) -> str:
    """The name of a byte string that goes along by its size."""
    return f"part_{at}" if at else "part"


def where(side: str | None, replicas: int | None) -> list[str]:
    """Annotations of a handler."""
    return [
        *([f"NF_ON({side});"] if side else []),
        *([f"NF_MAX_REPLICAS({replicas});"] if replicas else []),
    ]


def check_numbers(program) -> None:
    """Raises FlowError where the number of an instance has no field to go to."""
    for queue in program.queues:
        if queue.number is not None:
            _numbered(queue, program.states[queue.to])


def _numbered(queue: Queue, states: list[type[State]]) -> type[State]:
    """The state whose field gets the number of the instance."""
    for state in states:
        field = state.fields.get(queue.number)
        if field is not None and not field.type.count and not isinstance(field.type, Struct):
            return state
    raise FlowError(
        f"{queue} gives the number of its instance to `{queue.number}`, which is no integer field of a state behind it",
        queue.place,
        "name a field of an element behind the queue",
    )


def crossing(program) -> set[Queue]:
    """Queues that surely lead to the other side of the host link: of others the planner decides."""
    found: set[Queue] = set()
    seen: set[tuple[object, str | None]] = set()
    waiting = [(source, "nic") for source in program.sources]
    while waiting:
        state = element, side = waiting.pop()
        if state in seen:
            continue
        seen.add(state)
        for port in element.outputs.values():
            found.update(
                to for to in port.to if isinstance(to, Queue) and {side, to.side} == {"nic", "host"}
            )
            waiting += [(behind(to), to.side if isinstance(to, Queue) else side) for to in port.to]
    return found


def check_waiting(program) -> None:
    """Raises FlowError if queues that wait when they are full lead round: everybody may wait for
    the next then.

    What enqueues and what handles are segments, or sides where none is named; a queue that names
    neither is worked off by cores of its own.
    """
    waits: dict[object, list[tuple[object, Queue]]] = {}
    seen: set[tuple[int, object]] = set()
    waiting = [
        (source, "nic") for source in program.sources if getattr(source, "segment", None) is None
    ]
    waiting += [
        (source, _place(source.segment))
        for source in program.sources
        if getattr(source, "segment", None)
    ]
    while waiting:
        element, place = waiting.pop()
        if (id(element), place) in seen:
            continue
        seen.add((id(element), place))
        for port in element.outputs.values():
            for to in port.to:
                if not isinstance(to, Queue):
                    waiting.append((getattr(to, "element", to), place))
                    continue
                after = _place(to.segment) if to.segment else to.side or id(to)
                if to.room is not None and not to.room[1]:
                    waits.setdefault(place, []).append((after, to))
                waiting.append((to.to, after))
    for begin in waits:
        _round(waits, begin, begin, [])


def _place(segment) -> str:
    return f"segment {segment.name}"


def _round(waits: dict, begin: object, at: object, way: list[Queue]) -> None:
    for after, queue in waits.get(at, []):
        if after == begin:
            names = ", ".join(str(each) for each in [*way, queue])
            raise FlowError(
                f"queues that wait when they are full lead round: {names}",
                queue.place,
                "let one of them lose (lossy=True), or leave both to the target",
            )
        if queue not in way:
            _round(waits, begin, after, [*way, queue])
