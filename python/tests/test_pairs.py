"""Halves by different queues: python/nicforge/flow/pairs.py."""

import pytest
from nicforge.flow import Drop, Element, FromNet, In, Out, Pair, Program, Queue, Struct, Table, packet, u8, u32, u64
from test_flow import line_of_here, refused

here = lambda text: line_of_here(__file__, text)  # noqa: E731
Name = Struct("name", bytes=u8[8])
counted = Table("counted", "array", u32, u32, 1)
sums = Table("sums", "hash", u32, u64, 256)


class Split(Element):
    """Numbers packets; byte 0 says which half goes on: 1 the value, 2 the packet, 3 both."""

    inp = In(pkt=packet)
    value = Out(u32, u32, u8)
    out = Out(packet, u32, u8)
    tables = (counted,)
    body = """
        uint32_t number;
        uint8_t halves = 3;
        nf_lookup(&counted, 0, &number);
        nf_update(&counted, 0, number + 1);
        nf_load(pkt, 0, &halves);
        if (FIRST)
            value(number, 1000 + number, halves);
        uint32_t length = nf_len(pkt);
        out(pkt, number, halves);
        if (!FIRST)
            value(number, 1000 + length, halves);
    """


class Values(Element):
    inp, out = In(number=u32, value=u32, halves=u8), Out(u32, u32)
    body = "if ((halves & 1) != 0)\n    out(number, 2 * value);"


class Packets(Element):
    inp, out, gone = In(pkt=packet, number=u32, halves=u8), Out(packet, u32), Out(packet)
    body = "if ((halves & 2) != 0)\n    out(pkt, number);\nelse\n    gone(pkt);"


class Mark(Element):
    inp = In(pkt=packet, value=u32)
    body = "nf_store(pkt, 4, &value);\nnf_send(pkt, 0);"


def program(places=8, first=1, side=None):
    network, split, packets = FromNet(), Split(FIRST=first), Packets()
    both = Pair("both", value=u32, pkt=packet, places=places)
    network >> split
    split.value >> Queue("values", side=side) >> Values() >> both.value
    split.out >> Queue("packets", side=side) >> packets
    packets.out >> both.pkt
    packets.gone >> Drop("only its value")
    both >> Mark()
    both.late >> Drop("its value is not there", name="nothing")
    return Program("pairs", network)


def frames(halves):
    return [bytes([each]) + bytes(63) for each in halves]


def entries(report):
    return {table["table"]: table["entries"] for table in report["tables"]}


def test_a_packet_finds_its_value_by_another_queue(capture):
    path = capture(frames([3] * 40))
    made = program()
    report = made.run(path)
    assert report["sent"] == [40, 0] and entries(report) == {"counted": 1, "both": 0, "both_lost": 0}
    for target in ("dpdk", "liquidio"):
        assert "40 of 40 events, 3 of 3 tables" in made.verify(target, "--pcap", path)


def test_halves_whose_other_one_was_dropped_lose_their_place(capture):
    """Of 60 packets a third each have one half only; with 8 places a value waits for eight more."""
    halves = [3, 1, 2] * 20
    path = capture(frames(halves))
    made = program()
    report = made.run(path)
    assert report["sent"] == [20, 0]
    assert report["drops"] == {"only its value": 20, "its value is not there": 20}
    # Some place was needed by another half, and 3 of 8 still wait: numbers 52, 55 and 58 came alone.
    assert entries(report) == {"counted": 1, "both": 3, "both_lost": 1}
    assert "60 of 60 events, 3 of 3 tables" in made.verify("dpdk", "--pcap", path)


def test_a_packet_that_comes_first_is_late(capture):
    path = capture(frames([3] * 12))
    made = program(first=0)
    assert made.run(path)["drops"] == {"its value is not there": 12}
    assert "12 of 12 events" in made.verify("dpdk", "--pcap", path)
    # In other orders of the queues some find it; every packet ends one way or the other.
    report = program().run(path, "--interleave", "7")
    assert report["sent"][0] + report["drops"].get("its value is not there", 0) == 12


class Fork(Element):
    inp, out, left, right = In(pkt=packet), Out(packet), Out(u32, u32), Out(u32, Name)
    body = """
        struct name name;
        uint32_t value = 0;
        nf_load(pkt, 4, &value);
        nf_load(pkt, 8, &name);
        left(value, 7 * value);
        right(value, name);
        out(pkt);
    """


class Names(Element):
    inp, out = In(number=u32, name=Name), Out(u32, Name)
    body = "out(number, name);"


class Numbers(Element):
    inp, out = In(number=u32, value=u32), Out(u32, u32)
    body = "out(number, value);"


class Sum(Element):
    inp, tables = In(value=u32, name=Name), (sums,)
    body = "nf_update(&sums, value, nf_hash(1, name));"


def test_two_values_wait_for_each_other(capture):
    network, fork, both = FromNet(), Fork(), Pair("named", value=u32, label=Name)
    network >> fork
    fork.left >> Queue("lefts") >> Numbers() >> both.value
    fork.right >> Queue("rights") >> Names("first") >> Queue("again") >> Names("second") >> both.label
    both >> Sum()
    fork.out >> Drop("done")
    made = Program("named", network)
    path = capture([bytes(4) + n.to_bytes(4, "little") + bytes([n] * 60) for n in range(1, 31)])
    assert entries(made.run(path)) == {"sums": 30, "named": 0, "named_lost": 0}
    assert entries(made.run(path, "--interleave", "3"))["sums"] == 30, "in any order"
    assert "30 of 30 events" in made.verify("dpdk", "--pcap", path)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pair("one", value=u32), "pair `one` is no pair; write Pair"),
        (
            lambda: Pair("two", a=packet, b=u32),
            "the first half of pair `two` is a packet, which cannot wait; name the value first",
        ),
        (lambda: Pair("three", a=u32, b=u32, places=0), "pair `three` has 0 places; take 1 to 1048576"),
        (lambda: Pair("four", a=u32, out=u32), "pair `four` has a half `out`; take another name"),
    ],
)
def test_pairs_that_are_none_are_refused(make, message):
    refused(make, message)


def test_packets_that_are_late_lead_somewhere():
    network, both = FromNet(), Pair("both", value=u32, pkt=packet)  # nobody takes what is late
    split, packets = Split(FIRST=1), Packets()
    network >> split
    split.value >> Queue("values") >> Values() >> both.value
    split.out >> Queue("packets") >> packets
    packets.out >> both.pkt
    packets.gone >> Drop("only its value")
    both >> Mark()
    refused(lambda: Program("loose", network), "output `late` of element `both_pkt` is not connected")
