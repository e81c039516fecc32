"""Types of values: integers, structs of them, and packets. They are those of the C subset
(docs/language.md)."""

from __future__ import annotations

import dataclasses
import re

from .errors import FlowError, Place, caller


@dataclasses.dataclass(frozen=True)
class Type:
    """A type by its C name; `count` elements of type `element` if it is an array."""

    c: str
    count: int = 0
    element: Type | None = dataclasses.field(default=None, compare=False, repr=False)

    def __getitem__(self, count: int) -> Type:
        """An array of so many."""
        if not isinstance(count, int) or count < 1 or self.count or self is packet:
            raise FlowError(
                f"`{self.c}[{count}]` is no array: a length of at least 1, of integers or structs",
                caller(),
            )
        return Type(self.c, count, self)

    def declare(self, name: str) -> str:
        """The C declaration of a variable of this type."""
        return f"{self.c} {name}[{self.count}]" if self.count else f"{self.c} {name}"

    def differ(self, to: str, a: str, b: str, depth: int = 0) -> list[str]:
        """C statements that make the integer `to` other than 0 if values `a` and `b` of this type
        differ."""
        if not self.count:
            return [f"{to} |= {a} ^ {b};"]
        at = f"i{depth}"
        inner = self.element.differ(to, f"{a}[{at}]", f"{b}[{at}]", depth + 1)
        return [f"for (uint32_t {at} = 0; {at} < {self.count}; {at}++) {{", *inner, "}"]


bool_ = Type("bool")
u8, u16, u32, u64 = (Type(f"uint{bits}_t") for bits in (8, 16, 32, 64))
i8, i16, i32, i64 = (Type(f"int{bits}_t") for bits in (8, 16, 32, 64))
#: Unsigned integers whose bytes are in network order.
be16, be32, be64 = (Type(f"nf_be{bits}") for bits in (16, 32, 64))
mac = Type("nf_mac")
#: A packet: every element it comes to gives it to exactly one output.
packet = Type("nf_pkt")

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

#: Words that no name in C can be (C11, 6.4.1).
KEYWORDS = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while""".split()
)


def check_name(name: str, place: Place) -> str:
    """A name that C can have.

    Raises FlowError if it cannot.
    """
    if not NAME.match(name):
        raise FlowError(f"`{name}` is no name in C", place, "take letters, digits and underscores")
    if name in KEYWORDS:
        raise FlowError(f"`{name}` is a word of C", place, "take another name")
    return name


class Struct(Type):
    """A C struct: `Item = Struct("item", source=be32, length=u16)`. Members are laid out as C does,
    in this order."""

    name: str
    members: dict[str, Type]
    place: Place

    def __init__(self, name: str, /, **members: Type):
        place = caller()
        check_name(name, place)
        if not members:
            raise FlowError(f"struct `{name}` has no members", place)
        for member, ty in members.items():
            if not isinstance(ty, Type) or ty is packet:
                raise FlowError(
                    f"member `{member}` of struct `{name}` has no type that values can have", place
                )
        object.__setattr__(self, "c", f"struct {name}")
        object.__setattr__(self, "count", 0)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "members", members)
        object.__setattr__(self, "place", place)

    def definition(self) -> str:
        """Its C definition."""
        lines = [f"    {ty.declare(name)};" for name, ty in self.members.items()]
        return "\n".join([f"struct {self.name} {{", *lines, "};"])

    def differ(self, to: str, a: str, b: str, depth: int = 0) -> list[str]:
        """See Type.differ."""
        members = self.members.items()
        return [
            line
            for name, ty in members
            for line in ty.differ(to, f"{a}.{name}", f"{b}.{name}", depth)
        ]


@dataclasses.dataclass(frozen=True)
class Table:
    """State that outlives a packet: `Table("sources", "hash", be32, Seen, 4096)`. Elements that
    list it use it.

    Kinds are hash, lru, array, lpm and ternary, as in C. `bytes`: each entry has a byte string of
    so many beside its value. `by_number`: cores have ranges of an array's entries, and events go
    where theirs is.
    """

    name: str
    kind: str
    key: Type
    value: Type
    capacity: int
    place: Place = dataclasses.field(default_factory=caller, compare=False)
    bytes: int = 0
    by_number: bool = False
    shared: bool = False

    def __post_init__(self):
        check_name(self.name, self.place)
        if self.kind not in ("hash", "lru", "array", "lpm", "ternary"):
            kinds = "hash, lru, array, lpm, ternary"
            raise FlowError(
                f"table `{self.name}` is of no kind `{self.kind}`",
                self.place,
                f"the kinds are {kinds}",
            )
        if not isinstance(self.capacity, int) or self.capacity < 1:
            raise FlowError(f"table `{self.name}` needs room for at least 1 entry", self.place)
        if not isinstance(self.bytes, int) or self.bytes < 0:
            raise FlowError(
                f"table `{self.name}` has byte strings of {self.bytes} bytes", self.place
            )
        if self.by_number and self.kind != "array":
            raise FlowError(
                f"the entries of table `{self.name}` have no numbers", self.place, "take an array"
            )

    def definition(self) -> str:
        """Its C definition."""
        before = ("NF_BY_NUMBER\n" if self.by_number else "") + (
            "NF_SHARED\n" if self.shared else ""
        )
        words = [self.kind, self.name, self.key.c, self.value.c, str(self.capacity)]
        if self.bytes:
            return f"{before}NF_BUF_TABLE({', '.join([*words, str(self.bytes)])});"
        return f"{before}NF_TABLE({', '.join(words)});"
