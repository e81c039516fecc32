"""Rules of flow programs that no other file has: docs/flow.md lists all of them, with their
tests."""

import pathlib
import re

import pytest
from nicforge.flow import (
    Cache,
    CallableSegment,
    Element,
    Field,
    FromHost,
    FromNet,
    In,
    Out,
    Program,
    Queue,
    Reply,
    Segment,
    State,
    Struct,
    packet,
    u8,
    u32,
    u64,
)
from test_flow import line_of_here, refused

HERE = pathlib.Path(__file__).resolve().parent


def here(text):
    return line_of_here(__file__, text)


class Wide(State):
    a = Field(u64)
    b = Field(u64)
    c = Field(u32)


class Make(Element):
    inp, out, state = In(pkt=packet), Out(packet), Wide
    body = "uint8_t x = 0;\nnf_load(pkt, 0, &x);\nstate->a = x + 1;\nstate->b = x * 1000;\nstate->c = x;\nout(pkt);"


class Use(Element):
    inp, state = In(pkt=packet), Wide
    body = "nf_send(pkt, (state->a ^ state->b) & 1);"


def entries(entry_bytes):
    network, queue = FromNet(), Queue("work", entry_bytes=entry_bytes)  # so much room
    network >> Make() >> queue >> Use()
    return Program("entries", network)


def test_entries_fit():
    """`c` is not used behind the queue; what is counted are the values that cross."""
    carried = entries(None).carried()["work"]
    assert len(carried) == 2, carried
    most = sum(carried.values())
    assert entries(most).check()
    words = (
        f"an entry of queue `work` has {most} bytes of values",
        f"room for {most - 1}",
        "use less of them behind the queue",
    )
    refused(entries(most - 1).check, *words, line=here("# so much room"))
    refused(lambda: Queue("q", entry_bytes=-1), "queue `q` has entries of -1 bytes")


def test_cores_are_there():
    segment = Segment("crowded", device="nic", cores=[3, 55])
    network = FromNet(segment=segment)
    network >> Reply()
    program = Program("cores", network)
    assert program.check()
    words = ("segment `crowded` has core 55, and liquidio has 12 there", "take cores 0 to 11")
    refused(lambda: program.check("liquidio"), *words, line=here('device="nic", cores=[3, 55])'))
    refused(lambda: program.verify("bluefield2", "--pcap", "x"), "bluefield2 has 8 there")


def test_undefined_fields_and_ports_have_their_line():
    class Wrong(Element):
        inp, state = In(pkt=packet), Wide
        body = """
            state->nothing = 3;  // no such field
            nf_drop(pkt, "x");
        """

    network = FromNet()
    network >> Wrong()
    refused(
        Program("wrong", network).check, "no member named 'nothing'", line=here("// no such field")
    )
    refused(lambda: Make().nowhere, "element `make` has no port `nowhere` (there are: `out`)")
    with pytest.raises(AttributeError):
        _ = Make().nowhere


def test_ports_take_no_arrays():
    words = "takes `uint8_t[4]`, and C hands arrays over by address; make it a Struct's member"
    refused(lambda: Out(packet, u8[4]), f"an output {words}")
    refused(lambda: In(pkt=packet, bytes=u8[4]), f"an input {words}")


def test_outputs_take_no_name_that_elements_have():
    for name in ("name", "place", "body", "entry", "outputs"):
        kind = type("Taken", (Element,), {"inp": In(pkt=packet), name: Out(packet)})
        refused(
            kind, f"an output of element `taken` is called `{name}`", "an element has that already"
        )


def test_sources_begin_programs():
    def into():
        network, other = FromNet(), FromNet("other")
        network >> other  # into a source
        other >> Reply()
        Program("into", network)

    refused(
        into, "element `other` has no input", "it begins a program", line=here("# into a source")
    )

    def twice():
        one, two = FromNet("one"), FromNet("two")
        one >> Reply()
        two >> Reply()
        Program("twice", one, two)

    refused(twice, "program `twice` has two FromNet", "connect one to several elements")
    say = Struct("say", x=u8)
    refused(
        lambda: Program("both", FromHost(say, "a"), FromHost(say, "b")),
        "program `both` has two FromHost",
    )


def test_a_program_of_ones_own_is_no_part_of_a_caches_region():
    """It could answer before the cache knew, or never."""
    Said = Struct("said", key=u64)

    class Key(Element):
        inp, out = In(pkt=packet), Out(packet, u64)
        body = "uint64_t key;\nnf_load(pkt, 0, &key);\nout(pkt, key);"

    class Tell(Element):
        inp, out, rest = In(pkt=packet, key=u64), Out(Said), Out(packet)
        body = "struct said said = {key};\nout(said);\nrest(pkt);"

    class Hit(Element):
        inp, out = In(pkt=packet, key=u64, value=u64), Out(packet)
        body = "out(pkt);"

    near = Cache("near", u64, u64, buckets=4)
    get, tell, legacy = (
        near.get("key", key=u64),
        Tell(),
        CallableSegment(receives=Said, name="legacy"),
    )
    network = FromNet()
    network >> Key() >> get
    get.hit >> Hit() >> Reply()
    get.miss >> Queue("up", side="host") >> tell
    tell.rest >> near.nothing()
    tell.out >> legacy  # out of the region
    near.settled >> Reply()
    words = ("leads out of a region of cache `near`", "legacy")
    refused(lambda: Program("region", network), *words, line=here("# out of the region"))


def test_every_rule_in_the_guide_has_its_test():
    """The table of docs/flow.md names tests that are there."""
    guide = (HERE.parents[1] / "docs/flow.md").read_text()
    named = re.findall(r"`(test_\w+)::(test_\w+)`", guide)
    assert len(named) >= 25
    for file, name in named:
        text = (HERE / f"{file}.py").read_text()
        assert f"def {name}(" in text, f"{file}::{name}"
