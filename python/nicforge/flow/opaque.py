"""Opaque elements: bodies of C that the subset has no words for.

    class Match(Element):
        inp = In(pkt=packet, line=Line)
        hit, miss = Out(packet), Out(packet)
        state = Request
        includes = ("<regex.h>",)
        body = '''
            static regex_t wanted;
            static bool ready;
            if (!ready)
                ready = regcomp(&wanted, "^GET /[a-z]+", REG_EXTENDED | REG_NOSUB) == 0;
            state->tried = true;
            if (ready && regexec(&wanted, line.text, 0, NULL, 0) == 0)
                hit(pkt);
            else
                miss(pkt);
        '''

Such a body stays C. It becomes a function in a file of its own, compiled as a process is and linked
wherever the program runs, as an External is. In the program the element is what the subset can say:
it calls that function with the values that come in and with just those fields of the state that the
body uses, and then calls the outputs that the body called, with their values: first those without
the packet, in the order of the class. Each is called once in a run at most, or as often as `calls`
says if it has no packet. So a packet never comes into opaque code, and queues carry what the body
uses and no more. Which fields those are the compiler reads from clang's tree of the function
(`nicforge check --opaque`, crates/frontend/src/opaque.rs): a field goes in if some way reads it or
does not write it, and comes out if some way writes it.

`opaque = None` tries the subset first: only where all that is wrong with a body is outside of it,
and clang takes it as C, it becomes opaque, and commands say so. True does so at once, and so do
`includes`; False never does.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from .element import Element
from .errors import FlowError, Place
from .external import having
from .opaque_file import by_address, prototype, repeated, values, write
from .types import Type, packet

if TYPE_CHECKING:
    from .program import Program
    from .source import Source


@dataclasses.dataclass(frozen=True)
class Used:
    """A part of the state that a body uses: its members from the outermost on, and its type.

    comes: its value is needed; goes: it is changed. place: where the body says so first.
    """

    path: tuple[str, ...]
    type: Type
    comes: bool
    goes: bool
    place: Place | None

    @property
    def c(self) -> str:
        """The part, in C."""
        return "state->" + ".".join(self.path)

    @property
    def left(self) -> str:
        """The variable for what the body leaves there, where its value is not needed before."""
        return "nf_left_" + "_".join(self.path)


@dataclasses.dataclass(frozen=True)
class Opaque:
    """How a body of an element is opaque: why, and what it does with the state. target: of which it
    is, see bodies.py."""

    element: Element
    target: str
    function: str
    reason: str
    uses: list[Used]

    @property
    def file(self) -> str:
        """The name of the file with its function."""
        return f"{self.function}.c"

    @property
    def text(self) -> str:
        """What is in it."""
        return write(self.function, self.element, self.target, self.uses, directives=True).text

    @property
    def note(self) -> str:
        """What commands say."""
        where = f" for {self.target}" if self.target else ""
        return f"{self.element.lines(self.target)[0][1]}: {self.element} is opaque C{where}: {self.reason}"


def declared(element: Element, target: str) -> str | None:
    """Why a body is opaque without looking at it. None if the element does not say so.

    Where an element has bodies for targets, what it includes is for these.
    """
    if element.opaque is not False and element.includes and (target or not element.bodies):
        return f"it includes {element.includes[0]}"
    return "it says so" if element.opaque else None


def name_of(program: Program, element: Element, target: str) -> str:
    """The function that a body becomes."""
    return "_".join(
        ["opaque", program.functions[element], *([target.replace("-", "_")] if target else [])]
    )


def check(element: Element) -> None:
    """Raises FlowError if an element says what does not go together."""
    if (
        not isinstance(element.calls, int)
        or element.calls < 1
        or element.calls > 1
        and element.fires not in (None, "many")
    ):
        raise FlowError(
            f"{element} may call outputs {element.calls} times in one run, and fires `{element.fires}`",
            element.place,
            "take a number of at least 1, and fires `many` where it is more",
        )
    if element.opaque is False and (
        element.includes or element.has or element.features or element.pure
    ):
        raise FlowError(
            f"{element} is not to be opaque and has what only opaque bodies have",
            element.place,
            "leave out `opaque = False`, or `includes`, `has`, `features` and `pure`",
        )


def having_of(element: Element) -> list[str]:
    """Who has what its body calls: files and libraries."""
    return [having(each, element.where("has"), f"what {element} calls") for each in element.has]


# -- the element in the program --------------------------------------------------------------------


def declaration(opaque: Opaque) -> str:
    """The function's declaration in the program."""
    pure = "NF_PURE " if opaque.element.pure else ""
    return f"{pure}extern {prototype(opaque.element, opaque.function, opaque.uses)};"


def wrapper(opaque: Opaque) -> list[tuple[str, Place | None]]:
    """The element's body in the subset: the call of its function, then the outputs it called."""
    element, found = opaque.element, []
    begins = element.lines(opaque.target)[0][1]
    found += [
        (f"{ty.declare(f'nf_{name}_{at}')}{_zero(ty)};", None) for name, at, ty in values(element)
    ]
    alone = [used for used in opaque.uses if used.goes and not used.comes]
    found += [(f"{used.type.declare(used.left)}{_zero(used.type)};", None) for used in alone]
    words: list[tuple[str, Place | None]] = []
    for name, ty in element.inp.values.items():
        if ty is not packet:
            words.append((f"&{name}" if by_address(ty) else name, begins))
    for used in opaque.uses:
        by_value = not used.goes and not by_address(used.type)
        of = used.left if used in alone else used.c
        words.append((of if by_value or used.type.count else f"&{of}", used.place))
    words += [
        (f"nf_{name}_{at}" if ty.count else f"&nf_{name}_{at}", begins)
        for name, at, ty in values(element)
    ]
    place = f" /* {begins.file.rsplit('/', 1)[-1]}:{begins.line} */"
    made = "uint32_t nf_made = " if element.outputs and element.fires != "all" else ""
    head = f"{made}{opaque.function}("
    if not words:
        found.append((f"{head});{place}", begins))
    else:
        found.append((head + place, begins))
        ends = [","] * (len(words) - 1) + [");"]
        found += [(f"    {word}{end}", at) for (word, at), end in zip(words, ends, strict=True)]
    found += [(f"{used.c} = {used.left};", used.place) for used in alone]
    return found + [(line, begins) for line in _hand_on(element)]


def _zero(ty: Type) -> str:
    return " = {0}" if by_address(ty) else " = 0"


def _hand_on(element: Element) -> list[str]:
    """Calls the outputs that the body called: those with values first, and one with the packet."""
    carried = next((name for name, ty in element.inp.values.items() if ty is packet), None)

    def call(name: str) -> str:
        types = enumerate(element.outputs[name].types)
        return f"{name}({', '.join(carried or '' if ty is packet else f'nf_{name}_{at}' for at, ty in types)});"

    names = list(element.outputs)
    last = [name for name in names if packet in element.outputs[name].types]
    first = [name for name in names if name not in last]
    drop = f'nf_drop({carried}, "{element.name}: no output");' if carried else ""
    if element.fires == "all":
        return [call(name) for name in [*first, *last]] + ([drop] if carried and not last else [])
    bits = {name: 1 << bit for bit, name in enumerate(names)}
    one = element.fires in ("one", "zero-or-one")
    found = []
    for name in [] if one else first:
        if name in repeated(element):
            each = ", ".join(
                f"nf_{name}_{at}[nf_at]" for at in range(len(element.outputs[name].types))
            )
            found.append(f"for (uint32_t nf_at = 0; nf_at < {element.calls}; nf_at++)")
            found += [f"    if (nf_at < nf_{name}_count)", f"        {name}({each});"]
        else:
            found.append(f"if ((nf_made & {bits[name]}u) != 0) {call(name)}")
    chain = [*first, *last] if one else last
    for at, name in enumerate(chain):
        certain = element.fires == "one" and at == len(chain) - 1
        word = "else " if at else ""
        drops = f" {drop}" if carried and name in first else ""
        condition = "" if certain else f"if ((nf_made & {bits[name]}u) != 0) "
        found.append(f"{word}{condition}{{ {call(name)}{drops} }}")
    if carried and element.fires != "one":
        found.append(f"else {drop}" if chain else drop)
    return found


# -- what a body does with its state ---------------------------------------------------------------


def look(program: Program, element: Element, target: str, reason: str) -> Opaque:
    """A body as opaque C.

    Raises FlowError with the Python line of what opaque C cannot do, or clang refuses.
    """
    from .tool import Tool

    if element.tables:
        names = ", ".join(f"`{table.name}`" for table in element.tables)
        raise FlowError(
            f"{element} is opaque C and uses tables ({names})",
            element.place,
            "let elements in front of it look up, and elements behind it write",
        )
    function = name_of(program, element, target)
    if element.looked_at:
        return Opaque(element, target, function, reason, [])
    tool = Tool(function, write(function, element, target))
    report = tool.opaque(f"{function}_body")
    source = tool.source
    if element.pure and report["statics"]:
        raise FlowError(
            f"{element} promises to have no state, and this variable stays from run to run",
            source.place(report["statics"][0]),
            "leave out `pure`",
        )
    return Opaque(
        element,
        target,
        function,
        reason,
        _parts(element, report["uses"] if element.state else [], source),
    )


def _parts(element: Element, uses: list[dict], source: Source) -> list[Used]:
    """What is used, each part once: a part of a part that is used as a whole goes with it."""
    found: dict[tuple[str, ...], dict] = {}
    every = [
        {**use, "path": (name,)} for use in uses if not use["path"] for name in element.state.fields
    ]
    every += [{**use, "path": tuple(use["path"])} for use in uses if use["path"]]
    for use in sorted(every, key=lambda use: len(use["path"])):
        path = next(
            (
                use["path"][:length]
                for length in range(1, len(use["path"]))
                if use["path"][:length] in found
            ),
            use["path"],
        )
        known = found.setdefault(
            path, {**use, "whole": use["written"] is not None and not use["kept"]}
        )
        known["whole"] |= path == use["path"] and use["written"] is not None and not use["kept"]
        known["read"] = known["read"] or use["read"]
        known["written"] = known["written"] or use["written"]
    parts = []
    for path, use in sorted(found.items()):
        written = use["written"] is not None
        ty = _type(element.state.struct, path)
        comes = use["read"] is not None or written and (not use["whole"] or ty.count > 0)
        parts.append(Used(path, ty, comes, written, source.place(use["read"] or use["written"])))
    return parts


def _type(ty: Type, path: tuple[str, ...]) -> Type:
    for member in path:
        ty = ty.members[member]
    return ty
