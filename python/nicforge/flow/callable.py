"""Programs of one's own as part of a flow program: they call functions to receive and to send.

    service = CallableSegment(receives=Query, sends=Answer)
    park.query >> service
    service.sent >> Queue("answers", side="host") >> Finish()
    Program("phonebook", network, service)

`python prog.py build --emit host -o DIR` writes `phonebook_host.h`: C structs of both, and
`phonebook_attach`, `phonebook_receive` and `phonebook_send` for an existing program with an event
loop of its own. `python prog.py run --dev IF
--host-socket PATH` is where it attaches (runtime/host/nf_attach.h). A program has one such segment: all messages to a host
side have one type, and so have those from there.
"""

from __future__ import annotations

from .composite import Composite
from .element import Element, In
from .errors import FlowError, caller
from .library import FromHost
from .types import Struct, Type, packet


class _Receive(Element):
    def __init__(self, message: Type):
        self.inp = In(message=message)
        self.body = "nf_to_host(message);" if message is packet else "nf_host_msg(message);"
        super().__init__("receive")


class CallableSegment(Composite):
    """A program of one's own.

    receives  the struct, or `packet`, that its function for receiving gives and this segment's
              input takes, if any.
    sends     the struct that its function for sending takes, and the output `sent` gives, if any.
    """

    def configure(self, receives: Type | None = None, sends: Struct | None = None) -> None:
        for what, ty in (("receives", receives), ("sends", sends)):
            if (
                ty is not None
                and not isinstance(ty, Struct)
                and (ty is not packet or what == "sends")
            ):
                raise FlowError(
                    f"{self} {what} no struct",
                    self.place,
                    "what crosses is a struct at a time, or a packet to it",
                )
        if receives is None and sends is None:
            raise FlowError(
                f"{self} neither receives nor sends",
                self.place,
                "say CallableSegment(receives=…, sends=…)",
            )
        self.source: FromHost | None = None
        if receives is not None:
            self.inp = _Receive(receives)
        if sends is not None:
            self.source = FromHost(sends, "source")
            self.sent = self.source.out

    def begins(self) -> FromHost:
        """Where a program begins that it sends to."""
        if self.source is None:
            raise FlowError(
                f"{self} sends nothing",
                caller(),
                "it is no source: leave it out, or say CallableSegment(sends=…)",
            )
        return self.source


def one_only(elements: list[Element]) -> None:
    """Raises FlowError if several segments receive: what they receive would be mixed."""
    receiving = [element for element in elements if isinstance(element, _Receive)]
    if len(receiving) > 1:
        first, second = (element.composites[-1] for element in receiving[:2])
        raise FlowError(
            f"{first} and {second} both receive",
            second.place,
            "one program attaches at a time: let one receive a struct for both",
        )
