"""A program: elements that are connected, checked and written as C for the compiler.

Nothing of C is looked at here: source.py writes it, and the compiler's messages about it come back
with Python's lines.
"""

from __future__ import annotations

import html
import json
import shutil
import subprocess

from . import batches, bodies, joins, memory, opaque, queues, regions
from .callable import CallableSegment, one_only
from .composite import Composite, check_borders
from .element import Element, Input, Port, Queue, Segment, behind
from .errors import FlowError, caller
from .external import External
from .library import FromHost, FromNet
from .source import Source, write
from .state import State
from .tool import Tool, target_names
from .types import Table, check_name, packet


class Program:
    """A program of everything that can be reached from `sources` (FromNet, FromHost,
    CallableSegment that sends).

    Raises FlowError for everything that can be seen without reading C: unconnected ports, types
    that do not meet, packets that would go two ways, cycles, names used twice.
    """

    def __init__(self, name: str, *sources: Element | CallableSegment, ports: int = 2):
        self.place = caller()
        sources = tuple(
            each.begins() if isinstance(each, CallableSegment) else each for each in sources
        )
        self.name, self.sources, self.ports = check_name(name, self.place), sources, ports
        if not sources:
            raise FlowError(f"program `{name}` has no source", self.place, "give it a FromNet")
        for kind in (FromNet, FromHost):
            if sum(isinstance(source, kind) for source in sources) > 1:
                raise FlowError(
                    f"program `{name}` has two {kind.__name__}",
                    self.place,
                    "connect one to several elements",
                )
        for source in sources:
            if not isinstance(source, (FromNet, FromHost)):
                raise FlowError(
                    f"{source} is no source",
                    self.place,
                    "a program begins with FromNet or FromHost",
                )
        self.elements: list[Element] = []
        self.queues: list[Queue] = []
        #: Bodies by element and target that are C outside the subset: those that say so from
        #: `source` on, all from `tool` on.
        self.opaque: dict[tuple[Element, str], opaque.Opaque] = {}
        self._tool: Tool | None = None
        self._collect()
        self._check()
        self._flow()
        queues.check_numbers(self)
        self._name()
        self._made_of = self._wires()

    def _wires(self) -> int:
        return sum(len(port.to) for port in self._ports())

    def _check_unchanged(self) -> None:
        """Raises FlowError if an element got another connection since: nobody has looked at it."""
        if self._wires() != self._made_of:
            raise FlowError(
                f"elements of program `{self.name}` were connected further after it was made",
                self.place,
                "make it again",
            )

    def _collect(self) -> None:
        waiting: list[Element | Queue | Input] = list(self.sources)
        while waiting:
            node = waiting.pop(0)
            if isinstance(node, Queue):
                if node not in self.queues:
                    self.queues.append(node)
                    waiting.extend([node.to] if node.to is not None else [])
            elif isinstance(node, Input):
                waiting.append(node.element)
            elif node not in self.elements:
                self.elements.append(node)
                waiting.extend(to for port in node.outputs.values() for to in port.to)

    def _ports(self) -> list[Port]:
        return [port for element in self.elements for port in element.outputs.values()]

    def _check(self) -> None:
        for queue in self.queues:
            if queue.to is None:
                raise FlowError(
                    f"nothing is behind {queue}", queue.place, "connect it: queue >> element"
                )
        for port in self._ports():
            if not port.to:
                raise FlowError(
                    f"{port} is not connected",
                    port.element.place,
                    "connect it; Drop and Discard take what nobody wants",
                )
            if packet in port.types and len(port.to) > 1:
                twice = len({str(to) for to in port.to}) < len(port.to)
                again = "; a notebook's cell that is run again connects again: begin with a new FromNet there"
                raise FlowError(
                    f"{port} has a packet and leads to {len(port.to)} places",
                    port.place,
                    "a packet goes one way" + (again if twice else ""),
                )
            for to in port.to:
                self._check_types(port, to, behind(to))
                check_borders(port, to)
        self._check_segments()
        one_only(self.elements)
        for element in self.elements:
            opaque.check(element)
            self._check_cycle(element, [])
        regions.check(self.elements, self.sources)
        queues.check_waiting(self)
        batches.check(self.elements)
        bodies.check(self)
        memory.check_sides(self)

    def _check_segments(self) -> None:
        """A core belongs to one segment, and a segment to one name."""
        nodes = [*(source for source in self.sources if isinstance(source, FromNet)), *self.queues]
        segments: list[Segment] = []
        for node in nodes:
            if node.segment is not None and node.segment not in segments:
                segments.append(node.segment)
        for at, segment in enumerate(segments):
            for other in segments[:at]:
                both = sorted(set(segment.cores) & set(other.cores))
                if segment.name == other.name:
                    raise FlowError(
                        f"there are two segments `{segment.name}`",
                        segment.place,
                        f"the other one is at {other.place}",
                    )
                if both and segment.device == other.device:
                    raise FlowError(
                        f"core {both[0]} belongs to {other} and {segment}",
                        segment.place,
                        "give one of them another core",
                    )

    def _check_types(self, port: Port, to: Element | Queue, element: Element) -> None:
        if element.inp is None:
            raise FlowError(f"{element} has no input", port.place, "it begins a program")
        wanted = to.types if isinstance(to, Input) else element.inp.types
        if port.types != wanted:
            given, expected = (
                ", ".join(ty.c for ty in types) or "nothing" for types in (port.types, wanted)
            )
            via = f" through {to}" if isinstance(to, Queue) else ""
            raise FlowError(
                f"{port} gives ({given}), but {to if isinstance(to, Input) else element}{via} takes ({expected})",
                port.place,
            )

    def _check_cycle(self, element: Element, way: list[Element]) -> None:
        if element in way:
            names = " → ".join(each.name for each in [*way[way.index(element) :], element])
            raise FlowError(
                f"elements go in a circle: {names}",
                element.place,
                "a packet that comes back needs the network between",
            )
        for port in element.outputs.values():
            for to in port.to:
                self._check_cycle(behind(to), [*way, element])

    def _name(self) -> None:
        """Gives every element a function name of its own; a name that was given twice is an
        error."""
        taken: dict[str, object] = {"net_recv": None, "host_send": None}
        for node in [*self.queues, *(e for e in self.elements if e.given)]:
            if node.name in taken:
                raise FlowError(
                    f"{node} has a name that is taken", node.place, "give it another name"
                )
            taken[node.name] = node
        for queue in self.queues:
            taken.update(dict.fromkeys(queues.Queues(self).names(queue), queue))
        self.functions: dict[Element, str] = {}
        for element in self.elements:
            name, number = element.name, 2
            while not element.given and name in taken:
                name, number = f"{element.name}_{number}", number + 1
            taken[name] = element
            self.functions[element] = name

    def composites(self) -> list[Composite]:
        """Its outermost composites."""
        found = {
            id(node.composites[0]): node.composites[0]
            for node in [*self.elements, *self.queues]
            if node.composites
        }
        return list(found.values())

    def tables(self) -> list[Table]:
        """All tables of its elements, each once."""
        found: dict[str, Table] = {}
        for element in self.elements:
            for table in element.tables:
                known = found.setdefault(table.name, table)
                if known is not table:
                    raise FlowError(
                        f"there are two tables `{table.name}`",
                        table.place,
                        f"the other one is at {known.place}",
                    )
        return list(found.values())

    def externals(self) -> list[External]:
        """Functions that bodies call and others have, each once."""
        found: dict[str, External] = {}
        for element in self.elements:
            for one in element.externals:
                known = found.setdefault(one.name, one)
                if (known.prototype, known.has) != (one.prototype, one.has):
                    raise FlowError(
                        f"there are two functions `{one.name}`",
                        one.place,
                        f"the other one is at {known.place}",
                    )
        return list(found.values())

    def contents(self) -> str:
        """What its memory regions begin with, as a table file."""
        regions_ = [table for table in self.tables() if isinstance(table, memory.MemoryRegion)]
        return "\n".join(text for text in (region.contents() for region in regions_) if text)

    def all_states(self) -> list[type[State]]:
        """All states of its packets, each once, in the order of its elements."""
        found: list[type[State]] = []
        for element in self.elements:
            found += [
                state for state in [element.state] if state is not None and state not in found
            ]
        return found

    def _flow(self) -> None:
        """What elements get from those before them: the states that they and all behind them use,
        and waiting joins."""
        self.joins = joins.find(
            self.elements, list(self.sources), [queue.to for queue in self.queues]
        )
        self.orders = joins.orders(self.elements)
        self.states: dict[Element, list[type[State]]] = {}
        self.waiting: dict[Element, list[joins.Join]] = {}
        behind_: dict[Element, set[Element]] = {}
        together: dict[Element, set[Element]] = {}
        order = self.all_states()

        def everything(element: Element) -> set[Element]:
            if element not in behind_:
                to = [behind(each) for port in element.outputs.values() for each in port.to]
                behind_[element] = {element}.union(*(everything(each) for each in to))
            return behind_[element]

        for element in self.elements:
            used = {each.state for each in everything(element)}
            self.states[element] = [state for state in order if state in used]
            self.waiting[element] = [
                join
                for join in self.joins
                if join.struct is not None
                and element not in (join.fork, join.element)
                and element in self._between(join.fork, join, together)
                and join.element in self._between(element, join, together)
            ]

    @staticmethod
    def _between(element: Element, join: joins.Join, known: dict) -> set[Element]:
        """What an element leads to, as far as a join's values go along."""
        return joins.reached(element, known) if join.late is None else joins.led_to(element)

    def source(self, infer: bool = False) -> Source:
        """The program as C. `infer`: it asks for firing classes that are not declared."""
        self._check_unchanged()
        for element in self.elements:
            for target in ["", *element.bodies]:
                reason = opaque.declared(element, target)
                if (
                    reason is not None
                    and element.inp is not None
                    and (element, target) not in self.opaque
                ):
                    self.opaque[element, target] = opaque.look(self, element, target, reason)
        return write(self, infer)

    # -- what is done with it ----------------------------------------------------------------------

    def tool(self) -> Tool:
        """The compiler, with this program. Bodies that the subset has no words for are opaque from
        here on (opaque.py)."""
        self._check_unchanged()
        refused: dict[tuple[Element, str], FlowError] = {}
        if self._tool is None and bodies.named(self.elements):
            bodies.check_names(self.elements, target_names())
        while self._tool is None:
            tool = self._tool_for(self.source(), refused)
            found = tool.outside()
            outside = {
                body: why
                for body, why in found.items()
                if body[0].opaque is None and body not in refused
            }
            for (element, target), why in outside.items():
                try:
                    self.opaque[element, target] = opaque.look(self, element, target, why)
                except FlowError as error:
                    refused[element, target] = error
            self._tool = None if outside else tool
        return self._tool

    def _tool_for(self, source: Source, refused: dict[tuple[Element, str], FlowError]) -> Tool:
        having = [external.has for external in self.externals()]
        having += [has for element, _ in self.opaque for has in opaque.having_of(element)]
        files = {one.file: one.text for one in self.opaque.values()}
        notes = [one.note for one in self.opaque.values()]
        return Tool(
            self.name,
            source,
            having,
            self.contents(),
            files,
            notes,
            refused,
            bodies.named(self.elements),
        )

    def check(self, target: str | None = None) -> str:
        """Reads the C; raises FlowError at the Python line of the first mistake. Gives what
        `nicforge check` prints."""
        self.check_cores(target)
        return self.tool().check(target)

    def check_target(self, target: str | None) -> None:
        """Raises FlowError if a segment or an opaque element is where the target has no room for
        it."""
        self.check_cores(target)
        self.tool().check_opaque(target)

    def check_cores(self, target: str | None) -> None:
        """Raises FlowError if a segment names a core that the target does not have."""
        segments = [
            node.segment
            for node in [*self.queues, *self.sources]
            if getattr(node, "segment", None) is not None
        ]
        if target in (None, "all", "interp") or not any(segment.cores for segment in segments):
            return
        units = self.tool().cores(target)
        for segment in segments:
            has = units.get(segment.device, max(units.values()))
            if segment.cores and max(segment.cores) >= has:
                raise FlowError(
                    f"{segment} has core {max(segment.cores)}, and {target} has {has} there",
                    segment.place,
                    f"take cores 0 to {has - 1}",
                )

    def carried(self) -> dict[str, dict[str, int]]:
        """What each queue carries beside a packet: the values that are used behind it, and their
        bytes."""
        return self.tool().carried()

    def fires(self) -> dict[str, str]:
        """The firing class of each element with outputs, as the compiler finds it: all, one,
        zero-or-one, many."""
        self.tool()
        found = self._tool_for(self.source(infer=True), {}).fires()
        return {
            element.name: found[name] for element, name in self.functions.items() if name in found
        }

    def verify(self, target: str, *arguments: str) -> str:
        """Runs a capture (`"--pcap", FILE`) on a target and in the interpreter; raises FlowError if
        they differ."""
        self.check_target(target)
        return self.tool().run("verify", "--target", target, *arguments)

    def run(
        self, pcap: str, *arguments: str, target: str = "interp", expected: dict | None = None
    ) -> dict:
        """Runs a capture; the report of `nicforge run --json`: packets in, sent by port, dropped by
        reason, tables.

        expected: parts of the report, `{"sent": [3, 0]}`. Raises FlowError if one of them is
        otherwise, or not there.
        """
        self.check_target(target)
        report = json.loads(
            self.tool().run("run", "--target", target, "--pcap", pcap, "--json", *arguments)
        )
        for name, wanted in (expected or {}).items():
            if name not in report or report[name] != wanted:
                found = json.dumps(report[name]) if name in report else "not reported"
                raise FlowError(
                    f"program `{self.name}` on {target}: `{name}` is {found}, expected {json.dumps(wanted)}",
                    self.place,
                )
        return report

    def build(self, output: str, *arguments: str, target: str = "xdp") -> str:
        """Builds what runs on a target into a file or folder; gives what `nicforge build`
        prints."""
        self.check_target(target)
        return self.tool().run("build", "--target", target, "-o", output, *arguments)

    def _repr_svg_(self) -> str | None:
        """Notebooks show the graph, where Graphviz is installed."""
        if shutil.which("dot") is None:
            return None
        return subprocess.run(
            ["dot", "-Tsvg"], input=self.draw(), capture_output=True, text=True, check=True
        ).stdout

    def _repr_html_(self) -> str | None:
        """Where it is not, its text."""
        return None if shutil.which("dot") else f"<pre>{html.escape(self.draw())}</pre>"

    def __repr__(self) -> str:
        return f"Program({self.name!r}: {len(self.elements)} elements, {len(self.queues)} queues)"

    def draw(self) -> str:
        """The graph for Graphviz (`dot -Tsvg`)."""
        from .draw import dot

        self._check_unchanged()
        return dot(self)

    def main(self, arguments: list[str] | None = None) -> None:
        """The program as a command: `python prog.py check|emit|draw|plan|verify|run|… [nicforge's
        arguments]`."""
        from .command import main

        main(self, arguments)
