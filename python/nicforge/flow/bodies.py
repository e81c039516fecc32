"""Bodies for targets: what an element does is one thing, how it does it may depend on where it
runs.

    class Encrypt(Element):
        inp, out = In(pkt=packet, block=Block), Out(packet, Block)
        body = "… the cipher in the subset …"
        bodies = {"dpdk": "… the same with the processor's instructions …"}

`body` is the definition: the interpreter runs it, and `verify` compares a target's body with it.
Where a target is planned, built, run or simulated, the program is read with its body in place, by
the means of C (`#if defined(NF_TARGET_DPDK)`); `"host"` is for elements on the host side of any
target that has one, and no body of its own; where that body is opaque, of any whose host side can
call C.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .element import Element, Queue
from .errors import FlowError
from .library import FromHost

if TYPE_CHECKING:
    from .program import Program

#: The name that stands for the host side of all targets.
HOST = "host"


def named(elements: list[Element]) -> list[str]:
    """The targets that bodies are for, each once."""
    return list(dict.fromkeys(target for element in elements for target in element.bodies))


def macro(target: str) -> str:
    """What is defined where a program is read for a target."""
    return "NF_TARGET_" + "".join(c.upper() if c.isalnum() else "_" for c in target)


def defines(target: str) -> list[str]:
    """Macros that read a program with a target's bodies, and no others; none for the
    definition."""
    calls = ["NF_TARGET_C=1"] if target == HOST else []
    return ["NF_TARGET=1", f"{macro(target)}=1", *calls] if target else []


def chosen(element: Element, target: str) -> str:
    """Which of its bodies an element has where a program is read so; the definition is the empty
    name."""
    return target if target in element.bodies else ""


def in_order(element: Element, opaque) -> list[tuple[str, str]]:
    """Its bodies, each with the directive before it: of targets, of the host side, and the
    definition.

    opaque: bodies that are, by element and target. One of the host side is for where C can be
    called.
    """
    words = {name: macro(name) for name in element.bodies}
    if (element, HOST) in opaque:
        words[HOST] = "NF_TARGET_C"
    names = [
        *(name for name in element.bodies if name != HOST),
        *([HOST] if HOST in element.bodies else []),
    ]
    found = [
        (name, f"#{'el' if at else ''}if defined({words[name]})") for at, name in enumerate(names)
    ]
    return [*found, ("", "#else" if names else "")]


def check(program: Program) -> None:
    """Raises FlowError for bodies without a definition, and for those of the host side that are
    elsewhere."""
    sides = _sides(program)
    for element in program.elements:
        if not isinstance(element.bodies, dict) or not all(
            isinstance(text, str) for text in element.bodies.values()
        ):
            raise FlowError(
                f"the bodies of {element} are none", element.place, 'write bodies = {"dpdk": "…"}'
            )
        if element.bodies and not element.body.strip():
            raise FlowError(
                f"{element} has a body for {next(iter(element.bodies))} and none that says what it does",
                element.place,
                "write `body` in the subset: other targets have it, and verify compares with it",
            )
        if HOST in element.bodies and sides.get(element) != {HOST}:
            raise FlowError(
                f"{element} has a body for the host side, and is not only there",
                element.place,
                'let every way to it lead through a Queue with side="host"',
            )


def check_names(elements: list[Element], targets: list[str]) -> None:
    """Raises FlowError for a body for a target that there is not."""
    for element in elements:
        unknown = next(
            (name for name in element.bodies if name not in targets and name != HOST), None
        )
        if unknown is not None:
            raise FlowError(
                f"{element} has a body for `{unknown}`, and there is no such target",
                element.place,
                f"the targets are {', '.join(targets)}, and `host` for the host side of any",
            )


def _sides(program: Program) -> dict[Element, set[str | None]]:
    """On which sides elements are: None where a queue leaves it open."""
    found: dict[Element, set[str | None]] = {}
    waiting = [
        (source, HOST if isinstance(source, FromHost) else "nic") for source in program.sources
    ]
    while waiting:
        element, side = waiting.pop()
        if side in found.setdefault(element, set()):
            continue
        found[element].add(side)
        for port in element.outputs.values():
            for to in port.to:
                if isinstance(to, Queue):
                    waiting.append((to.to, to.side))
                else:
                    waiting.append((to if isinstance(to, Element) else to.element, side))
    return found
