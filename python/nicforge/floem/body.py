"""Bodies of Floem's elements as bodies of flow elements.

There, values come in by calling a port and go out in an `output` block, which says how often ports
are called. Here, values are variables, outputs are functions, and which are called the compiler
finds out. Strings and comments are kept apart first, so that what they say is no code.
"""

from __future__ import annotations

import re

from .model import Unsupported

_WORD = r"[A-Za-z_][A-Za-z0-9_]*"
_APART = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|//[^\n]*|/\*.*?\*/', re.S)


def convert(code: str, inputs: dict[str, list[str]], outputs: list[str]) -> str:
    """The body. inputs: for each input, the names of its values."""
    strings: list[str] = []

    def keep(found: re.Match) -> str:
        if found[0].startswith("/"):
            return " "
        strings.append(found[0])
        return f'"{len(strings) - 1}"'

    text = _APART.sub(keep, code)
    text = _blocks(text, outputs)
    for name, values in inputs.items():
        text = _reads(text, name, values)
    return re.sub(r'"(\d+)"', lambda found: strings[int(found[1])], text)


def fires(code: str) -> str | None:
    """The firing class that an output block says."""
    text = _APART.sub(" ", code)
    if re.search(r"\boutput\s+multiple\b", text):
        return "many"
    if re.search(r"\boutput\s*switch\b", text):
        return "one" if re.search(r"\belse\s*:", text) else "zero-or-one"
    return "all" if re.search(r"\boutput\s*\{", text) else None


def _reads(text: str, name: str, values: list[str]) -> str:
    """Calls of an input become its values."""
    call = rf"\b{name}\s*\(\s*\)"
    several = re.search(rf"\(([^()]*)\)\s*=\s*{call}\s*;", text)
    if several:
        declared = [one.strip() for one in several[1].split(",")]
        if len(declared) != len(values):
            raise Unsupported(f"an input read as {len(declared)} of its {len(values)} values")
        made = " ".join(f"{one} = {value};" for one, value in zip(declared, values, strict=True))
        return text[: several.start()] + made + text[several.end() :]
    text = re.sub(rf"(^|[;{{}}])\s*{call}\s*;", r"\1", text)
    return re.sub(call, values[0], text) if len(values) == 1 else text


def _closing(text: str, at: int) -> int:
    """Where the brace that opens at `at` is closed."""
    depth = 0
    for here in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[here], 0)
        if depth == 0:
            return here
    raise Unsupported("an output block without an end")


def _blocks(text: str, outputs: list[str]) -> str:
    text = re.sub(r"\boutput\s+multiple\s*;", "", text)
    while found := re.search(r"\boutput\s*(switch\s*)?\{", text):
        end = _closing(text, found.end() - 1)
        inside = text[found.end() : end]
        text = (
            text[: found.start()]
            + (_switch(inside, outputs) if found[1] else inside)
            + text[end + 1 :]
        )
    return text


def _switch(inside: str, outputs: list[str]) -> str:
    """`case CONDITION: port(values); … else: port(values);`. The colon is the one in front of an
    output's call."""
    call = "|".join(map(re.escape, sorted(outputs, key=len, reverse=True)))
    arms = re.finditer(rf"\b(case\b(.*?)|else\s*):\s*((?:{call})\s*\(.*?\)\s*;)", inside, re.S)
    made = []
    for arm in arms:
        condition = f"if ({arm[2].strip()}) " if arm[2] is not None else ""
        made.append(f"{condition}{{ {arm[3]} }}")
    if not made:
        raise Unsupported("an output switch without a case")
    return " else ".join(made)
