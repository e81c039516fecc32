"""Runs a module of Floem under Python 3.

Python 2's words are converted in memory. `floem` and its modules are ours while it runs, the folder
is the module's own, and `Compiler` notes what the module asks for: each request with the graph as
it was then.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import os
import pathlib
import sys
import types
import warnings

from . import library, model
from .model import Unsupported


@dataclasses.dataclass
class Request:
    """What a module asked its compiler for. expected: what is printed; mains: C files that have
    `main`, with their arguments; headers: names under which C includes the module's functions."""

    mode: str
    testing: str
    include: str
    expected: list[str] | None
    mains: list[tuple[str, tuple]]
    headers: list[str]
    depend: list[str]
    init: str


@dataclasses.dataclass
class Module:
    path: pathlib.Path
    world: model.World
    requests: list[Request]


def _python3(text: str, path: str) -> str:
    """The text as Python 3 has it."""
    try:
        ast.parse(text, path)
        return text
    except SyntaxError:
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from lib2to3 import refactor
    except ImportError as error:
        raise Unsupported(
            "words of Python 2, which this Python has no converter for (lib2to3)"
        ) from error
    tool = refactor.RefactoringTool(refactor.get_fixers_from_package("lib2to3.fixes"))
    return str(tool.refactor_string(text.rstrip() + "\n", path))


def _compiler(module: Module, compilers: list):
    class Compiler:
        def __init__(self, *flows):
            self.flows = flows
            self.testing, self.include, self.include_h, self.init = "", "", "", ""
            self.depend, self.desugar_mode, self.resource, self.remove_unused = (
                [],
                "impl",
                True,
                False,
            )
            self._header, self._made = None, False
            compilers.append(self)

        def _request(self, expected=None, mains=()):
            if not self._made:
                self._made = True
                for flow in self.flows:
                    flow()
            world = module.world
            headers = [self._header, *(getattr(s, "process", None) for s in world.segments)]
            depend = (
                self.depend
                if isinstance(self.depend, list)
                else [name for names in self.depend.values() for name in names]
            )
            tokens = (
                None
                if expected is None
                else [word for each in expected for word in str(each).split()]
            )
            include = f"{self.include_h or ''}\n{self.include or ''}"
            module.requests.append(
                Request(
                    self.desugar_mode,
                    self.testing or "",
                    include,
                    tokens,
                    list(mains),
                    [name for name in dict.fromkeys(headers) if name],
                    list(depend),
                    self.init or "",
                )
            )

        def generate_code_and_run(self, expected=None):
            self._request(expected)

        generate_code = generate_code_and_compile = generate_code_and_run

        def generate_code_as_header(self, name="tmp"):
            self._header = name

        def only_header(self):
            """Whoever asked for a header alone has C of its own, which is not here."""
            if self._header is not None and not self._made:
                self.testing = ""
                self._request()

        def compile_and_run(self, names):
            names = names if isinstance(names, list) else [names]
            mains = [(name, ()) if isinstance(name, str) else (name[0], name[1:]) for name in names]
            self._request(None, mains)

        def generate_graph(self, *arguments, **words):
            pass

    return Compiler


@contextlib.contextmanager
def _as_floem(names: dict):
    """`floem` and its modules, for the time in between."""
    package = types.ModuleType("floem")
    vars(package).update(names)
    package.__path__ = []
    made = {"floem": package}
    for name in ("dsl", "library", "compiler", "program", "common", "state"):
        made[f"floem.{name}"] = types.ModuleType(f"floem.{name}")
        vars(made[f"floem.{name}"]).update(names)
    for name in ("queue", "queue_smart", "cache_smart", "net", "target"):
        made[f"floem.{name}"] = names[name]
    # Modules from before there was a package have them by their own names.
    for name in ("dsl", "compiler", "library", *names):
        if f"floem.{name}" in made:
            made[name] = made[f"floem.{name}"]
    package.library = made["floem.library"]
    before = {name: sys.modules.get(name) for name in made}
    sys.modules.update(made)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = old


def run(path: str) -> Module:
    """What a module makes and asks for.

    Raises Unsupported for what is not lowered, and whatever the module itself raises.
    """
    file = pathlib.Path(path).resolve()
    module = Module(file, model.World(), [])
    model.world = module.world
    code = compile(_python3(file.read_text(), str(file)), str(file), "exec")
    compilers: list = []
    names = {**library.exported(), "Compiler": _compiler(module, compilers)}
    library_ = types.ModuleType("floem.library")
    vars(library_).update(names)
    names["library"] = library_
    folder, before, words = os.getcwd(), list(sys.path), sys.argv
    sys.argv = [str(file)]
    os.chdir(file.parent)
    sys.path.insert(0, str(file.parent))
    try:
        with _as_floem(names):
            exec(code, {"__name__": "__main__", "__file__": str(file)})
            for compiler in compilers:
                compiler.only_header()
    finally:
        os.chdir(folder)
        sys.path[:], sys.argv = before, words
    return module
