"""Smart queues whose far end a function of C polls.

Such a queue is a table of the program: an array of entries, each with its channel and the whole
state of a packet, and where each instance begins and ends. Entries that were taken are cleaned as
there: all at once, when the next entry needs the room.
"""

from __future__ import annotations

import dataclasses

from nicforge import flow

from . import model
from .model import Element, Input, Int, Output, Unsupported


@dataclasses.dataclass(eq=False)
class Smart:
    """A queue as it was asked for."""

    name: str
    size: int
    instances: int
    channels: int
    output: bool
    #: Channels that make who enqueues wait, and whether who dequeues waits.
    blocking: list[bool]
    waits: bool
    tables: tuple = ()
    entry: flow.Struct | None = None

    def made(self, state: type) -> tuple:
        """Its tables, for packets of a state."""
        if not self.tables:
            if "qid" not in state.fields:
                raise Unsupported("a smart queue of a state without `qid`")
            ends = flow.Struct(f"{self.name}_ends", head=flow.u32, tail=flow.u32, cleaned=flow.u32)
            members = {name: field.type for name, field in state.fields.items()}
            self.entry = flow.Struct(f"{self.name}_entry", floem_channel=flow.u32, **members)
            self.tables = (
                flow.Table(f"{self.name}_places", "array", flow.u32, ends, self.instances),
                flow.Table(
                    f"{self.name}_entries",
                    "array",
                    flow.u32,
                    self.entry,
                    self.instances * self.size,
                ),
            )
        return self.tables


class Enqueue(Element):
    """Packets that are put in, at an input for each channel."""

    smart: Smart

    def configure(self):
        self.inp = [Input() for _ in range(self.smart.channels)]
        if self.smart.output:
            self.done = Output()


class Dequeue(Element):
    """Takes the next entry of an instance, if there is one."""

    smart: Smart

    def configure(self):
        self.inp = Input(Int)
        self.out = [Output() for _ in range(self.smart.channels)]


class Clean(Element):
    """Gets the entries that were taken, when their room is needed."""

    smart: Smart

    def configure(self):
        self.out = [Output() for _ in range(self.smart.channels)]


def smart_queue(
    name,
    entry_size,
    size,
    insts,
    channels,
    checksum=False,
    enq_blocking=False,
    deq_blocking=False,
    enq_atomic=False,
    deq_atomic=False,
    clean=False,
    enq_output=False,
):
    """Classes of elements that enqueue, dequeue and clean."""
    blocking = enq_blocking if isinstance(enq_blocking, list) else [enq_blocking] * channels
    queue = Smart(name, size, insts, channels, bool(enq_output), blocking, bool(deq_blocking))
    model.world.queues.append((f"floem_queue_{name}", size, insts))
    kinds = [type(kind.__name__, (kind,), {"smart": queue}) for kind in (Enqueue, Dequeue, Clean)]
    return kinds[0], kinds[1], kinds[2] if clean else None


def _copied(smart: Smart, to: str, of: str) -> str:
    return " ".join(
        f"{to}{name} = {of}{name};" for name in smart.entry.members if name != "floem_channel"
    )


def enqueue_body(smart: Smart, channel: int, cleans: bool) -> str:
    """The C of an element that puts packets into a channel."""
    name, size = smart.name, smart.size
    clean = ""
    if cleans:
        arms = " ".join(f"case {at + 1}: clean{at}(); break;" for at in range(smart.channels))
        clean = f"""
            if (ends.tail - ends.cleaned == {size}) {{
                struct {name}_entry now = {{0}}, old;
                {_copied(smart, "now.", "state->")}
                for (uint32_t i = 0; i < {size}; i++) {{
                    if (ends.cleaned == ends.head)
                        break;
                    nf_lookup(&{name}_entries, place * {size} + ends.cleaned % {size}, &old);
                    {_copied(smart, "state->", "old.")}
                    ends.cleaned++;
                    switch (old.floem_channel) {{ {arms} }}
                }}
                {_copied(smart, "state->", "now.")}
            }}"""
    return f"""
        uint32_t place = (uint32_t)state->qid;
        struct {name}_ends ends;
        if (place < {smart.instances}) {{
            nf_lookup(&{name}_places, place, &ends);{clean}
            if (ends.tail - ends.head < {size}) {{
                struct {name}_entry entry = {{0}};
                entry.floem_channel = {channel + 1};
                {_copied(smart, "entry.", "state->")}
                nf_update(&{name}_entries, place * {size} + ends.tail % {size}, entry);
                ends.tail++;
            }}
            nf_update(&{name}_places, place, ends);
        }}
        {"done();" if smart.output else ""}"""


def dequeue_body(smart: Smart) -> str:
    """The C of an element that takes entries."""
    name, size = smart.name, smart.size
    arms = " ".join(f"case {at + 1}: out{at}(); break;" for at in range(smart.channels))
    return f"""
        uint32_t place = (uint32_t)inp_0;
        struct {name}_ends ends;
        struct {name}_entry entry;
        if (place < {smart.instances}) {{
            nf_lookup(&{name}_places, place, &ends);
            if (ends.head != ends.tail) {{
                nf_lookup(&{name}_entries, place * {size} + ends.head % {size}, &entry);
                ends.head++;
                nf_update(&{name}_places, place, ends);
                {_copied(smart, "state->", "entry.")}
                switch (entry.floem_channel) {{ {arms} }}
            }}
        }}"""
