"""Packet programs of elements: C with ports, connected in Python. docs/flow.md is the guide.

from nicforge.flow import *

source, count = FromNet(), Count()
source >> Queue("work") >> count
count.out >> Reply()
Program("counting", source).main()
"""

import inspect as _inspect

from . import border as _border
from .batches import Batcher, Debatcher, Tick
from .cache import Cache
from .callable import CallableSegment
from .composite import Composite
from .element import Element, In, Input, Out, Port, Queue, Segment
from .errors import FlowError
from .external import External
from .headers import Count, Echo, Ethernet, Hash, Ipv4, Udp
from .joins import run_order
from .library import Discard, Drop, FromHost, FromNet, Reply, ToHost, ToNet, ToSystem
from .memory import MemoryRegion
from .pairs import Pair
from .program import Program
from .state import Field, State, bytes_
from .tune import Choices, Tried, Tuned, tune
from .types import (
    Struct,
    Table,
    Type,
    be16,
    be32,
    be64,
    bool_,
    i8,
    i16,
    i32,
    i64,
    mac,
    packet,
    u8,
    u16,
    u32,
    u64,
)

__all__ = [
    "Batcher",
    "Cache",
    "Choices",
    "CallableSegment",
    "Composite",
    "Count",
    "Debatcher",
    "Discard",
    "Drop",
    "Echo",
    "Element",
    "Ethernet",
    "External",
    "Field",
    "FlowError",
    "FromHost",
    "FromNet",
    "Hash",
    "In",
    "Ipv4",
    "MemoryRegion",
    "Out",
    "Pair",
    "Program",
    "Queue",
    "Reply",
    "Segment",
    "State",
    "Struct",
    "Table",
    "Tick",
    "ToHost",
    "ToNet",
    "ToSystem",
    "Tried",
    "Tuned",
    "Type",
    "Udp",
    "be16",
    "be32",
    "be64",
    "bool_",
    "bytes_",
    "i16",
    "i32",
    "i64",
    "i8",
    "mac",
    "packet",
    "run_order",
    "tune",
    "u16",
    "u32",
    "u64",
    "u8",
]

_border.guard(
    [
        *(each for each in (globals()[name] for name in __all__) if _inspect.isclass(each)),
        Input,
        Port,
    ]
)
run_order, tune = _border.guarded(run_order), _border.guarded(tune)
_border.hook()
