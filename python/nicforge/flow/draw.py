"""A program as a graph for Graphviz."""

from __future__ import annotations

from .element import Queue, behind
from .errors import FlowError


def dot(program) -> str:
    """Elements as boxes, queues as cylinders; edges carry the output's name where there are
    several."""
    lines = [
        f"digraph {program.name} {{",
        "  rankdir=LR;",
        '  node [shape=box, fontname="sans-serif"];',
    ]
    try:
        program.tool()
    except FlowError:
        # What is wrong with a body, or that there is no compiler, is no matter of the graph.
        pass
    opaque = {element: target for element, target in reversed(program.opaque)}
    for element in program.elements:
        name = program.functions[element]
        where = f" for {opaque[element]}" if opaque.get(element) else ""
        mark = (
            f' [label="{name}\\nopaque C{where}", style=filled, fillcolor=lightgrey]'
            if element in opaque
            else ""
        )
        lines.append(f"  {name}{mark};")
    for composite in program.composites():
        names = [program.functions.get(member, member.name) for member in composite.members]
        inside = "; ".join(name for name in names)
        lines.append(
            f'  subgraph cluster_{composite.name} {{ label="{composite.name}"; style=dashed; {inside}; }}'
        )
    for queue in program.queues:
        where = f"\\non the {queue.side}" if queue.side else ""
        lines.append(f'  {queue.name} [shape=cylinder, label="{queue.name}{where}"];')
        lines.append(f"  {queue.name} -> {program.functions[queue.to]};")
    for element in program.elements:
        for port in element.outputs.values():
            label = f' [label="{port.name}"]' if len(element.outputs) > 1 else ""
            for to in port.to:
                name = to.name if isinstance(to, Queue) else program.functions[behind(to)]
                lines.append(f"  {program.functions[element]} -> {name}{label};")
    return "\n".join([*lines, "}"]) + "\n"
