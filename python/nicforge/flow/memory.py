"""Memory that elements name: bytes with an address each, for what is no table.

    scratch = MemoryRegion("scratch", 4096, init=b"...")

    class Put(Element):
        tables = (scratch,)
        body = "… if (!scratch_write32(state->at, value)) { full(pkt); return; } …"

It is an array table of *lines* (NAME, `struct NAME_line`), so it is planned, locked, dumped and
compared as tables are. In C:

    bool NAME_readN(uint32_t at, uintN_t *value)       N = 8, 16, 32, 64: bytes at ... at + N / 8 - 1, the least first
    bool NAME_writeN(uint32_t at, uintN_t value)
    bool NAME_line(uint32_t at, struct NAME_line *to)  the line with the byte `at`, as it is
    bool NAME_put(uint32_t at, struct NAME_line from)

All are false, and read zero or write nothing, beyond the end; values lie at multiples of their
size, so that each is one access of one line. What a state carries through queues is the address, a
number, which means the same wherever the region is used; that is on one side of the host link. A
line is what a function of C gets (`External("void sort(void *line)", …)`, called as `sort(&line)`):
a copy, which comes back.
"""

from __future__ import annotations

from .element import Element, Queue, behind
from .errors import FlowError, caller
from .types import Struct, Table, u32, u64

WIDTHS = (8, 16, 32, 64)
#: Most bytes of a line, as of any value.
LARGEST_LINE = 65536


class MemoryRegion(Table):
    """`bytes` bytes of memory by the name `name`, in lines of `line` bytes, at first `init` and
    zeros behind it. A program of one's own that attaches (`CallableSegment`) gets a pointer to it
    if it is `shared`.

    Raises FlowError if sizes are no multiples of 8 and of one another, or if `init` does not fit.
    """

    size: int
    line: int
    init: bytes

    def __init__(
        self, name: str, bytes: int, init: bytes | None = None, line: int = 8, shared: bool = False
    ):
        place = caller()
        for what, size in (("bytes", bytes), ("line", line)):
            if not isinstance(size, int) or size < 8 or size % 8:
                raise FlowError(
                    f"region `{name}` has {what}={size!r}", place, "sizes are multiples of 8 bytes"
                )
        if bytes % line or line > LARGEST_LINE or bytes >= 1 << 32:
            raise FlowError(
                f"region `{name}` of {bytes} bytes has no lines of {line}",
                place,
                f"a line has at most {LARGEST_LINE} bytes and divides the region, which is smaller than 4 GiB",
            )
        init = _contents(name, init, place)
        if len(init) > bytes:
            raise FlowError(f"region `{name}` begins with {len(init)} bytes and has {bytes}", place)
        of_line = Struct(f"{name}_line", words=u64[line // 8])
        super().__init__(name, "array", u32, of_line, bytes // line, place=place, shared=shared)
        for attribute, value in (("size", bytes), ("line", line), ("init", init)):
            object.__setattr__(self, attribute, value)

    def definition(self) -> str:
        """Its table and its functions in C."""
        return "\n".join(
            [
                super().definition(),
                *(text for width in WIDTHS for text in self._functions(width)),
                *self._lines(),
            ]
        )

    def _functions(self, width: int) -> list[str]:
        name, of_bytes = self.name, width // 8
        word = f"line.words[at / 8 % {self.line // 8}]"
        begin = [
            f"    struct {name}_line line;",
            f"    if (at >= {self.size} || at % {of_bytes} != 0)",
            "        return false;",
            f"    nf_lookup(&{name}, at / {self.line}, &line);",
        ]
        shift, ones = "8 * (at % 8)", hex((1 << width) - 1)
        merged = (
            "value"
            if width == 64
            else f"({word} & ~({ones}ull << {shift})) | ((uint64_t)value << {shift})"
        )
        return [
            f"static bool {name}_read{width}(uint32_t at, uint{width}_t *value)",
            "{",
            "    *value = 0;",
            *begin,
            f"    *value = (uint{width}_t)({word}{'' if width == 64 else f' >> {shift}'});",
            "    return true;",
            "}",
            f"static bool {name}_write{width}(uint32_t at, uint{width}_t value)",
            "{",
            *begin,
            f"    {word} = {merged};",
            f"    nf_update(&{name}, at / {self.line}, line);",
            "    return true;",
            "}",
        ]

    def _lines(self) -> list[str]:
        name, there = self.name, f"at < {self.size}"
        return [
            f"static bool {name}_line(uint32_t at, struct {name}_line *to)",
            "{",
            f"    return nf_lookup(&{name}, at / {self.line}, to);",
            "}",
            f"static bool {name}_put(uint32_t at, struct {name}_line from)",
            "{",
            f"    return {there} && nf_update(&{name}, at / {self.line}, from);",
            "}",
        ]

    def contents(self) -> str:
        """What it begins with, as a table file (TOML) has it."""
        rows, data = [], self.init.ljust(-(-len(self.init) // self.line) * self.line, b"\0")
        for at in range(0, len(data), self.line):
            words = [
                int.from_bytes(data[of : of + 8], "little") for of in range(at, at + self.line, 8)
            ]
            if any(words):
                said = ", ".join(f'"{word:#x}"' for word in words)
                rows.append(
                    f"[[{self.name}]]\nkey = {at // self.line}\nvalue = {{ words = [{said}] }}\n"
                )
        return "\n".join(rows)


def _contents(name: str, init, place) -> bytes:
    if init is not None and not isinstance(init, (bytes, bytearray)):
        raise FlowError(
            f"region `{name}` begins with {init!r}, which is no bytes", place, 'write init=b"…"'
        )
    return bytes(init or b"")


def check_sides(program) -> None:
    """Raises FlowError if a region is used on both sides of the host link: an address is of the
    memory of one of them."""
    first: dict[str, tuple[Element, str]] = {}
    waiting: list[tuple[Element, str | None]] = [(source, "nic") for source in program.sources]
    seen: list[tuple[Element, str | None]] = []
    while waiting:
        element, side = state = waiting.pop(0)
        if state in seen:
            continue
        seen.append(state)
        for region in element.tables:
            if not isinstance(region, MemoryRegion) or side is None:
                continue
            other, where = first.setdefault(region.name, (element, side))
            if where != side:
                raise FlowError(
                    f"region `{region.name}` is used by {other} on the {where} side and by {element} on the {side} side",
                    element.place,
                    "an address is of one memory: keep its elements on one side and send values over the queue",
                )
        for port in element.outputs.values():
            # Where a queue says no side the planner decides.
            waiting += [(behind(to), to.side if isinstance(to, Queue) else side) for to in port.to]
