"""Joins and orders: what runs when several ways of one packet meet or part.

    class Both(Element):
        left = In(size=u32)
        right = In(pkt=packet, source=be32)
        body = "…"

    split.size >> Scale() >> both.left
    split.out >> both.right

**Joins.** `Both` runs once its inputs were fed for the same packet, which means by one run of their *fork*: the nearest
element that all ways to them come from. Values wait in a variable of the fork's, so nothing is kept from packet to packet
and no memory is allocated. A packet cannot wait: if an input has one, that input starts the join and must be fed last. Ways
are counted in the C of the fork and of everything between (`NF_FIRES` with `together`): each way feeds every input once, or
none of them.

**Orders.** An output that leads to several elements runs them in the order of their connection, and
`run_order(first, second)` puts one way before another. Outputs of one element run when its body calls them.
"""

from __future__ import annotations

from .element import Element, Input, Port, Queue
from .errors import FlowError, Place, caller
from .types import Struct, packet, u32


def run_order(*elements: Element | list[Element]) -> None:
    """Each of the elements runs after those before it, where one output leads to both; a list runs in any order."""
    place = caller()
    rows = [each if isinstance(each, (list, tuple)) else [each] for each in elements]
    if len(rows) < 2 or not all(isinstance(each, Element) for row in rows for each in row):
        raise FlowError("an order is of at least two elements", place, "write run_order(first, second)")
    for before, row in zip(rows, rows[1:], strict=False):
        for element in row:
            element.after += [(other, place) for other in before]


class Join:
    """An element with several inputs, and where they meet."""

    def __init__(self, element: Element, fork: Element):
        self.element, self.fork = element, fork
        self.last = next((i for i in element.inputs.values() if packet in i.types), None)
        values = {name: ty for name, ty in element.inp.values.items() if ty is not packet}
        waits = {n: ty for n, ty in values.items() if self.last is None or n not in self.last.values}
        fed = {} if self.last is not None else {"fed": u32}
        if fed and "fed" in waits:
            raise FlowError(f"{element} has a value that is called `fed`", element.place, "call it otherwise")
        self.waits = waits
        self.struct = Struct(f"{element.name}_join", **waits, **fed) if waits or fed else None

    @property
    def variable(self) -> str:
        """The name of the variable in which values wait."""
        return f"{self.element.name}_join"


def successors(element: Element) -> list[Element]:
    """What runs with it, not behind a queue."""
    found = []
    for port in element.outputs.values():
        found += [to.element if isinstance(to, Input) else to for to in port.to if not isinstance(to, Queue)]
    return found


def reached(element: Element, known: dict[Element, set[Element]]) -> set[Element]:
    """Everything that runs with an element, itself included."""
    if element not in known:
        known[element] = {element}.union(*(reached(each, known) for each in successors(element)))
    return known[element]


def find(elements: list[Element], begins: list[Element]) -> list[Join]:
    """All joins of a program, with their forks.

    begins: sources, and elements behind queues.
    Raises FlowError for inputs that nothing leads to, and for inputs that meet at no fork.
    """
    joins = [element for element in elements if element.inputs]
    if not joins:
        return []
    fed = {to for e in elements for port in e.outputs.values() for to in port.to if isinstance(to, Input)}
    for element in joins:
        for one in element.inputs.values():
            if one not in fed:
                raise FlowError(
                    f"nothing leads to {one}", element.place, "it runs when all of its inputs were fed: connect it"
                )
    over = _dominators(elements, begins)
    found = []
    for element in joins:
        common = set.intersection(*(over[each] for each in elements if element in successors(each)))
        if not common:
            names = ", ".join(f"`{name}`" for name in element.inputs)
            raise FlowError(
                f"the inputs of {element} ({names}) meet at no fork",
                element.place,
                "let one element, on this side of all queues, lead to all of them",
            )
        found.append(Join(element, max(common, key=lambda each: len(over[each]))))
    return found


def _dominators(elements: list[Element], begins: list[Element]) -> dict[Element, set[Element]]:
    """For each element, those that all ways from where handlers begin pass, itself included."""
    before: dict[Element, list[Element]] = {element: [] for element in elements}
    for element in elements:
        for other in successors(element):
            before[other].append(element)
    over: dict[Element, set[Element]] = {}

    def of(element: Element) -> set[Element]:
        if element not in over:
            ways = [of(each) for each in before[element]]
            ways += [set()] if element in begins or not ways else []
            over[element] = {element} | set.intersection(*ways)
        return over[element]

    for element in elements:
        of(element)
    return over


def orders(elements: list[Element]) -> dict[Port, list]:
    """What each output runs, in order.

    Raises FlowError for orders that contradict each other or that no output decides.
    """
    known: dict[Element, set[Element]] = {}
    wanted = [(first, second, place) for second in elements for first, place in second.after]
    for first, second, place in wanted:
        for each in (first, second):
            if each not in elements:
                raise FlowError(f"{each} has an order and is no part of the program", place)
        if first in reached(second, known):
            raise FlowError(
                f"{first} is to run before {second}, which leads to it", place, "connect them the other way round"
            )
    found, decided = {}, set()
    for element in elements:
        for port in element.outputs.values():
            found[port] = _sorted(port, wanted, known, decided)
    for at, (first, second, place) in enumerate(wanted):
        if at not in decided:
            raise FlowError(
                f"no output leads to both {first} and {second}",
                place,
                "outputs of one element run when its body calls them; what is behind queues runs later",
            )
    return found


def _sorted(port: Port, wanted: list, known: dict, decided: set[int]) -> list:
    ways = [set() if isinstance(to, Queue) else reached(to.element if isinstance(to, Input) else to, known) for to in port.to]
    before: dict[int, list[tuple[int, Element, Element, Place]]] = {at: [] for at in range(len(ways))}
    for number, (first, second, place) in enumerate(wanted):
        for one, way in enumerate(ways):
            for other, later in enumerate(ways):
                if one != other and first in way and second in later and not (second in way and first in later):
                    before[other].append((one, first, second, place))
                    decided.add(number)
    left, result = list(range(len(ways))), []
    while left:
        free = next((at for at in left if not any(one in left for one, *_ in before[at])), None)
        if free is None:
            said = [(first, second, place) for at in left for one, first, second, place in before[at] if one in left]
            (one, other, place), *rest = said
            lines = ", ".join(sorted({str(each) for _, _, each in rest if each != place}))
            raise FlowError(
                f"{one} is to run before {other}, and the other way round",
                place,
                f"see {lines}" if lines else "drop one order",
            )
        left.remove(free)
        result.append(port.to[free])
    return result
