"""Write a packet program once; run it on any NIC. docs/api.md is the guide.

import nicforge

program = nicforge.load("examples/firewall")
plan = program.plan("bluefield2")
print(plan.rate_pps, plan.guarantee().one_flow_pps, plan.max_rate())
assert program.verify("xdp")
"""

import importlib
import pathlib
import sys

#: What the compiled module has; it is loaded when the first of it is asked for.
_NATIVE = (
    "Comparison",
    "Construct",
    "Error",
    "Guarantee",
    "Memory",
    "Output",
    "Plan",
    "Program",
    "Run",
    "Simulation",
    "Stage",
    "Support",
    "Table",
    "target",
    "targets",
)

__all__ = ["load", *_NATIVE]


def load(path, **options):
    """Reads and checks a program: C, an XDP object, αIR text, or a folder with a source of the same
    name.

    Keywords are those of `Program`: `define`, `include`, `libraries`, `function`, `pcap`, `tables`.
    A path at which nothing is, such as `examples/firewall`, is looked for among the examples that
    were installed with the package.
    """
    came = pathlib.Path(sys.prefix) / "share" / "nicforge" / path
    if not pathlib.Path(path).exists() and came.exists():
        path = came
    return __getattr__("Program")(path, **options)


def __getattr__(name):
    if name not in _NATIVE:
        raise AttributeError(f"module 'nicforge' has no attribute '{name}'")
    from .native import load as native

    module = native()
    importlib.import_module(".display", __name__).install(module)
    for each in _NATIVE:
        globals()[each] = getattr(module, each)
    return globals()[name]


def __dir__():
    return sorted(__all__)
