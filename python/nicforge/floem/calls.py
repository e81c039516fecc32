"""C code that calls a lowered program: the module's test, or a C file of its own.

The code is compiled with a function for each of the program's. It runs again and again: calls that
were answered before get what the program gave, later ones zero, and the program is then run on all
calls that were made. When the calls do not change any more, what was printed is what the program
prints.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import struct
import subprocess

from .lower import ARGUMENTS, Function, Lowered
from .model import Unsupported

#: Runs until the calls are the same; a test whose calls depend on each other needs as many as the
#: longest chain.
RUNS = 20
#: Seconds for compiling, and for the C code.
PATIENCE = 60


#: How often segments that run by themselves are run.
TICKS = 3


def driver(
    functions: list[Function], ticks: list[str], request, folder: pathlib.Path
) -> pathlib.Path:
    """The executable of the calling code."""
    lines = [_DRIVER]
    for function in functions:
        names = [f"{ty} a{at}" for at, ty in enumerate(function.arguments)]
        values = ", ".join(f"(long long)a{at}" for at in range(len(names))) or "0"
        head = f"{function.returns or 'void'} {function.name}({', '.join(names)})"
        call = f"floem_function({function.number}, {len(names)}, (long long[]){{ {values} }})"
        result = f"return ({function.returns}){call};" if function.returns else f"{call};"
        lines.append(f"{head} {{ {result} }}")
    source = folder / "driver.c"
    sources = [str(source)]
    if request.main is not None:
        beside = pathlib.Path.cwd() / f"{request.main}.c"
        sources.append(str(beside))
        declared = [line.split(" {")[0] + ";" for line in lines[1:]]
        (folder / f"{request.header}.h").write_text("\n".join([_EXTERN, *declared]))
    elif ticks:
        # Its own test waits for ever.
        lines.append(
            f"int main(void) {{ for (int i = 0; i < {TICKS}; i++) {{ {' '.join(f'{name}();' for name in ticks)} }} }}"
        )
    else:
        lines.append("int main(void)\n{\n" + request.testing + "\nreturn 0;\n}")
    source.write_text("\n".join(lines))
    binary = folder / "driver"
    words = [
        "cc",
        "-std=gnu11",
        "-w",
        "-I",
        str(folder),
        "-I",
        str(pathlib.Path.cwd()),
        *sources,
        "-o",
        str(binary),
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode != 0:
        raise Unsupported(f"C that calls it and is refused: {done.stderr.strip().splitlines()[0]}")
    return binary


def run(lowered: Lowered, request, folder: pathlib.Path) -> list[str]:
    """The words that are printed."""
    binary = driver(lowered.functions, lowered.ticks, request, folder)
    answers: list[tuple[int, str]] = []
    before = None
    for _ in range(RUNS):
        (folder / "answers").write_bytes(b"".join(_answer(value, text) for value, text in answers))
        (folder / "calls").unlink(missing_ok=True)
        words = {
            **os.environ,
            "FLOEM_ANSWERS": str(folder / "answers"),
            "FLOEM_CALLS": str(folder / "calls"),
        }
        done = subprocess.run([binary], capture_output=True, text=True, timeout=PATIENCE, env=words)
        if done.returncode != 0:
            raise Unsupported(f"C that calls it and ends with {done.returncode}")
        calls = (folder / "calls").read_bytes() if (folder / "calls").exists() else b""
        if calls == before:
            return done.stdout.split()
        before = calls
        answers = _answers(lowered, calls, folder)
    raise Unsupported(f"C whose calls change after {RUNS} runs")


def _answer(value: int, text: str) -> bytes:
    printed = text.encode()
    return struct.pack("<qI", value, len(printed)) + printed


def _answers(lowered: Lowered, calls: bytes, folder: pathlib.Path) -> list[tuple[int, str]]:
    """What the program answers calls, and what it prints meanwhile."""
    size = 8 + 8 * ARGUMENTS
    out = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)]
    count = len(calls) // size
    for at in range(count):
        out.append(
            struct.pack("<IIII", 0, at * 1000, size, size) + calls[at * size : (at + 1) * size]
        )
    capture = folder / "calls.pcap"
    capture.write_bytes(b"".join(out))
    printed = folder / "printed"
    printed.write_bytes(b"")
    os.environ["FLOEM_OUT"] = str(printed)
    said = lowered.program.tool().run(
        "run", "--target", "interp", "--pcap", f"host={capture}", "--events"
    )
    texts = printed.read_text().split("\x1e")[1:]
    texts += [""] * (count - len(texts))
    values = [0] * count
    for line in re.finditer(r"^(\d+): host_msg message (\{.*\})$", said, re.M):
        values[int(line[1]) - 1] = json.loads(line[2])["value"]
    return list(zip(values, texts, strict=True))


_EXTERN = """#pragma once
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
void init(char *argv[]);
void run_threads(void);
void kill_threads(void);
void finalize_and_check(void);
"""

_DRIVER = (
    _EXTERN
    + """#include <string.h>
void init(char *argv[]) { }
void run_threads(void) { }
void kill_threads(void) { }
void finalize_and_check(void) { }
void out(int x) { printf("%d\\n", x); }

long long floem_function(uint32_t function, uint32_t count, const long long *values)
{
    static FILE *calls, *answers;
    struct {
        uint32_t function, number;
        long long a[ARGUMENTS];
    } call = {function, count};
    if (!calls) {
        calls = fopen(getenv("FLOEM_CALLS"), "w");
        answers = fopen(getenv("FLOEM_ANSWERS"), "r");
    }
    memcpy(call.a, values, count * sizeof *values);
    fwrite(&call, sizeof call, 1, calls);
    long long value = 0;
    uint32_t length = 0;
    if (fread(&value, sizeof value, 1, answers) != 1 || fread(&length, sizeof length, 1, answers) != 1)
        return 0;
    for (; length > 0; length--)
        putchar(getc(answers));
    return value;
}
""".replace("ARGUMENTS", str(ARGUMENTS))
)
