"""Firing classes, joins and orders: how often outputs are called, what runs when ways meet, and
what is refused."""

from nicforge.flow import (
    Composite,
    Discard,
    Drop,
    Element,
    FromNet,
    In,
    Out,
    Program,
    Queue,
    Reply,
    Table,
    packet,
    run_order,
    u32,
    u64,
)
from test_flow import TRAFFIC, line_of_here, refused

marks = Table("marks", "array", u32, u64, 8)


def here(text):
    return line_of_here(__file__, text)


class Choose(Element):
    inp = In(pkt=packet)
    small = Out(packet)
    large = Out(packet)
    fires = "one"
    body = """
        if (nf_len(pkt) < 100) {
            small(pkt);
            return;
        }
        large(pkt);
    """


class Parts(Element):
    """A fork: two values, then the packet."""

    inp = In(pkt=packet)
    size = Out(u32)
    port = Out(u32)
    out = Out(packet)
    body = "size(nf_len(pkt));\nport(nf_port(pkt));\nout(pkt);"


class Twice(Element):
    inp = In(value=u32)
    out = Out(u32)
    body = "out(2 * value);"


class Odd(Element):
    """Passes odd values on."""

    inp = In(value=u32)
    out = Out(u32)
    body = "if (value & 1)\n    out(value);"


class Each(Element):
    inp = In(value=u32)
    out = Out(u32)
    body = "for (uint32_t i = 0; i < 3; i++)\n    out(value + i);"


class Sum(Element):
    """A join of two values."""

    left = In(a=u32)
    right = In(b=u32)
    out = Out(u32)
    body = "out(a + b);"


class Decide(Element):
    """A join of two values and the packet."""

    left = In(a=u32)
    right = In(b=u32)
    whole = In(pkt=packet)
    body = "nf_send(pkt, (a + b) & 1);"


class Mark(Element):
    inp = In(value=u32)
    tables = (marks,)
    body = "nf_add_value(&marks, AT, value);"


def test_classes_are_the_compilers_findings():
    network, choose, parts, odd, each = FromNet(), Choose(), Parts(), Odd(), Each()
    network >> choose
    choose.small >> parts
    choose.large >> Drop("large")
    parts.size >> Twice() >> odd >> each >> Discard(u32)
    parts.port >> Discard(u32)
    parts.out >> Reply()
    found = Program("classes", network).fires()
    assert found == {
        "choose": "one",
        "parts": "all",
        "twice": "all",
        "odd": "zero-or-one",
        "each": "many",
    }


def program_of(element, kind):
    """A program with one more element between the values and their end."""
    network, parts = FromNet(), Parts()
    network >> parts
    parts.size >> element
    for port in element.outputs.values():
        port >> Discard(u32)
    parts.port >> Discard(u32)
    parts.out >> Reply()
    return Program(kind, network)


def test_broken_promises_are_errors_at_their_line():
    class Loops(Element):
        inp = In(value=u32)
        out = Out(u32)
        fires = "zero-or-one"
        body = """
            for (uint32_t i = 0; i < 2; i++)
                out(value);  // a second time
        """

    words = (
        "element `loops`",
        "calls at most one of its outputs, once, but a way calls `out` more than once",
    )
    refused(program_of(Loops(), "loops").check, *words, line=here("// a second time"))

    class Short(Element):
        inp = In(value=u32)
        low = Out(u32)
        high = Out(u32)
        fires = "all"
        body = """
            low(value & 0xffff);
            if (value < 0x10000)
                return;  // high was not called
            high(value >> 16);
        """

    words = (
        "element `short_`",
        "calls each of its outputs once, but a way ends here that calls `low` and not `high`",
    )
    refused(
        program_of(Short("short_"), "short_").check, *words, line=here("// high was not called")
    )

    class Both(Element):
        inp = In(value=u32)
        low = Out(u32)
        high = Out(u32)
        fires = "one"
        body = """
            low(value);
            if (value > 7)
                high(value);  // after low
        """

    refused(
        program_of(Both(), "both").check, "a way calls `low`, `high`", line=here("// after low")
    )
    refused(
        lambda: type("Some", (Element,), {"fires": "some"})(),
        "element `some` fires `some`",
        "all, one, zero-or-one, many",
    )


def test_joins_run_once_all_inputs_are_fed():
    network, parts, total, decide = FromNet(), Parts(), Sum(), Decide()
    network >> parts
    parts.size >> Twice() >> total.left
    parts.size >> decide.left
    parts.port >> total.right
    total >> decide.right
    parts.out >> decide.whole
    program = Program("joins", network)
    text = program.source().text
    assert (
        "NF_FIRES(together, parts, sum_left, sum_right)" in text
        and "struct decide_join decide_join;" in text
    )
    report = program.run(str(TRAFFIC))
    # size + (2 * size + port) is odd where size or port is, not both; this traffic comes by port 0.
    assert sum(report["sent"]) == 1259 and all(report["sent"])
    for target in ("dpdk", "u280"):
        assert "matches the reference: 1259 of 1259 events" in program.verify(
            target, "--pcap", str(TRAFFIC)
        )


def test_joins_wait_for_one_packet_only(capture):
    """The fork decides whether both are fed; what waited for one packet is not there for the
    next."""

    class Some(Element):
        inp = In(pkt=packet)
        a = Out(u32)
        b = Out(u32)
        out = Out(packet)
        body = """
            if (nf_len(pkt) > 60) {
                b(nf_len(pkt));
                a(1);
            }
            out(pkt);
        """

    network, some, total = FromNet(), Some(), Sum()
    network >> Queue("work") >> some
    some.a >> total.left
    some.b >> total.right
    total >> Mark(AT=0)
    some.out >> Reply()
    program = Program("waits", network)
    path = capture([bytes(size) for size in (60, 61, 70, 60)])
    assert program.run(path)["sent"] == [4, 0]
    for target in ("dpdk", "agilio-cx"):
        assert "4 of 4 events, 1 of 1 table" in program.verify(target, "--pcap", path)


def joined(connect, kind="joined"):
    """A program whose fork and join a function connects."""
    network, parts, total = FromNet(), Parts(), Sum()
    network >> parts
    connect(parts, total)
    for port in (parts.size, parts.port):
        if not port.to:
            port >> Discard(u32)
    total >> Mark(AT=0)
    if not parts.out.to:
        parts.out >> Reply()
    return Program(kind, network)


def across(**more):
    """A packet goes through a queue, and values wait for it in its entry."""
    network, parts, decide, twice = FromNet(), Parts(), Decide(), Twice()
    network >> parts
    parts.size >> twice >> decide.left
    parts.port >> decide.right
    parts.out >> Queue("far", **more) >> Keep() >> decide.whole
    return Program("across", network)


class Keep(Element):
    inp, out = In(pkt=packet), Out(packet)
    body = "out(pkt);"


def test_values_wait_in_the_entry_of_a_queue(capture, needs_root):
    program = across()
    assert program.carried() == {"far": {"decide_join": 8}}
    for target in ("dpdk", "liquidio"):
        assert "1259 of 1259 events" in program.verify(target, "--pcap", str(TRAFFIC))
    assert across(side="host").verify("xdp", "--pcap", str(TRAFFIC))


def test_joins_are_found_behind_several_queues(capture):
    """Of values only, with a queue behind the queue and a byte string's handlers on the way."""
    network, parts, total = FromNet(), Parts(), Sum()
    network >> parts
    parts.size >> total.left
    (
        parts.port
        >> Queue("one", instances=2, instance="value")
        >> Twice()
        >> Queue("two")
        >> Twice()
        >> total.right
    )
    total >> Mark(AT=0)
    parts.out >> Reply()
    program = Program("several", network)
    assert program.verify("dpdk", "--pcap", str(TRAFFIC))
    assert program.run(str(TRAFFIC))["tables"]


def test_joins_that_cannot_be_are_refused():
    def unconnected(parts, total):
        parts.size >> total.left

    refused(lambda: joined(unconnected), "nothing leads to input `right` of element `sum`")

    def several(parts, total):
        parts.size >> total

    refused(lambda: joined(several), "element `sum` has several inputs (left, right)", "sum.left")

    def types(parts, total):
        parts.size >> total.left
        parts.out >> total.right  # a packet for a number

    refused(
        lambda: joined(types),
        "input `right` of element `sum` takes (uint32_t)",
        line=here("# a packet for a number"),
    )

    def queue(parts, total):
        parts.size >> total.left
        parts.port >> Queue("late") >> total.right  # through a queue

    refused(
        lambda: joined(queue),
        "behind a queue is an element: put one between",
        line=here("# through a queue"),
    )

    def apart(parts, total):
        parts.size >> Queue("early") >> Twice() >> total.left
        parts.port >> Queue("late") >> Twice() >> total.right

    words = (
        "inputs `left` and `right` of element `sum` are both behind queues",
        "let one entry carry both",
    )
    refused(lambda: joined(apart), *words)

    def some(parts, total):
        parts.size >> total.left
        parts.port >> total.right
        parts.port >> Queue("late") >> Twice() >> total.right

    refused(
        lambda: joined(some),
        "some ways to input `right` of element `sum` go through a queue, and some do not",
    )

    def after(parts, total):
        parts.size >> Queue("late") >> Twice() >> total.left  # enters before `right` is fed
        parts.port >> total.right

    refused(joined(after).check, "`late_enter`", "`sum_right`")

    def waits():
        network, parts, decide = FromNet(), Parts(), Decide()
        network >> parts
        parts.size >> Queue("late") >> Twice() >> decide.left
        parts.port >> decide.right
        parts.out >> decide.whole
        Program("waits", network)

    refused(
        waits,
        "input `whole` of element `decide` has a packet, and input `left` of element `decide` is fed behind a queue",
    )

    def late(parts, total):
        parts.size >> total.left
        parts.port >> Queue("late") >> Each() >> total.right

    refused(joined(late).check, "calls `sum_right` more than once")

    def twice(parts, total):
        parts.size >> total.left
        parts.size >> total.right
        parts.port >> total.right

    refused(
        joined(twice).check,
        "leads to all of the join's inputs once, or to none",
        "`sum_right` more than once",
    )

    def uneven(parts, total):
        parts.size >> Odd() >> total.left
        parts.port >> total.right

    refused(joined(uneven).check, "a way ends here that calls `sum_right` and not `sum_left`")

    def many(parts, total):
        parts.size >> Each() >> total.left
        parts.port >> total.right

    refused(joined(many).check, "element `each`", "a way calls `sum_left` more than once")

    class Same(Element):
        left = In(a=u32)
        right = In(a=u32)

    refused(Same, "two inputs of element `same` have a value `a`")


def test_the_packet_comes_last():
    class Early(Element):
        inp = In(pkt=packet)
        out = Out(packet)
        size = Out(u32)
        body = """
            uint32_t length = nf_len(pkt);
            out(pkt);
            size(length);
        """

    class With(Element):
        value = In(a=u32)
        whole = In(pkt=packet)
        body = "nf_send(pkt, a & 1);"

    network, early, join = FromNet(), Early(), With()
    network >> early
    early.out >> join.whole  # before the value
    early.size >> join.value
    words = (
        "element `early`",
        "the packet's last, or to none, but a way calls `with_whole` before `with_value`",
    )
    refused(Program("early", network).check, *words, line=here("# before the value"))


def order_of(program):
    """The numbers of the marks that an output leads to, in the order of the C."""
    text = program.source().text
    body = text[text.index("static void parts_size(uint32_t value_0)\n{") :]
    return [line.strip() for line in body[: body.index("}")].splitlines()[2:]]


def fan():
    network, parts = FromNet(), Parts()
    marks = [Mark(f"mark_{at}", AT=at) for at in range(3)]
    network >> parts
    for mark in marks:
        parts.size >> mark
    parts.port >> Discard(u32)
    parts.out >> Reply()
    return network, parts, marks


def test_orders_are_kept():
    network, _, (a, b, c) = fan()
    run_order(c, [a, b])
    assert order_of(Program("order", network)) == [
        "mark_2(value_0);",
        "mark_0(value_0);",
        "mark_1(value_0);",
    ]
    network, parts, (a, b, c) = fan()
    late = Mark("late", AT=4)
    first = Twice()
    first >> late
    parts.size >> first
    run_order(late, b)
    wanted = ["mark_0(value_0);", "mark_2(value_0);", "twice(value_0);", "mark_1(value_0);"]
    assert order_of(Program("order", network)) == wanted


def test_orders_that_cannot_be_are_refused():
    def contradiction():
        network, _, (a, b, c) = fan()
        run_order(a, b)
        run_order(b, c)
        run_order(c, a)  # round and round
        Program("round", network)

    refused(contradiction, "is to run before", "and the other way round")

    def undecided():
        network, parts, (a, _, _) = fan()
        other = Discard(u32, name="other")
        parts.port >> other
        run_order(a, other)  # the body decides
        Program("undecided", network)

    refused(
        undecided,
        "no output leads to both element `mark_0` and element `other`",
        line=here("# the body decides"),
    )

    def backwards():
        network, parts, (a, _, _) = fan()
        run_order(a, parts)  # parts leads to it
        Program("backwards", network)

    refused(
        backwards,
        "element `mark_0` is to run before element `parts`, which leads to it",
        line=here("# parts leads to it"),
    )

    def unknown():
        network, _, (a, _, _) = fan()
        run_order(Discard(u32, name="nowhere"), a)
        Program("unknown", network)

    refused(unknown, "element `nowhere` has an order and is no part of the program")
    refused(lambda: run_order(Mark(AT=1)), "an order is of at least two elements")


def test_composites_have_joins_inside_and_as_their_input(capture):
    class Added(Composite):
        def configure(self):
            parts, total, end = Parts(), Sum(), Mark(AT=3)
            parts.size >> total.left
            parts.port >> total.right
            total >> end
            self.inp, self.out = parts, parts.out

    network, added = FromNet(), Added()
    network >> added >> Reply()
    program = Program("inside", network)
    path = capture([bytes(60)] * 2)
    assert program.run(path)["sent"] == [2, 0]
    assert program.fires()["added_sum"] == "all" and "added_parts -> added_sum" in program.draw()
