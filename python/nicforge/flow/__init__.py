"""Packet programs of elements: C with ports, connected in Python. docs/flow.md is the guide.

from nicforge.flow import *

source, count = FromNet(), Count()
source >> Queue("work") >> count
count.out >> Reply()
Program("counting", source).main()
"""

from .cache import Cache
from .element import Element, In, Out, Queue
from .errors import FlowError
from .library import Discard, Drop, FromHost, FromNet, Reply, ToHost, ToNet, ToSystem
from .program import Program
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
    "Cache",
    "Discard",
    "Drop",
    "Element",
    "FlowError",
    "FromHost",
    "FromNet",
    "In",
    "Out",
    "Program",
    "Queue",
    "Reply",
    "Struct",
    "Table",
    "ToHost",
    "ToNet",
    "ToSystem",
    "Type",
    "be16",
    "be32",
    "be64",
    "bool_",
    "i8",
    "i16",
    "i32",
    "i64",
    "mac",
    "packet",
    "u8",
    "u16",
    "u32",
    "u64",
]
