"""Finds and loads the compiled module `nicforge._native`."""

import importlib.machinery
import importlib.util
import os
import pathlib
import shutil
import sys

#: What cargo calls the module in its target folder.
BUILT = "libnicforge_python.so"


def _places():
    """Files that may be the module: beside the command that $NICFORGE names, installed with this
    package, beside the command on the path, built in this repository."""
    here = pathlib.Path(__file__).resolve().parent
    given = os.environ.get("NICFORGE")
    if given:
        yield pathlib.Path(given).resolve().with_name(BUILT)
    yield here / "_native.abi3.so"
    on_path = shutil.which("nicforge")
    if on_path:
        yield pathlib.Path(on_path).resolve().with_name(BUILT)
    for folder in here.parents:
        for kind in ("release", "debug"):
            yield folder / "target" / kind / BUILT


def load():
    """The module.

    Raises:
        ImportError: it is not built.
    """
    name = "nicforge._native"
    if name in sys.modules:
        return sys.modules[name]
    for path in _places():
        if path.is_file():
            break
    else:
        raise ImportError(
            "nicforge's compiled module is not there: install a wheel (`make dist` makes one), or "
            "build it here with `make build`"
        )
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    sys.modules[name] = module
    return module
