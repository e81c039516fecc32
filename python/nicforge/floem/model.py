"""What Floem's modules are written with: types, elements, ports, connections, segments, states.

Making and connecting things fills the `World` of the module that is being run. A composite keeps
both of its graphs; which one is meant, `mode` says when a program is lowered.
"""

from __future__ import annotations

import dataclasses


class Unsupported(Exception):
    """Something of Floem that is not lowered here, in the words of the survey."""


@dataclasses.dataclass
class Edge:
    source: Port
    to: Port
    modes: tuple
    segment: Segment | None


class World:
    """Everything one module made."""

    def __init__(self):
        self.elements: list[Element] = []
        self.edges: list[Edge] = []
        self.apis: list[Api] = []
        self.segments: list[Segment] = []
        #: Name, bytes, and C that is run at first.
        self.regions: list[tuple[str, int, str | None]] = []
        #: Queues of entries by address: name, entries, and instances.
        self.queues: list[tuple[str, int, int]] = []
        #: Caches, as they were asked for.
        self.caches: list = []
        #: Classes of states, and states of elements, as they were made.
        self.kinds: list[type] = []
        self.instances: list[State] = []
        #: Elements and what runs after them.
        self.orders: list[tuple[Element, Element]] = []
        self.composites: list[Composite] = []
        #: Graphs of composites that are being made, outermost first.
        self.modes: list[tuple[Composite, str]] = []
        self.flow: Flow | None = None
        self.segment: Segment | None = None

    def kind(self, name) -> type | None:
        """The class of states of a name."""
        return next((kind for kind in self.kinds if kind.__name__ == type_name(name)), None)


world = World()


# -- types -----------------------------------------------------------------------------------------

Bool, Int, SizeT, Void, Uintptr, Double, Float = (
    "bool",
    "int",
    "size_t",
    "void",
    "uintptr_t",
    "double",
    "float",
)


def Uint(bits):
    return f"uint{bits}_t"


def Sint(bits):
    return f"int{bits}_t"


def type_name(ty) -> str:
    """A type's C name; classes of states stand for their structs."""
    return ty if isinstance(ty, str) else ty.__name__


def Pointer(ty):
    return type_name(ty) + "*"


class Array(str):
    """An array's type; `size` is a number, C, a list of them, or nothing."""

    def __new__(cls, ty, size=None):
        made = super().__new__(cls, f"{type_name(ty)}[{'' if size is None else size}]")
        made.element, made.size = ty, size
        return made


# -- ports and connections -------------------------------------------------------------------------


class Port:
    """A port of an element, or at the border of what is made of elements."""

    def __init__(self, *types):
        self.types = [type_name(ty) for ty in types]
        self.owner, self.name = None, ""

    def __rshift__(self, other):
        return connect(self, other)

    def __str__(self):
        return f"{self.owner}.{self.name}"


class Input(Port):
    pass


class Output(Port):
    pass


def ports(owner, kind) -> list[Port]:
    """Ports of a kind, in the order in which `configure` made them."""
    found = []
    for value in vars(owner).values():
        found += [
            port
            for port in (value if isinstance(value, list) else [value])
            if isinstance(port, kind)
        ]
    return list(dict.fromkeys(found))


def name_ports(owner) -> None:
    for attribute, value in vars(owner).items():
        for at, port in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(port, Port) and port.owner is None:
                port.owner, port.name = (
                    owner,
                    f"{attribute}{at}" if isinstance(value, list) else attribute,
                )


def only(owner, kind) -> Port:
    """The port that an owner's bare name means."""
    found = ports(owner, kind)
    named = [port for port in found if port.name in ("out", "inp")]
    if len(found) != 1 and len(named) != 1:
        raise Exception(f"{owner} has {len(found)} ports of kind {kind.__name__}; name one")
    return found[0] if len(found) == 1 else named[0]


def connect(source, to):
    """`source >> to`; gives back `to`."""
    begin = source if isinstance(source, Port) else only(source, Output)
    end = to if isinstance(to, Port) else only(to, Input)
    world.edges.append(Edge(begin, end, tuple(world.modes), world.segment))
    return to


# -- states ----------------------------------------------------------------------------------------


class Field:
    def __init__(self, t, value=None, size=None, shared=None):
        self.type, self.value, self.size, self.shared = t, value, size, shared
        self.name = ""

    def __set_name__(self, owner, name):
        self.name = name


def fields_of(state) -> dict[str, Field]:
    """Fields of a state class, those of its bases first."""
    return {
        n: f
        for cls in reversed(state.__mro__)
        for n, f in vars(cls).items()
        if isinstance(f, Field)
    }


class State:
    """A struct: of each packet (PerPacket), or of elements, with first values (`A(init=[0])`)."""

    def __init__(self, name=None, init=(), declare=None, instance=None, packed=True):
        self.declare, self.packed = True if declare is None else declare, packed
        self.name, self.at_first = name, {}
        if instance is not False:
            world.instances.append(self)
        self.init(*init)

    def __init_subclass__(cls):
        world.kinds.append(cls)

    def init(self, *values):
        pass

    def __setattr__(self, name, value):
        if isinstance(getattr(type(self), name, None), Field):
            vars(self)["at_first"][name] = value
        else:
            object.__setattr__(self, name, value)


class PerPacket:
    """A state that packets of a flow have."""

    def __init__(self, state):
        self.state = state

    def __getattr__(self, name):
        fields = fields_of(vars(self)["state"])
        if name not in fields:
            raise AttributeError(f"the state has no field `{name}`")
        return fields[name]


class Persistent:
    def __init__(self, state):
        self.state = state


def define_state(kind):
    """States are known where they are used."""


def MemoryRegion(name, size, init=None):
    world.regions.append((name, size, init))


# -- elements --------------------------------------------------------------------------------------


class Element:
    def __init__(self, name=None, states=(), configure=(), create=True, force=False):
        self.name = name or type(self).__name__
        self.special, self.c, self.cavium = None, None, None
        self.of_modes, self.of_flow = tuple(world.modes), world.flow
        self.of_segment = world.segment
        self.configure(*configure)
        name_ports(self)
        self.states(*states)
        self.bound = {n: v for n, v in vars(self).items() if isinstance(v, State)}
        self.impl()
        if hasattr(self, "impl_cavium"):
            kept, self.c = self.c, None
            self.impl_cavium()
            self.cavium, self.c = self.c, kept if kept is not None else self.c
        world.elements.append(self)

    def configure(self, *values):
        pass

    def states(self, *states):
        pass

    def impl(self):
        pass

    def run_c(self, code):
        self.c = code

    def defs(self, *fields):
        pass

    def uses(self, *fields):
        pass

    def __rshift__(self, other):
        return connect(self, other)

    def __str__(self):
        return f"element `{self.name}`"


class ElementOneInOut(Element):
    def configure(self, *values):
        self.inp, self.out = Input(), Output()


class Collection:
    """The elements of both graphs of a composite."""

    def __init__(self, composite):
        self.composite = composite

    def _of(self, mode):
        inside = [e for e in world.elements if any(of is self.composite for of, _ in e.of_modes)]
        return [e for e in inside if active(e.of_modes, mode)]

    @property
    def spec(self):
        return self._of("spec")

    @property
    def impl(self):
        return self._of("impl")


class Composite:
    def __init__(self, name=None, states=(), configure=()):
        self.name = name or type(self).__name__
        world.composites.append(self)
        self.configure(*configure)
        name_ports(self)
        self.states(*states)
        self.both = type(self).spec is not Composite.spec
        self.collection = Collection(self)
        for mode in ["spec", "impl"] if self.both else ["impl"]:
            world.modes.append((self, mode))
            getattr(self, mode)()
            world.modes.pop()

    def configure(self, *values):
        pass

    def states(self, *states):
        pass

    def impl(self):
        pass

    def spec(self):
        pass

    def __rshift__(self, other):
        return connect(self, other)

    def __str__(self):
        return f"composite `{self.name}`"


def active(modes: tuple, mode: str) -> bool:
    """Whether something is part of the program in a mode."""
    return all(not of.both or wanted == mode for of, wanted in modes)


# -- what runs them --------------------------------------------------------------------------------


@dataclasses.dataclass
class Api:
    """A function of C that runs elements. ends: ports of its arguments; gives: the port of what it
    returns."""

    name: str
    arguments: list[str] | None
    returns: str | None
    elements: list[Element] | None = None
    segment: Segment | None = None
    default: object = None
    modes: tuple = ()

    def run(self, *elements):
        self.elements = list(elements)

    def run_order(self, *elements):
        self.run(*elements)
        run_order(*elements)


def APIThread(name, arguments, returns, default=None):
    made = Api(
        name, [type_name(ty) for ty in arguments], returns and type_name(returns), default=default
    )
    made.modes = tuple(world.modes)
    world.apis.append(made)
    return made


class InternalThread:
    def __init__(self, name):
        self.name, self.cores, self.elements = name, [0], []
        self.modes = tuple(world.modes)
        world.segments.append(self)

    run, run_order = Api.run, Api.run_order


def run_order(*order):
    """Each of the elements runs after those before it; a list is any of them."""
    rows = [each if isinstance(each, list) else [each] for each in order]
    for before, row in zip(rows, rows[1:], strict=False):
        world.orders += [(one, other) for one in before for other in row]


class Segment:
    """Elements that run without being called."""

    callable = False

    def __init__(self, name, *values, process=None, device=None, cores=(0,), **words):
        self.name, self.process, self.device, self.cores = name, process, device, list(cores)
        self.default = words.get("default_return")
        self.core_id = Output("int")
        self.configure(*words.get("configure", ()))
        name_ports(self)
        self.modes = tuple(world.modes)
        world.segments.append(self)
        before, world.segment = world.segment, self
        self.impl()
        world.segment = before
        if self.callable:
            world.apis.append(
                Api(name, None, None, segment=self, default=self.default, modes=tuple(world.modes))
            )

    def configure(self, *values):
        pass

    def impl(self):
        pass

    def args_order(self):
        return [port for port in ports(self, Input)]

    def __str__(self):
        return f"segment `{self.name}`"


class CallableSegment(Segment):
    callable = True


class Flow:
    """Elements that share a state of each packet."""

    state: PerPacket | None = None

    def __init__(self):
        before, world.flow = world.flow, self
        self.impl()
        world.flow = before

    def impl(self):
        pass


Pipeline = Flow


class Inject(Element):
    """Values that a function of C gives for 0, 1, …; whoever asks for more than `size` gets more,
    instead of waiting."""

    type, size, function = "int", 0, ""

    def configure(self):
        self.out = Output(self.type)

    def impl(self):
        self.run_c(f"static int floem_given; output {{ out({self.function}(floem_given++)); }}")


def create_inject(name, ty, size, function, interval=0):
    return type(name, (Inject,), {"type": type_name(ty), "size": size, "function": function})


def create_probe(*arguments):
    raise Unsupported("create_probe: two graphs that are compared")
