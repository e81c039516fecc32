"""C code that calls a lowered program: the module's test, or C files of its own with `main`.

All of a module's C is one set of object files that the program is linked with: bodies of elements,
what runs them (runtime.c), and the calling code, which runs on threads. What is printed goes to a
file, and so does what is said about the end of it. Packets come from a capture and go to one.
"""

from __future__ import annotations

import functools
import os
import pathlib
import shutil
import struct
import subprocess

from . import ctext
from .model import Unsupported

#: Headers of Floem's run-time, which C files beside modules name.
HEADERS = ("util", "queue", "cache", "shm", "dpdkif", "jenkins_hash", "linux_hugepage")
HERE = pathlib.Path(__file__).parent
#: Seconds for one C file.
PATIENCE = 120
#: How often each segment runs at most, and messages at least: what a test needs is not known.
ROUNDS, STEPS = 300, 1000
MOST = 40000


def objects(lower) -> list[pathlib.Path]:
    """The object files of a module, which `build` makes."""
    request, folder = lower.request, lower.folder
    beside = [name for name in request.depend if (pathlib.Path.cwd() / f"{name}.c").is_file()]
    names = [
        "floem_module",
        "floem_runtime",
        *(f"floem_main_{at}" for at in range(len(request.mains))),
    ]
    return [folder / f"{name}.o" for name in [*names, *(f"floem_with_{name}" for name in beside)]]


def _wrapped(file: pathlib.Path, main: str = "main") -> str:
    """A C file beside the module, at a place where headers are found that are made; its `main` has
    another name."""
    renamed = f"#define main {main}\n" if main != "main" else ""
    text = file.read_text(errors="replace")
    return f'#include "runtime.h"\n{renamed}#line 1 "{file}"\n{text}\n'


def build(lowered) -> None:
    """Writes and compiles a module's C."""
    lower = lowered.lower
    world, request, folder = lower.world, lower.request, lower.folder
    for name in ("runtime.h", "frame.h"):
        shutil.copy(HERE / name, folder / (name if name == "runtime.h" else "floem_frame.h"))
    functions = [f for f in lowered.functions if f.number not in {n for n, _ in lowered.ticks}]
    bodies = getattr(lower, "bodies", [])
    texts = [body.text for body in bodies]
    texts += [ty for body in bodies for types in body.inputs.values() for ty in types]
    texts += [ty for body in bodies for _, types in body.outs for ty in types]
    texts += [line for body in bodies for line in body.before]
    texts += [ctext.head(function) for function in functions]
    flows = {e.of_flow.state.state for e in lower.elements if e.of_flow and e.of_flow.state}
    texts += [kind.__name__ for kind in flows] + [type(one).__name__ for one in world.instances]
    texts += [request.testing, request.include]
    header = ctext.module_header(world, request, "\n".join(texts), functions)
    (folder / "floem_module.h").write_text(header)
    for name in HEADERS:
        (folder / f"{name}.h").write_text('#include "runtime.h"\n')
    for name in request.headers:
        (folder / f"{name}.h").write_text('#pragma once\n#include "floem_module.h"\n')
    (folder / "floem_module.c").write_text(_module(lowered, functions, bodies, flows))
    (folder / "floem_runtime.c").write_text(f'#include "{HERE / "runtime.c"}"\n')
    for at, (main, _) in enumerate(request.mains):
        file = pathlib.Path.cwd() / f"{main}.c"
        if not file.is_file():
            raise Unsupported(f"a C file that is not there ({main}.c)")
        (folder / f"floem_main_{at}.c").write_text(_wrapped(file, f"floem_main_{at}"))
    for name in request.depend:
        file = pathlib.Path.cwd() / f"{name}.c"
        if file.is_file():
            (folder / f"floem_with_{name}.c").write_text(_wrapped(file))
    for made in objects(lower):
        _compile(made, ["-DFLOEM_DPDK"] if "dpdk" in request.headers else [])


@functools.cache
def _dpdk() -> list[str]:
    found = subprocess.run(["pkg-config", "--cflags", "libdpdk"], capture_output=True, text=True)
    return found.stdout.split() if found.returncode == 0 else []


def _compile(made: pathlib.Path, defined: list[str]) -> None:
    source = made.with_suffix(".c")
    paths = ["-I", str(made.parent), "-I", str(pathlib.Path.cwd())]
    words = ["cc", "-std=gnu11", "-O1", "-w", "-fPIC", "-fcommon", "-fno-strict-aliasing"]
    words += [
        *paths,
        *defined,
        *_dpdk(),
        "-march=native",
        "-D_GNU_SOURCE",
        "-c",
        str(source),
        "-o",
        str(made),
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        first = next((line for line in lines if "error:" in line), lines[0])
        raise Unsupported(f"C that is refused: {first.replace(str(made.parent) + '/', '')}")
    if made.stem != "floem_module":
        # Functions in headers are in all of them.
        subprocess.run(["objcopy", "--weaken", str(made)], check=True)


def _module(lowered, functions: list, bodies: list, flows: set) -> str:
    """The C file of bodies, memory, functions and the test."""
    lower = lowered.lower
    request = lower.request
    memory = hasattr(lower, "bodies")
    variables, first = ctext.memory(lower.world) if memory else ([], [])
    lines = ['#include "floem_module.h"', *variables]
    lines += ["bool floem_ran(uint32_t body);", "void *floem_region(size_t size);"]
    sizes = [f"sizeof(struct {kind.__name__})" for kind in flows] if memory else []
    size = "8"
    for one in sizes:
        size = f"({one} > {size} ? {one} : {size})"
    lines.append(f"void *floem_state(void) {{ return calloc(1, {size}); }}")
    lines += [ctext.stub(function) for function in functions]
    lines += [body.c(getattr(lower, "numbers", {})) for body in bodies]
    table = ", ".join(f"floem_body_{body.number}" for body in bodies)
    lines.append(f"void (*const floem_bodies[])(struct floem_frame *) = {{{table or 0}}};")
    ticks = ", ".join(f"{{{function}, {core}}}" for function, core in lowered.ticks)
    lines.append(
        f"const struct floem_tick {{ uint32_t function, core; }} floem_ticks[] = {{{ticks or '{0}'}}};"
    )
    lines.append(f"const uint32_t floem_tick_count = {len(lowered.ticks)};")
    defaults = [
        str(int(f.default))
        if isinstance(f.default, (bool, int))
        else f"(uint64_t)({f.default or 0})"
        for f in lowered.functions
    ]
    lines.append(f"const uint64_t floem_defaults[] = {{{', '.join(defaults)}}};")
    lines += boxes(lower, lowered.functions)
    begin = "\n".join([*first, request.init])
    lines.append(
        "static char **floem_words;\nstatic void floem_begin(void)\n{\nchar **argv = floem_words;\n"
        f"{begin}\n}}\nvoid init(char *argv[])\n{{\nfloem_words = argv;\n"
        "static pthread_once_t once = PTHREAD_ONCE_INIT; pthread_once(&once, floem_begin);\n}"
    )
    mains = [f"floem_main_{at}" for at in range(len(request.mains))]
    arguments = [[main, *map(str, words)] for main, words in request.mains]
    if not mains:
        lines.append(
            "int floem_test(int argc, char *argv[]) { init(argv); run_threads();\n"
            f"{request.testing}\nreturn 0; }}"
        )
        mains, arguments = ["floem_test"], [["test"]]
    lines += [f"int {main}(int, char **);" for main in mains]
    lines.append(f"int (*const floem_mains[])(int, char **) = {{{', '.join(mains)}}};")
    for at, words in enumerate(arguments):
        quoted = ", ".join(f'"{word}"' for word in words)
        lines.append(f"static char *floem_words_{at}[] = {{{quoted}, NULL}};")
    names = ", ".join(f"floem_words_{at}" for at in range(len(mains)))
    lines.append(f"char **const floem_arguments[] = {{{names}}};")
    lines.append(f"const uint32_t floem_main_count = {len(mains)};")
    return "\n".join([*lines, ""])


def boxes(lower, functions: list) -> list[str]:
    """Mailboxes between threads: who takes from each."""
    made = getattr(lower, "boxes", {})
    takes = {}
    for function in functions:
        for start, _ in function.starts:
            if isinstance(start, tuple):
                takes[start[0]] = function.number
    words = ", ".join(str(takes.get(at, -1)) for at in range(len(made)))
    gives = [getattr(lower, "givers_of", {}).get(at, -1) for at in range(len(made))]
    return [
        f"const int floem_givers[] = {{{', '.join(map(str, gives)) or -1}}};",
        f"const int floem_takers[] = {{{words or -1}}};",
        f"const uint32_t floem_box_count = {len(made)};",
        f"struct floem_box *floem_boxes[{len(made) + 1}];",
    ]


def run(lowered, request, folder: pathlib.Path, frames: str | None) -> tuple[list[str], int]:
    """The words that are printed, and how many packets went out."""
    steps = max(STEPS, ROUNDS * (len(lowered.ticks) + 1))
    while True:
        status = _attempt(lowered, folder, min(steps, MOST), frames)
        text = (folder / "printed").read_text(errors="replace")
        endless = request.expected is None
        if "over" in status or "exit" in status or endless or steps >= MOST:
            break
        steps *= 8
    sent = folder / "sent.pcap"
    return text.split(), _records(sent.read_bytes()) if sent.exists() else 0


def _attempt(lowered, folder: pathlib.Path, steps: int, frames: str | None) -> str:
    out = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)]
    out += [struct.pack("<IIIII", 0, at, 4, 4, at) for at in range(steps)]
    capture = folder / "steps.pcap"
    capture.write_bytes(b"".join(out))
    for name in ("printed", "status"):
        (folder / name).write_bytes(b"")
    os.environ |= {
        "FLOEM_OUT": str(folder / "printed"),
        "FLOEM_STATUS": str(folder / "status"),
        "FLOEM_SENT": str(folder / "sent.pcap"),
        "FLOEM_FRAMES": str(pathlib.Path(frames).resolve()) if frames else "",
    }
    tool = lowered.program.tool()
    tool.run("run", "--target", "interp", "--pcap", f"host={capture}")
    return (folder / "status").read_text()


def _records(capture: bytes) -> int:
    at, count = 24, 0
    while at + 16 <= len(capture):
        at += 16 + struct.unpack_from("<I", capture, at + 8)[0]
        count += 1
    return count
