"""Elements and modules that come with Floem."""

from __future__ import annotations

import types

from . import caches, model
from .caches import smart_cache, smart_cache_with_state
from .entries import q_buffer, q_entry, queue_custom, queue_default
from .model import Double, Element, Float, Input, Int, Output, SizeT, Uintptr
from .net import HTON, FromNet, FromNetFree, NetAlloc, ToNet
from .queues import smart_queue


class Identity(Element):
    def configure(self, ty):
        self.inp, self.out = Input(ty), Output(ty)

    def impl(self):
        self.run_c("output { out(inp()); }")


class Inc(Identity):
    def impl(self):
        self.run_c("output { out(inp() + 1); }")


class Add(Element):
    def configure(self, ty):
        self.inp1, self.inp2, self.out = Input(ty), Input(ty), Output(ty)

    def impl(self):
        self.run_c("output { out(inp1() + inp2()); }")


class Drop(Element):
    def configure(self):
        self.inp = Input()

    def impl(self):
        self.run_c("")


class Constant(Element):
    def configure(self, ty, value):
        self.out, self.value = Output(ty), value

    def impl(self):
        self.run_c(f"output {{ out({self.value}); }}")


class PrintNum(Element):
    def configure(self, ty=Int):
        self.inp, self.type = Input(ty), ty

    def impl(self):
        form = {SizeT: "%ld", Uintptr: "%ld", Float: "%f", Double: "%lf"}.get(self.type, "%d")
        self.run_c(f'printf("{form}\\n", inp());')


queue = types.ModuleType("floem.queue")
vars(queue).update(
    queue_custom=queue_custom, queue_default=queue_default, q_buffer=q_buffer, q_entry=q_entry
)
queue_smart = types.ModuleType("floem.queue_smart")
queue_smart.smart_queue = smart_queue
cache_smart = types.ModuleType("floem.cache_smart")
vars(cache_smart).update(smart_cache=smart_cache, smart_cache_with_state=smart_cache_with_state)
net = types.ModuleType("floem.net")
vars(net).update(
    FromNet=FromNet, FromNetFree=FromNetFree, NetAlloc=NetAlloc, ToNet=ToNet, HTON=HTON
)
target = types.ModuleType("floem.target")
vars(target).update(
    CPU="CPU",
    HOST="CPU",
    CAVIUM="CAVIUM",
    dpdk="dpdk",
    is_dpdk_proc=lambda process: process == "dpdk",
)


class Cache:
    write_through, write_back = "write_through", "write_back"
    write_alloc, no_write_alloc = "write_alloc", "no_write_alloc"


def master_process(name):
    pass


def exported() -> dict:
    """What `from floem import *` gives."""
    names = {
        n: v
        for n, v in vars(model).items()
        if not n.startswith("_") and n not in ("world", "World", "dataclasses", "annotations")
    }
    own = (
        "Identity",
        "Inc",
        "Add",
        "Drop",
        "Constant",
        "PrintNum",
        "Cache",
        "master_process",
        "FromNet",
        "ToNet",
        "FromNetFree",
        "NetAlloc",
        "HTON",
    )
    return {
        **names,
        **{name: globals()[name] for name in own},
        "CacheState": caches.CacheState,
        "queue": queue,
        "queue_smart": queue_smart,
        "cache_smart": cache_smart,
        "net": net,
        "target": target,
    }
