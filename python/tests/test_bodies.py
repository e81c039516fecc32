"""Bodies for targets: which one runs where, and what is compared with what."""

import pytest
from nicforge.flow import Element, FlowError, FromNet, In, Out, Program, Queue, Reply, packet, u32
from test_flow import line_of_here, refused
from test_opaque import frames


class Size(Element):
    inp, out = In(pkt=packet), Out(packet, u32)
    body = "out(pkt, nf_len(pkt));"


class Answer(Element):
    inp, out = In(pkt=packet, number=u32), Out(packet)
    body = "uint32_t there = number; nf_emit(pkt, &there); out(pkt);"


class Bits(Element):
    """Counts the bits of a number: in the subset, by instructions, and by C of a process."""

    inp, out = In(pkt=packet, number=u32), Out(packet, u32)
    body = """
        uint32_t bits = 0;
        for (uint32_t at = 0; at < 32; at++)
            bits += (number >> at) & 1;
        out(pkt, bits);
    """
    bodies = {
        "liquidio": """
            uint32_t bits = number - ((number >> 1) & 0x55555555);
            bits = (bits & 0x33333333) + ((bits >> 2) & 0x33333333);
            out(pkt, (((bits + (bits >> 4)) & 0x0f0f0f0f) * 0x01010101) >> 24);
        """,
        "dpdk": "out(pkt, (uint32_t)(1.0 * __builtin_popcount(number)));",
        "host": """
            uint32_t bits = 0;
            for (uint32_t rest = number; rest != 0; rest ^= rest & -rest)
                bits++;
            out(pkt, bits);
        """,
    }


def program(bits=None, side="host"):
    network = FromNet()
    network >> Size() >> Queue("work", side=side) >> (bits or Bits()) >> Answer() >> Reply()
    return Program("bits", network)


@pytest.mark.parametrize("target", ["dpdk", "xdp", "liquidio"])
def test_each_target_has_its_body(capture, needs_root, target):
    assert "3 of 3 events" in program().verify(target, "--pcap", capture(frames("a", "b", "c")))


def test_which_body_is_where(capsys):
    made = program()
    made.tool().say()
    said = capsys.readouterr().err
    assert (
        "element `bits` is opaque C for dpdk: " in said
        and "element `bits` is opaque C for host: " in said
    ), said
    text = made.source().text
    order = [
        "#if defined(NF_TARGET_LIQUIDIO)",
        "#elif defined(NF_TARGET_DPDK)",
        "#elif defined(NF_TARGET_C)",
    ]
    assert [line for line in text.split("\n") if line.startswith("#") and "TARGET" in line] == order
    assert (
        text.index("0x33333333")
        < text.index(order[1])
        < text.index("opaque_bits_dpdk( /*")
        < text.index(order[2])
    )
    assert 'bits [label="bits\\nopaque C for ' in made.draw()


def test_a_wrong_body_is_found_by_comparing(capture):
    class Wrong(Bits):
        bodies = {"dpdk": "out(pkt, number > 70 ? 0 : (uint32_t)__builtin_popcount(number));"}

    with pytest.raises(FlowError) as caught:
        program(Wrong()).verify("dpdk", "--pcap", capture(frames("a", "b", "c")))
    assert "event 3: " in str(caught.value) and "event 1: " not in str(caught.value), caught.value

    class Keeps(Bits):
        bodies = {"dpdk": "out(pkt, 3 - 1);"}

    # Another target does not have it, and where no C can be called, it has no opaque one of the
    # host side either.
    assert "3 of 3 events" in program(Keeps(), None).verify(
        "liquidio", "--pcap", capture(frames("a", "b", "c"))
    )
    assert "functions of C" not in program().check("all")


def test_mistakes_have_the_line_of_that_body():
    class Loses(Bits):
        bodies = {
            "xdp": """
                if (number > 3)
                    out(pkt, number);  // loses the rest
            """,
        }

    refused(
        program(Loses()).check,
        "element `loses` for xdp: ",
        "`pkt`",
        line=line_of_here(__file__, "// loses the rest"),
    )

    class Unknown(Bits):
        bodies = {"xpd": "out(pkt, 0);"}

    words = ("has a body for `xpd`, and there is no such target", "the targets are agilio-cx, ")
    refused(program(Unknown()).check, *words)

    class Alone(Bits):
        body = ""

    refused(lambda: program(Alone()), "has a body for liquidio and none that says what it does")
    refused(
        lambda: program(side=None),
        "element `bits` has a body for the host side, and is not only there",
    )

    class Unsaid(Bits):
        opaque = False
        bodies = {"host": "double share = number; out(pkt, share);  // has a share"}

    refused(program(Unsaid()).check, "floating", line=line_of_here(__file__, '// has a share"}'))


def test_static_variables_are_state_of_an_element(capture):
    class Numbers(Element):
        inp, out = In(pkt=packet, number=u32), Out(packet, u32)
        body = "static uint32_t seen = 7; out(pkt, number + seen++);"

    network = FromNet()
    network >> Size() >> Numbers() >> Numbers() >> Answer() >> Reply()
    counted = Program("counted", network)
    assert "2 tables" in counted.check()
    assert "3 of 3 events" in counted.verify("dpdk", "--pcap", capture(frames(*"abc")))


def test_elements_on_both_sides_have_no_body_of_the_host():
    class Split(Element):
        inp = In(pkt=packet, number=u32)
        here, there = Out(packet, u32), Out(packet, u32)
        body = "if (number > 70) here(pkt, number); else there(pkt, number);"

    network, split, both = FromNet(), Split(), Bits()
    network >> Size() >> split
    split.here >> both
    split.there >> Queue("work", side="host") >> both
    both >> Answer() >> Reply()
    refused(lambda: Program("both", network), "has a body for the host side, and is not only there")
