"""Elements that every program uses."""

from __future__ import annotations

from .element import Element, In, Out, Segment
from .types import Struct, Type, packet, u32


class FromNet(Element):
    """Packets from the network. The program begins here, on the cores of `segment` if there is
    one."""

    out = Out(packet)

    def __init__(self, name: str | None = None, segment: Segment | None = None):
        super().__init__(name)
        self.segment = segment


class FromHost(Element):
    """Messages that the program's host side sends, as structs of one type."""

    def __init__(self, message: Struct, name: str | None = None):
        super().__init__(name)
        self.message = message
        self.add_output("out", message)


class ToNet(Element):
    """Out to the network, by a port."""

    inp = In(pkt=packet, port=u32)
    body = "nf_send(pkt, port);"


class Reply(Element):
    """Out to the network, by the port it came in by."""

    inp = In(pkt=packet)
    body = "nf_send(pkt, nf_port(pkt));"


class ToSystem(Element):
    """To the operating system's network stack, as the packet came."""

    inp = In(pkt=packet)
    body = "nf_reset(pkt);\nnf_pass(pkt);"


class ToHost(Element):
    """To the program's own host side."""

    inp = In(pkt=packet)
    body = "nf_to_host(pkt);"


class Drop(Element):
    """Gives packets up, counted under a reason; `Drop("busy", Request)` with the values they
    carry."""

    def __init__(self, reason: str, *types: Type, name: str | None = None):
        self.inp = In(pkt=packet, **{f"value_{at}": ty for at, ty in enumerate(types)})
        super().__init__(name)
        escaped = reason.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
        self.body = f'nf_drop(pkt, "{escaped}");'
        self.reason = reason


class Discard(Element):
    """Takes values that nobody wants; `Discard(u32, Item)`."""

    def __init__(self, *types: Type, name: str | None = None):
        self.inp = In(**{f"value_{at}": ty for at, ty in enumerate(types)})
        super().__init__(name)
