"""Values by different queues: python/nicforge/flow/pairs.py."""

import pytest
from nicforge.flow import (
    Drop,
    Element,
    FromNet,
    In,
    Out,
    Pair,
    Program,
    Queue,
    Struct,
    Table,
    packet,
    u8,
    u32,
)
from test_flow import refused

Name = Struct("name", bytes=u8[8])
counted = Table("counted", "array", u32, u32, 1)
sums = Table("sums", "hash", u32, u32, 256)


class Split(Element):
    """Numbers packets; byte 0 says which values of one get through: 1 the number, 2 the name, 3
    both."""

    inp = In(pkt=packet)
    value = Out(u32, u32, u8)
    called = Out(u32, Name, u8)
    out = Out(packet)
    tables = (counted,)
    body = """
        uint32_t number;
        uint8_t halves = 3;
        struct name name;
        nf_lookup(&counted, 0, &number);
        nf_update(&counted, 0, number + 1);
        nf_load(pkt, 0, &halves);
        nf_load(pkt, 8, &name);
        value(number, 1000 + number, halves);
        called(number, name, halves);
        out(pkt);
    """


class Numbers(Element):
    inp, out = In(number=u32, value=u32, halves=u8), Out(u32, u32)
    body = "if ((halves & 1) != 0)\n    out(number, value);"


class Names(Element):
    inp, out = In(number=u32, name=Name, halves=u8), Out(u32, Name, u8)
    body = "if ((halves & 2) != 0)\n    out(number, name, halves);"


class Label(Element):
    inp, out = In(number=u32, name=Name, halves=u8), Out(u32, Name)
    body = "name.bytes[0] = name.bytes[0] + halves;\nout(number, name);"


class Sum(Element):
    inp, tables = In(value=u32, label=Name), (sums,)
    body = "nf_update(&sums, value, nf_hash(1, label));"


def program():
    network, split, both = FromNet(), Split(), Pair("both", value=u32, label=Name, places=8)
    network >> split
    split.value >> Queue("values") >> Numbers() >> both.value
    split.called >> Queue("names") >> Names() >> Queue("again") >> Label() >> both.label
    split.out >> Drop("done")
    both >> Sum()
    return Program("pairs", network)


def frames(halves):
    return [bytes([half]) + bytes(7) + bytes([at] * 56) for at, half in enumerate(halves)]


def entries(report):
    return {table["table"]: table["entries"] for table in report["tables"]}


def test_values_find_each_other_by_different_queues(capture):
    made, path = program(), capture(frames([3] * 40))
    all_of = {"counted": 1, "sums": 40, "both": 0, "both_lost": 0}
    assert entries(made.run(path)) == all_of
    assert entries(made.run(capture(frames([3] * 8)), "--interleave", "7"))["sums"] == 8, (
        "in any order"
    )
    path = capture(frames([3] * 40))
    for target in ("dpdk", "liquidio"):
        assert "40 of 40 events, 4 of 4 tables" in made.verify(target, "--pcap", path)


def test_halves_whose_other_one_was_dropped_lose_their_place(capture):
    """Of 60 packets a third each have one half only, and a place is needed again eight packets
    later."""
    halves = [3, 1, 2] * 20
    path, places = capture(frames(halves)), {}
    for number, half in enumerate(halves):
        places.pop(number % 8, None) if half == 3 else places.update({number % 8: number})
    report = program().run(path)
    assert entries(report) == {"counted": 1, "sums": 20, "both": len(places), "both_lost": 1}
    assert "60 of 60 events, 4 of 4 tables" in program().verify("dpdk", "--pcap", path)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pair("one", value=u32), "pair `one` is no pair; write Pair"),
        (
            lambda: Pair("two", a=u32, b=packet),
            "half `b` of pair `two` is a packet, which cannot wait",
        ),
        (
            lambda: Pair("three", a=u32, b=u32, places=0),
            "pair `three` has 0 places; take 1 to 1048576",
        ),
        (lambda: Pair("four", a=u32, out=u32), "pair `four` has a half `out`; take another name"),
    ],
)
def test_pairs_that_are_none_are_refused(make, message):
    refused(make, message)
