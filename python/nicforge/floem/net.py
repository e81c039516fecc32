"""Packets as addresses: elements of Floem's library between segments and the network.

Packets that come in are the frames that the survey was given, each in memory of its own; what goes
out is written down. A buffer is the packet's memory.
"""

from __future__ import annotations

import re

from . import model
from .model import Element, Input, Output, SizeT

#: What a packet is on ports: its size, its first byte, and its buffer.
PACKET = (SizeT, "void *", "void *")


class FromNet(Element):
    def configure(self, batch_size=32):
        self.out, self.nothing = Output(*PACKET), Output()

    def impl(self):
        self.run_c(
            "size_t size; void *packet, *buffer; floem_from_net(&size, &packet, &buffer);"
            "output switch { case packet: out(size, packet, buffer); else: nothing(); }"
        )


class FromNetFree(Element):
    """Memory stays: what else points into it, nobody knows here."""

    def configure(self):
        self.inp = Input("void *", "void *")

    def impl(self):
        self.run_c("")


class NetAlloc(Element):
    def configure(self):
        self.inp, self.out, self.oom = Input(SizeT), Output(*PACKET), Output()

    def impl(self):
        self.run_c(
            "size_t size = inp(); void *packet = calloc(1, size + 2048);"
            "output switch { case packet: out(size, packet, packet); else: oom(); }"
        )


class ToNet(Element):
    def configure(self, buffer="from_net", batch_size=32):
        self.inp = Input(*PACKET)

    def impl(self):
        self.run_c("(size_t size, void *packet, void *buffer) = inp(); floem_to_net(size, packet);")


#: By the number of their bytes.
_SWAPS = {2: "htons", 4: "htonl", 8: "htonp"}


def _swaps(state: type, path: str) -> str:
    """C that swaps the bytes of a state's integers, in states inside it too."""
    lines = []
    for name, field in model.fields_of(state).items():
        inner = model.world.kind(field.type)
        if inner is not None:
            lines.append(_swaps(inner, f"{path}{name}."))
        elif found := re.fullmatch(r"u?int(16|32|64)_t", str(field.type)):
            swap = _SWAPS[int(found[1]) // 8]
            lines.append(f"{path}{name} = {swap}({path}{name});")
    return " ".join(lines)


class HTON(Element):
    """Swaps the fields of a state in front of a packet; of other structs none are known."""

    def configure(self, state_name):
        self.inp, self.out = Input(*PACKET), Output(*PACKET)
        self.state_name = model.type_name(state_name)

    def impl(self):
        name = self.state_name
        state = model.world.kind(name)
        self.run_c(
            f"(size_t size, void *packet, void *buffer) = inp(); {name} *floem_at = packet;"
            f"{_swaps(state, 'floem_at->') if state else ''} output {{ out(size, packet, buffer); }}"
        )
