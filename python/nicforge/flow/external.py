"""Functions of C that are no part of a program: a file of yours, an object, a library."""

from __future__ import annotations

import pathlib
import re

from .errors import FlowError, Place, caller


def having(has: str, place: Place, what: str) -> str:
    """Who has something: a library, or a file that is there, from the folder of the file that says
    so."""
    if has.startswith("-l"):
        return has
    path = pathlib.Path(place.file).resolve().parent / has
    if not path.is_file():
        raise FlowError(f"`{has}`, which has {what}, is not there", place, f"it would be {path}")
    return str(path)


class External:
    """A function that bodies call, on the host side or on `dpdk` (docs/language.md, "Functions of
    C").

        crc32 = External("uint64_t crc32(uint64_t sum, const void *bytes, uint32_t length)", "-lz", pure=True)

        class Check(Element):
            externals = (crc32,)
            body = "… crc32(0, &block, 64) …"

    prototype  integers, pointers to data, and an integer or nothing as result.
    has        who has it: a C file or an object, from the folder of the file that says so, or
               `-lNAME`.
    pure       it has no state and writes nothing, so several threads may call it.
    """

    def __init__(self, prototype: str, has: str, pure: bool = False):
        self.place = caller()
        found = re.fullmatch(r"[^()]*?(\w+)\s*\(.*\)", prototype.strip(), re.DOTALL)
        if found is None:
            raise FlowError(
                f"`{prototype}` is no prototype",
                self.place,
                'write External("uint32_t rank(uint32_t of)", "rank.c")',
            )
        self.name, self.prototype, self.pure = found[1], prototype.strip(), pure
        self.has = having(has, self.place, f"function `{self.name}`")

    def declaration(self) -> str:
        return f"extern {self.prototype}{' __attribute__((pure))' if self.pure else ''};"

    def __str__(self) -> str:
        return f"function `{self.name}`"
