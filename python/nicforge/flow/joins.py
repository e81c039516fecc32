"""Joins and orders: what runs when several ways of one packet meet or part.

    class Both(Element):
        left = In(size=u32)
        right = In(pkt=packet, source=be32)
        body = "…"

    split.size >> Scale() >> both.left
    split.out >> both.right

**Joins.** `Both` runs once its inputs were fed for the same packet, which means by one run of their *fork*: the nearest
element that all ways to them come from. Values wait in a variable of the fork's, so nothing is kept
from packet to packet and no memory is allocated. A packet cannot wait: if an input has one, that
input starts the join and must be fed last. Ways are counted in the C of the fork and of everything
between (`NF_FIRES` with `together`): each way feeds every input once, or none of them.

**Across a queue.** One input may be fed behind a queue: an entry carries what waits for it, and that input starts the join
there. So all other inputs are fed before the packet enters the queue. If two inputs are behind
queues there are two entries of one packet, and nothing says which belong together: that is refused.

**Orders.** An output that leads to several elements runs them in the order of their connection, and
`run_order(first, second)` puts one way before another. Outputs of one element run when its body
calls them.
"""

from __future__ import annotations

from .element import Element, Input, Port, Queue
from .errors import FlowError, Place, caller
from .types import Struct, packet, u32


def run_order(*elements: Element | list[Element]) -> None:
    """Each of the elements runs after those before it, where one output leads to both; a list runs
    in any order."""
    place = caller()
    rows = [each if isinstance(each, (list, tuple)) else [each] for each in elements]
    if len(rows) < 2 or not all(isinstance(each, Element) for row in rows for each in row):
        raise FlowError(
            "an order is of at least two elements", place, "write run_order(first, second)"
        )
    for before, row in zip(rows, rows[1:], strict=False):
        for element in row:
            element.after += [(other, place) for other in before]


class Join:
    """An element with several inputs, and where they meet."""

    def __init__(self, element: Element, fork: Element, late: Input | None = None):
        self.element, self.fork, self.late = element, fork, late
        #: Queues whose entries carry what waits, where an input is behind one: the first, then
        #: those behind it.
        self.queues: list[Queue] = []
        self.last = late or next((i for i in element.inputs.values() if packet in i.types), None)
        values = {name: ty for name, ty in element.inp.values.items() if ty is not packet}
        waits = {
            n: ty for n, ty in values.items() if self.last is None or n not in self.last.values
        }
        fed = {} if self.last is not None else {"fed": u32}
        if fed and "fed" in waits:
            raise FlowError(
                f"{element} has a value that is called `fed`", element.place, "call it otherwise"
            )
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
        found += [
            to.element if isinstance(to, Input) else to
            for to in port.to
            if not isinstance(to, Queue)
        ]
    return found


def onward(element: Element) -> list[Element]:
    """What runs with it, and what is behind its queues."""
    queues = [to for port in element.outputs.values() for to in port.to if isinstance(to, Queue)]
    return [*successors(element), *(queue.to for queue in queues)]


def reached(element: Element, known: dict[Element, set[Element]]) -> set[Element]:
    """Everything that runs with an element, itself included."""
    if element not in known:
        known[element] = {element}.union(*(reached(each, known) for each in successors(element)))
    return known[element]


def led_to(element: Element) -> set[Element]:
    """Everything that it leads to, itself and what is behind queues included."""
    return {element}.union(*(led_to(each) for each in onward(element)))


def find(elements: list[Element], sources: list[Element], behind: list[Element]) -> list[Join]:
    """All joins of a program, with their forks.

    sources: where a program begins; behind: elements behind queues.
    Raises FlowError for inputs that nothing leads to, and for inputs that meet at no fork.
    """
    joins = [element for element in elements if element.inputs]
    if not joins:
        return []
    fed = {
        to
        for e in elements
        for port in e.outputs.values()
        for to in port.to
        if isinstance(to, Input)
    }
    for element in joins:
        for one in element.inputs.values():
            if one not in fed:
                raise FlowError(
                    f"nothing leads to {one}",
                    element.place,
                    "it runs when all of its inputs were fed: connect it",
                )
    over = _dominators(elements, [*sources, *behind], successors)
    through = _dominators(elements, sources, onward)
    found = []
    for element in joins:
        common = set.intersection(*(over[each] for each in elements if element in successors(each)))
        if not common:
            late = _across(element, elements, through)
            if late is not None:
                found.append(late)
                continue
            names = ", ".join(f"`{name}`" for name in element.inputs)
            raise FlowError(
                f"the inputs of {element} ({names}) meet at no fork",
                element.place,
                "let one element lead to all of them",
            )
        found.append(Join(element, max(common, key=lambda each: len(over[each]))))
    return found


def _across(
    element: Element, elements: list[Element], over: dict[Element, set[Element]]
) -> Join | None:
    """A join of which an input is behind a queue. None if its inputs have no fork at all.

    Raises FlowError if what meets cannot be one entry of one queue.
    """
    feeding = {
        one: [each for each in elements if _feeds(each, one)] for one in element.inputs.values()
    }
    common = set.intersection(*(over[each] for ways in feeding.values() for each in ways))
    if not common:
        return None
    fork = max(common, key=lambda each: len(over[each]))
    here = reached(fork, {})
    late = [one for one, ways in feeding.items() if any(each not in here for each in ways)]
    if len(late) > 1:
        raise FlowError(
            f"inputs `{late[0].name}` and `{late[1].name}` of {element} are both behind queues",
            element.place,
            "nothing says which of their entries belong together: join before the queue, let one entry carry both, or number "
            "values and let a Pair bring them together",
        )
    if any(each in here for each in feeding[late[0]]):
        raise FlowError(
            f"some ways to {late[0]} go through a queue, and some do not",
            element.place,
            "let all or none",
        )
    waits = next(
        (one for one in element.inputs.values() if one is not late[0] and packet in one.types), None
    )
    if waits is not None:
        raise FlowError(
            f"{waits} has a packet, and {late[0]} is fed behind a queue",
            element.place,
            "a packet cannot wait: let it go through the queue, and the values to the other inputs",
        )
    join = Join(element, fork, late[0])
    ways = [
        (port, to)
        for each in led_to(fork)
        for port in each.outputs.values()
        for to in port.to
        if isinstance(to, Queue)
    ]
    on_way = [
        (port, to) for port, to in ways if any(each in led_to(to.to) for each in feeding[late[0]])
    ]
    join.queues = list(dict.fromkeys(to for _, to in on_way))
    first = {to for port, to in on_way if port.element in here}
    if len(first) > 1:
        names = ", ".join(sorted(str(queue) for queue in first))
        raise FlowError(
            f"{late[0]} is behind several queues ({names})", element.place, "let one lead to it"
        )
    join.queues.sort(key=lambda queue: queue not in first)
    return join


def _feeds(element: Element, one: Input) -> bool:
    return any(to is one for port in element.outputs.values() for to in port.to)


def _dominators(
    elements: list[Element], begins: list[Element], onward
) -> dict[Element, set[Element]]:
    """For each element, those that all ways from `begins` pass, itself included; `onward` is what
    an element leads to."""
    before: dict[Element, list[Element]] = {element: [] for element in elements}
    for element in elements:
        for other in onward(element):
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
                f"{first} is to run before {second}, which leads to it",
                place,
                "connect them the other way round",
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
    ways = [
        set()
        if isinstance(to, Queue)
        else reached(to.element if isinstance(to, Input) else to, known)
        for to in port.to
    ]
    before: dict[int, list[tuple[int, Element, Element, Place]]] = {
        at: [] for at in range(len(ways))
    }
    for number, (first, second, place) in enumerate(wanted):
        for one, way in enumerate(ways):
            for other, later in enumerate(ways):
                if (
                    one != other
                    and first in way
                    and second in later
                    and not (second in way and first in later)
                ):
                    before[other].append((one, first, second, place))
                    decided.add(number)
    left, result = list(range(len(ways))), []
    while left:
        free = next((at for at in left if not any(one in left for one, *_ in before[at])), None)
        if free is None:
            said = [
                (first, second, place)
                for at in left
                for one, first, second, place in before[at]
                if one in left
            ]
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
