"""The C file of an opaque body: the body as a function, and around it one that the program calls.

The outer function makes a state of the fields that come, runs the body, and gives back the fields
that go, the outputs that were called and their values. Outputs are functions that note the call; a
second one ends the run with the element's name and line.
"""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

from .element import Element, structs_of
from .errors import FlowError, Place
from .state import arrows
from .types import Struct, Type, packet, u32

if TYPE_CHECKING:
    from .opaque import Used
    from .source import Source


def write(
    function: str, element: Element, target: str, uses: list[Used] = (), directives: bool = False
) -> Source:
    """The C file of an opaque body, with where its lines were written. `directives`: so that
    compilers say so too."""
    from .source import Source

    lines: list[str] = []
    places: list[Place | None] = []
    bodies: set[int] = set()

    def say(place: Place | None) -> None:
        line, file = (place.line, place.file) if place else (len(lines) + 2, f"{function}.c")
        lines.append(f"#line {line} {_quoted(file)}" if directives else "")
        places.append(place)

    def add(*more: str, place: Place | None = None) -> None:
        if place is not None or (places and places[-1] is not None):
            say(place)
        lines.extend(more)
        places.extend([place] * len(more))

    for header in element.includes:
        add(f"#include {_header(element, header)}", place=element.where("includes"))
    add("#include <nicforge.h>", "extern int dprintf(int, const char *, ...);")
    outs = [ty for port in element.outputs.values() for ty in port.types]
    types = [
        *element.inp.types,
        *outs,
        *element.structs,
        *([element.state.struct] if element.state else []),
    ]
    for struct in structs_of(types):
        add(*struct.definition().split("\n"))
    for external in element.externals:
        add(external.declaration(), place=external.place)
    _outputs(element, element.lines(target)[0][1], add)
    add(*(f"#define {word} {value}" for word, value in element.constants.items()))
    inside = [ty.declare(name) for name, ty in element.inp.values.items()]
    inside += [f"{element.state.struct.c} *state"] if element.state else []
    if element.features:
        add(f'__attribute__((target("{",".join(element.features)}")))', place=element.defined)
    add(f"static void {function}_body({', '.join(['struct nf_calls *nf_calls', *inside])})", "{")
    texts = element.lines(target)
    given = (
        arrows("\n".join(line for line, _ in texts)).split("\n")
        if element.state
        else [line for line, _ in texts]
    )
    # What follows a directive has its lines one by one; one more directive could fall into a
    # statement.
    say(texts[0][1])
    for text, (_, place) in zip(given, texts, strict=True):
        lines.append(f"    {text}")
        places.append(place)
        bodies.add(len(lines))
    add("}", place=texts[-1][1])
    add(*(f"#undef {word}" for word in [*element.constants, *element.outputs]))
    _entry(element, function, uses, texts[0][1], add)
    return Source(lines, places, [element] * len(lines), bodies, {})


def _header(element: Element, header: str) -> str:
    """An include of the body: what is in quotes is beside the Python file."""
    if not header.startswith('"'):
        return header if header.startswith("<") else f"<{header}>"
    said = element.where("includes")
    path = pathlib.Path(said.file).resolve().parent / header.strip('"')
    if not path.is_file():
        raise FlowError(
            f"{header}, which {element} includes, is not there", said, f"it would be {path}"
        )
    return f'"{path}"'


def _outputs(element: Element, begins: Place, add) -> None:
    """Functions that note which outputs the body calls, with which values."""
    members = [f"    {ty.declare(f'{name}_{at}')};" for name, at, ty in values(element)]
    add("struct nf_calls {", "    uint32_t made;", *members, "};")
    packets = sum(
        1 << bit for bit, port in enumerate(element.outputs.values()) if packet in port.types
    )
    at_most_one = element.fires in ("one", "zero-or-one")
    for bit, (name, port) in enumerate(element.outputs.items()):
        own = [ty.declare(f"value_{at}") for at, ty in enumerate(port.types)]
        if name in repeated(element):
            _repeated(element, name, port.types, begins, add)
            continue
        add(
            f"static void nf_called_{name}({', '.join(['struct nf_calls *nf_calls', 'int nf_line', *own])})",
            "{",
        )
        again = f"error: %s:%d: {element} calls output `{name}` a second time in one run\\n"
        other = f"error: %s:%d: {element} calls `{name}` and another output in one run, which it promised not to\\n"
        if not at_most_one and packet in port.types:
            other = f"error: %s:%d: {element} gives its packet to `{name}` and to another output in one run\\n"
        others = (
            (1 << len(element.outputs)) - 1
            if at_most_one
            else packets
            if packet in port.types
            else 0
        )
        for mask, text in ((1 << bit, again), (others, other)):
            if mask:
                file = _quoted(begins.file)
                add(
                    f"    if (nf_calls->made & {mask}u) {{",
                    f'        dprintf(2, "{text}", {file}, nf_line);',
                )
                add("        __builtin_abort();", "    }")
        add(f"    nf_calls->made |= {1 << bit}u;")
        for at, ty in enumerate(port.types):
            if ty is not packet:
                add(f"    nf_calls->{name}_{at} = value_{at};")
        add("}", f"#define {name}(...) nf_called_{name}(nf_calls, __LINE__, ##__VA_ARGS__)")


def _repeated(element: Element, name: str, types: tuple[Type, ...], begins: Place, add) -> None:
    """The same for an output that may be called several times."""
    own = [ty.declare(f"value_{at}") for at, ty in enumerate(types)]
    add(
        f"static void nf_counted_{name}({', '.join(['struct nf_calls *nf_calls', 'int nf_line', *own])})",
        "{",
    )
    text = f"error: %s:%d: {element} calls output `{name}` more than {element.calls} times in one run\\n"
    add(f"    if (nf_calls->{name}_count == {element.calls}u) {{")
    add(
        f'        dprintf(2, "{text}", {_quoted(begins.file)}, nf_line);',
        "        __builtin_abort();",
        "    }",
    )
    add(
        *(
            f"    nf_calls->{name}_{at}[nf_calls->{name}_count] = value_{at};"
            for at in range(len(types))
        )
    )
    add(f"    nf_calls->{name}_count++;", "}")
    add(f"#define {name}(...) nf_counted_{name}(nf_calls, __LINE__, ##__VA_ARGS__)")


def _entry(element: Element, function: str, uses: list[Used], begins: Place, add) -> None:
    """The function that the program calls."""
    add(
        f"extern {prototype(element, function, uses)};",
        f"{prototype(element, function, uses)}",
        "{",
    )
    add("    struct nf_calls nf_calls = {0};")
    words = ["&nf_calls"]
    for name, ty in element.inp.values.items():
        if ty is packet:
            words.append("(nf_pkt)0")
        else:
            words.append(f"*{name}" if by_address(ty) else name)
    if element.state:
        add(
            f"    {element.state.struct.c} nf_state;",
            "    __builtin_memset(&nf_state, 0, sizeof(nf_state));",
        )
        words.append("&nf_state")
    for at, used in enumerate(uses):
        if used.comes:
            address = not used.type.count and (used.goes or by_address(used.type))
            add(
                "    "
                + _copy(
                    f"nf_state.{'.'.join(used.path)}",
                    f"{'*' if address else ''}nf_state_{at}",
                    used.type,
                )
            )
    add(f"    {function}_body({', '.join(words)});")
    names, every = list(element.outputs), (1 << len(element.outputs)) - 1
    wrong = {"all": f"nf_calls.made != {every}u", "one": "nf_calls.made == 0"}.get(
        element.fires or ""
    )
    if wrong and names:
        promise = "not each of its outputs" if element.fires == "all" else "none of its outputs"
        text = f"error: %s: {element} called {promise} in one run, as it promised\\n"
        call = f'dprintf(2, "{text}", {_quoted(str(begins))});'
        add(f"    if ({wrong}) {{", f"        {call}", "        __builtin_abort();", "    }")
    for at, used in enumerate(uses):
        if used.goes:
            to = f"nf_state_{at}" if used.type.count else f"*nf_state_{at}"
            add("    " + _copy(to, f"nf_state.{'.'.join(used.path)}", used.type))
    for name, at, ty in values(element):
        add(
            "    "
            + _copy(
                f"nf_{name}_{at}" if ty.count else f"*nf_{name}_{at}", f"nf_calls.{name}_{at}", ty
            )
        )
    add("    return nf_calls.made;", "}")


def repeated(element: Element) -> list[str]:
    """The outputs that a body may call several times in one run."""
    outputs = element.outputs.items()
    return [name for name, port in outputs if packet not in port.types] if element.calls > 1 else []


def values(element: Element) -> list[tuple[str, int | str, Type]]:
    """What outputs are called with: of which output, which value.

    Of an output that may be called several times these are arrays, and there is how often it was
    called.
    """
    found: list[tuple[str, int | str, Type]] = []
    for name, port in element.outputs.items():
        several = name in repeated(element)
        found += [(name, "count", u32)] if several else []
        types = [(at, ty) for at, ty in enumerate(port.types) if ty is not packet]
        found += [(name, at, ty[element.calls] if several else ty) for at, ty in types]
    return found


def by_address(ty: Type) -> bool:
    """Whether functions get values of this type by their address."""
    return isinstance(ty, Struct) or ty.count > 0 or ty.c in ("nf_mac", "nf_ip6")


def _copy(to: str, of: str, ty: Type) -> str:
    return (
        f"__builtin_memcpy({to}, {of}, sizeof({ty.c}) * {ty.count});"
        if ty.count
        else f"{to} = {of};"
    )


def _pointer(ty: Type, name: str, changes: bool) -> str:
    return f"{'' if changes else 'const '}{ty.c} *{name}"


def prototype(element: Element, function: str, uses: list[Used]) -> str:
    """The function: of values that come in, parts of the state and values of outputs; it gives
    which outputs were called."""
    words = []
    for name, ty in element.inp.values.items():
        if ty is not packet:
            words.append(_pointer(ty, name, False) if by_address(ty) else ty.declare(name))
    for at, used in enumerate(uses):
        by_value = not used.goes and not by_address(used.type)
        words.append(
            used.type.declare(f"nf_state_{at}")
            if by_value
            else _pointer(used.type, f"nf_state_{at}", used.goes)
        )
    words += [_pointer(ty, f"nf_{name}_{at}", True) for name, at, ty in values(element)]
    return f"uint32_t {function}({', '.join(words) or 'void'})"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
