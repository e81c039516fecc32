"""Composites: several elements as one.

    class Limit(Composite):
        def configure(self, most):
            count, refuse = Count(MOST=most), Drop("too many")
            count.more >> refuse
            self.inp = count  # where what comes in goes: an element, or a queue
            self.out = count.fine  # an output of one of them

`Limit(5)` is connected as an element is. Elements inside are connected to nothing outside but
through these.
"""

from __future__ import annotations

from .element import Element, Input, Port, Queue, building
from .errors import FlowError, caller
from .types import check_name


class Composite:
    """Several elements as one. Subclasses say them in `configure`, which gets the arguments.

    name: what its elements' names begin with; made from the class if it is left out.
    """

    def __init__(self, *arguments, name: str | None = None, **named):
        self.place = caller()
        plain = "".join(
            "_" + c.lower() if c.isupper() and at else c.lower()
            for at, c in enumerate(type(self).__name__)
        )
        self.name = check_name(name if name is not None else plain, self.place)
        self.inp: Element | Queue | None = None
        self.members: list[Element | Queue] = []
        building.append(self)
        try:
            self.configure(*arguments, **named)
        finally:
            building.pop()
        if self.inp is not None and not isinstance(self.inp, (Element, Queue, Input)):
            raise FlowError(f"the input of {self} is neither an element nor a queue", self.place)
        for output in self.outputs.values():
            if output.element not in self.members:
                raise FlowError(
                    f"{output} is no output of {self}",
                    self.place,
                    "name one of an element made in `configure`",
                )
        if (
            self.inp is not None
            and (self.inp.element if isinstance(self.inp, Input) else self.inp) not in self.members
        ):
            raise FlowError(
                f"{self.inp} is no part of {self}",
                self.place,
                "name an element made in `configure`",
            )

    def configure(self, *arguments, **named) -> None:
        """Makes and connects the elements, and sets `self.inp` and outputs."""
        raise FlowError(
            f"{self} has no `configure`", self.place, "say there which elements it is made of"
        )

    @property
    def outputs(self) -> dict[str, Port]:
        """Its outputs by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Port)}

    def entry(self) -> Element | Queue:
        """Where a connection to it leads."""
        if self.inp is None:
            raise FlowError(f"{self} has no input", caller(), "set `self.inp` in its `configure`")
        return self.inp

    def __rshift__(self, to):
        if len(self.outputs) != 1:
            names = ", ".join(self.outputs) or "none"
            raise FlowError(
                f"{self} has not just one output (there are: {names})",
                caller(),
                "name it: composite.out >> …",
            )
        return next(iter(self.outputs.values())) >> to

    def __str__(self) -> str:
        return f"composite `{self.name}`"


def check_borders(port: Port, to: Element | Queue) -> None:
    """What goes into a composite goes to its input, what comes out by one of its outputs."""
    for composite in to.composites:
        if composite not in port.element.composites and composite.inp is not to:
            raise FlowError(
                f"{port} leads into {composite}, past its input",
                port.place,
                "connect it to the composite itself",
            )
    for composite in port.element.composites:
        if composite not in to.composites and port not in composite.outputs.values():
            raise FlowError(
                f"{port} leads out of {composite}, but is none of its outputs",
                port.place,
                "make it one in `configure`",
            )
