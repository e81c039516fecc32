"""A program: elements that are connected, checked and written as C for the compiler.

Every element becomes a static function, every output a function that calls what is behind it, every queue a handler
(`nf_enqueue`), and `FromNet` the handler of packets. Nothing of C is looked at here: the C is the compiler's, whose
messages come back with Python's lines.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess

from . import regions
from .callable import CallableSegment, one_only
from .composite import Composite, check_borders
from .element import Element, Port, Queue, Segment, structs_of
from .errors import FlowError, Place, caller
from .library import FromHost, FromNet
from .tool import Tool
from .types import Table, Type, check_name, packet


@dataclasses.dataclass(frozen=True)
class Source:
    """The C of a program: its lines, and where each was written (None for what was made here)."""

    lines: list[str]
    places: list[Place | None]

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def place(self, line: int) -> Place | None:
        """Where a line, counted from 1, was written."""
        return self.places[line - 1] if 0 < line <= len(self.places) else None


class Program:
    """A program of everything that can be reached from `sources` (FromNet, FromHost, CallableSegment that sends).

    Raises FlowError for everything that can be seen without reading C: unconnected ports, types that do not meet, packets
    that would go two ways, cycles, names used twice.
    """

    def __init__(self, name: str, *sources: Element | CallableSegment, ports: int = 2):
        self.place = caller()
        sources = tuple(each.begins() if isinstance(each, CallableSegment) else each for each in sources)
        self.name, self.sources, self.ports = check_name(name, self.place), sources, ports
        if not sources:
            raise FlowError(f"program `{name}` has no source", self.place, "give it a FromNet")
        for kind in (FromNet, FromHost):
            if sum(isinstance(source, kind) for source in sources) > 1:
                raise FlowError(f"program `{name}` has two {kind.__name__}", self.place, "connect one to several elements")
        for source in sources:
            if not isinstance(source, (FromNet, FromHost)):
                raise FlowError(f"{source} is no source", self.place, "a program begins with FromNet or FromHost")
        self.elements: list[Element] = []
        self.queues: list[Queue] = []
        self._collect()
        self._check()
        self._name()

    def _collect(self) -> None:
        waiting: list[Element | Queue] = list(self.sources)
        while waiting:
            node = waiting.pop(0)
            if isinstance(node, Queue):
                if node not in self.queues:
                    self.queues.append(node)
                    waiting.extend([node.to] if node.to is not None else [])
            elif node not in self.elements:
                self.elements.append(node)
                waiting.extend(to for port in node.outputs.values() for to in port.to)

    def _ports(self) -> list[Port]:
        return [port for element in self.elements for port in element.outputs.values()]

    def _check(self) -> None:
        for queue in self.queues:
            if queue.to is None:
                raise FlowError(f"nothing is behind {queue}", queue.place, "connect it: queue >> element")
        for port in self._ports():
            if not port.to:
                raise FlowError(
                    f"{port} is not connected", port.element.place, "connect it; Drop and Discard take what nobody wants"
                )
            if packet in port.types and len(port.to) > 1:
                raise FlowError(
                    f"{port} has a packet and leads to {len(port.to)} places", port.place, "a packet goes one way"
                )
            for to in port.to:
                element = to.to if isinstance(to, Queue) else to
                self._check_types(port, to, element)
                check_borders(port, to)
        self._check_segments()
        one_only(self.elements)
        for element in self.elements:
            self._check_cycle(element, [])
        regions.check(self.elements, self.sources)

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
                        f"there are two segments `{segment.name}`", segment.place, f"the other one is at {other.place}"
                    )
                if both and segment.device == other.device:
                    raise FlowError(
                        f"core {both[0]} belongs to {other} and {segment}", segment.place, "give one of them another core"
                    )

    def _check_types(self, port: Port, to: Element | Queue, element: Element) -> None:
        if element.inp is None:
            raise FlowError(f"{element} has no input", port.place, "it begins a program")
        wanted = element.inp.types
        if port.types != wanted:
            given, expected = (", ".join(ty.c for ty in types) or "nothing" for types in (port.types, wanted))
            via = f" through {to}" if isinstance(to, Queue) else ""
            raise FlowError(f"{port} gives ({given}), but {element}{via} takes ({expected})", port.place)

    def _check_cycle(self, element: Element, way: list[Element]) -> None:
        if element in way:
            names = " → ".join(each.name for each in [*way[way.index(element) :], element])
            raise FlowError(
                f"elements go in a circle: {names}", element.place, "a packet that comes back needs the network between"
            )
        for port in element.outputs.values():
            for to in port.to:
                self._check_cycle(to.to if isinstance(to, Queue) else to, [*way, element])

    def _name(self) -> None:
        """Gives every element a function name of its own; a name that was given twice is an error."""
        taken: dict[str, object] = {"net_recv": None, "host_send": None}
        for node in [*self.queues, *(e for e in self.elements if e.given)]:
            if node.name in taken:
                raise FlowError(f"{node} has a name that is taken", node.place, "give it another name")
            taken[node.name] = node
        self.functions: dict[Element, str] = {}
        for element in self.elements:
            name, number = element.name, 2
            while not element.given and name in taken:
                name, number = f"{element.name}_{number}", number + 1
            taken[name] = element
            self.functions[element] = name

    def composites(self) -> list[Composite]:
        """Its outermost composites."""
        found = {id(node.composites[0]): node.composites[0] for node in [*self.elements, *self.queues] if node.composites}
        return list(found.values())

    def tables(self) -> list[Table]:
        """All tables of its elements, each once."""
        found: dict[str, Table] = {}
        for element in self.elements:
            for table in element.tables:
                known = found.setdefault(table.name, table)
                if known is not table:
                    raise FlowError(f"there are two tables `{table.name}`", table.place, f"the other one is at {known.place}")
        return list(found.values())

    def source(self) -> Source:
        """The program as C."""
        writer = _Writer()
        writer.add(f"/* {self.name}: made from {self.place.file.rsplit('/', 1)[-1]}. */", "#include <nicforge.h>", "")
        writer.add(f"NF_PORTS({self.ports});", "")
        types: list[Type] = [ty for port in self._ports() for ty in port.types]
        tables = self.tables()
        types += [ty for table in tables for ty in (table.key, table.value)]
        types += [struct for element in self.elements for struct in element.structs]
        for struct in structs_of(types):
            writer.add(*struct.definition().split("\n"), "")
        for table in tables:
            writer.add(table.definition(), place=table.place)
        writer.add("")
        for queue in self.queues:
            writer.add(f"void {queue.name}({_parameters(queue.to)});")
        inner = [element for element in self.elements if element.inp is not None]
        for element in inner:
            writer.add(f"static void {self.functions[element]}({_parameters(element)});")
        for element in self.elements:
            self._element(writer, element)
        for queue in self.queues:
            self._queue(writer, queue)
        return Source(writer.lines, writer.places)

    def _element(self, writer: _Writer, element: Element) -> None:
        name = self.functions[element]
        writer.add("")
        for port in element.outputs.values():
            values = [f"value_{at}" for at in range(len(port.types))]
            parameters = ", ".join(ty.declare(value) for ty, value in zip(port.types, values, strict=True)) or "void"
            writer.add(f"static void {name}_{port.name}({parameters})", "{")
            for to in port.to:
                call = ", ".join(values)
                if isinstance(to, Queue):
                    comma = ", " if call else ""
                    writer.add(f"    nf_enqueue({to.name}{comma}{call});", place=port.place)
                else:
                    writer.add(f"    {self.functions[to]}({call});", place=port.place)
            writer.add("}")
        if isinstance(element, FromNet):
            if element.segment is not None:
                writer.add(*_where(element.segment.device, element.segment.replicas), place=element.segment.place)
            writer.add("void net_recv(nf_pkt pkt)", "{", f"    {name}_out(pkt);", "}")
            return
        if isinstance(element, FromHost):
            writer.add(f"void host_send({element.message.declare('message')})", "{", f"    {name}_out(message);", "}")
            return
        # Outputs as macros with arguments: a member of the same name is left alone.
        writer.add(*(f"#define {port}(...) {name}_{port}(__VA_ARGS__)" for port in element.outputs))
        writer.add(*(f"#define {word} {value}" for word, value in element.constants.items()))
        writer.add(f"static void {name}({_parameters(element)})", place=element.place)
        writer.add("{")
        for line, place in element.lines():
            writer.add(f"    {line}" if line.strip() else "", place=place)
        writer.add("}", place=element.place)
        writer.add(*(f"#undef {word}" for word in [*element.outputs, *element.constants]))

    def _queue(self, writer: _Writer, queue: Queue) -> None:
        writer.add("")
        writer.add(*_where(queue.side, queue.instances), place=queue.place)
        if not queue.ordered:
            writer.add("NF_UNORDERED", place=queue.place)
        names = ", ".join(queue.to.inp.values)
        writer.add(f"void {queue.name}({_parameters(queue.to)})", place=queue.place)
        writer.add("{", f"    {self.functions[queue.to]}({names});", "}")

    # -- what is done with it -------------------------------------------------------------------------------------------

    def tool(self) -> Tool:
        """The compiler, with this program."""
        return Tool(self.name, self.source())

    def check(self, target: str | None = None) -> str:
        """Reads the C; raises FlowError at the Python line of the first mistake. Gives what `nicforge check` prints."""
        return self.tool().check(target)

    def verify(self, target: str, *arguments: str) -> str:
        """Runs a capture (`"--pcap", FILE`) on a target and in the interpreter; raises FlowError if they differ."""
        return self.tool().run("verify", "--target", target, *arguments)

    def run(self, pcap: str, *arguments: str, target: str = "interp") -> dict:
        """Runs a capture; the report of `nicforge run --json`: packets in, sent by port, dropped by reason, tables."""
        return json.loads(self.tool().run("run", "--target", target, "--pcap", pcap, "--json", *arguments))

    def _repr_svg_(self) -> str | None:
        """Notebooks show the graph, where Graphviz is installed."""
        if shutil.which("dot") is None:
            return None
        return subprocess.run(["dot", "-Tsvg"], input=self.draw(), capture_output=True, text=True, check=True).stdout

    def draw(self) -> str:
        """The graph for Graphviz (`dot -Tsvg`)."""
        from .draw import dot

        return dot(self)

    def main(self, arguments: list[str] | None = None) -> None:
        """The program as a command: `python prog.py check|emit|draw|plan|verify|run|… [nicforge's arguments]`."""
        from .command import main

        main(self, arguments)


class _Writer:
    def __init__(self):
        self.lines: list[str] = []
        self.places: list[Place | None] = []

    def add(self, *lines: str, place: Place | None = None) -> None:
        self.lines.extend(lines)
        self.places.extend([place] * len(lines))


def _where(side: str | None, replicas: int | None) -> list[str]:
    """Annotations of a handler."""
    return [*([f"NF_ON({side});"] if side else []), *([f"NF_MAX_REPLICAS({replicas});"] if replicas else [])]


def _parameters(element: Element) -> str:
    return ", ".join(ty.declare(name) for name, ty in element.inp.values.items()) or "void"
