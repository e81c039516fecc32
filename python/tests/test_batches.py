"""Batchers: batches that leave full, late or by a tick, and what is refused."""

import struct
import subprocess
import sys

import pytest
from nicforge.flow import (
    Batcher,
    CallableSegment,
    Debatcher,
    Element,
    FromHost,
    FromNet,
    In,
    Out,
    Program,
    Queue,
    Struct,
    Table,
    Tick,
    packet,
    u8,
    u32,
    u64,
)
from test_flow import TRAFFIC, refused

Report = Struct("report", size=u32, kind=u8)
totals = Table("totals", "array", u32, u64, 2)
groups = Table("groups", "hash", u32, u64, 64)


class Read(Element):
    """What is reported of a packet."""

    inp = In(pkt=packet)
    report = Out(Report)
    body = 'struct report made = {nf_len(pkt), (uint8_t)nf_port(pkt)};\nreport(made);\nnf_drop(pkt, "reported");'


class Store(Element):
    inp = In(report=Report)
    tables = (totals,)
    body = "nf_add_value(&totals, 0, report.size);\nnf_add_value(&totals, 1, 1);"


def program(n=4, deadline=None, clock=None):
    several = Batcher("reports", Report, n, deadline)

    class Counted(Element):
        inp, out = In(batch=several.batch), Out(several.batch)
        tables = (groups,)
        body = "nf_add_value(&groups, batch.count, 1);\nout(batch);"

    network, read = FromNet(), Read()
    network >> read
    read.report >> several >> Queue("up") >> Counted() >> Debatcher(several) >> Store()
    sources = [network]
    if clock is not None:
        clock.out >> several.tick
        sources.append(clock)
    return Program("batches", *sources)


@pytest.fixture
def timed(tmp_path):
    """Writes frames with their times in microseconds as a capture."""

    def write(name, frames):
        out = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)]
        out += [
            struct.pack("<IIII", 0, at * 1000, len(frame), len(frame)) + frame
            for at, frame in frames
        ]
        (tmp_path / name).write_bytes(b"".join(out))
        return str(tmp_path / name)

    return write


def entries(report):
    return {table["table"]: table["entries"] for table in report["tables"]}


@pytest.mark.parametrize("target", ["dpdk", "agilio-cx"])
def test_full_batches_leave(timed, target):
    path = timed("full.pcap", [(at, bytes(60 + at)) for at in range(10)])
    made = program()
    assert entries(made.run(path))["groups"] == 1  # two of four; two values wait
    assert "10 of 10 events, 3 of 3 tables" in made.verify(target, "--pcap", path)


def test_a_batch_leaves_when_its_oldest_value_has_waited(timed):
    """By the next value, or by a tick when there is no traffic."""
    clock = FromHost(Tick)
    made = program(n=8, deadline=50_000, clock=clock)
    frames = [(0, bytes(60)), (10, bytes(60)), (60, bytes(60)), (100, bytes(60)), (101, bytes(60))]
    path = timed("late.pcap", frames)
    assert entries(made.run(path))["groups"] == 1  # three at 60 µs; two wait
    ticks = timed("ticks.pcap", [(at, struct.pack("<I", at)) for at in (0, 140, 150, 160)])
    report = made.run(path, "--pcap", f"host={ticks}")
    assert (
        report["messages_in"] == 4 and entries(report)["groups"] == 2
    )  # and the two at 150 µs, by a tick
    for target in ("dpdk", "bluefield2"):
        assert "9 of 9 events" in made.verify(target, "--pcap", path, "--pcap", f"host={ticks}")


def test_a_program_may_be_the_clock():
    clock = CallableSegment(sends=Tick, name="clock")
    several = Batcher("reports", Report, 4, deadline=1000)
    network, read = FromNet(), Read()
    network >> read
    read.report >> several >> Debatcher(several) >> Store()
    clock.sent >> several.tick
    text = Program("clocked", network, clock).source().text
    assert "void host_send(struct tick message)" in text and "reports_tick(" in text


def test_the_example_does_the_same():
    example = TRAFFIC.parents[1] / "flow/reports/reports.py"
    words = [sys.executable, example, "verify", "--pcap", TRAFFIC, "--target", "dpdk"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert "matches the reference: 1259 of 1259 events, 2 of 2 tables" in done.stdout, done.stderr


def test_mistakes_are_named():
    refused(
        lambda: program(deadline=1000),
        "nothing ticks batcher `reports`",
        "connect a clock to its `tick`",
    )
    refused(lambda: Batcher("b", packet, 4), "batcher `b` collects no values")
    refused(lambda: Batcher("b", u32, 1), "batcher `b` has 1 values in a batch")
    refused(lambda: Batcher("b", u32, 4, deadline=0), "batcher `b` has a deadline of 0")
    refused(lambda: Debatcher(u32), "a debatcher takes the batches of a batcher")
