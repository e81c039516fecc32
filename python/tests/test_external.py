"""Functions of C that elements call and others have: a file, a library."""

import zlib

import pytest
from nicforge.flow import (
    Drop,
    Element,
    External,
    FromNet,
    In,
    Out,
    Program,
    Queue,
    Struct,
    Table,
    packet,
    u8,
    u32,
)
from test_flow import line_of_here, refused

Block = Struct("block", b=u8[32])
crc32 = External(
    "uint64_t crc32(uint64_t sum, const void *bytes, uint32_t length)", "-lz", pure=True
)
numbered = External("uint32_t numbered(uint32_t of)", "external.c")
seen = Table("seen", "hash", u32, u32, 64)


class Check(Element):
    inp = In(pkt=packet)
    out = Out(packet, u32)
    structs = (Block,)
    externals = (crc32,)
    body = """
        struct block block = {0};
        nf_load(pkt, 0, &block);
        out(pkt, crc32(0, &block, 32));
    """


class Number(Element):
    inp = In(pkt=packet, sum=u32)
    out = Out(packet)
    tables = (seen,)
    externals = (numbered, crc32)
    body = """
        nf_update(&seen, sum, numbered(1));
        out(pkt);
    """


def program() -> Program:
    network = FromNet()
    network >> Queue("host", side="host") >> Check() >> Number() >> Drop("seen")
    return Program("external", network)


@pytest.mark.parametrize("target", ["dpdk", "xdp"])
def test_functions_of_others_are_called(capture, needs_root, target):
    frames = [bytes([number]) * 60 for number in range(5)]
    assert "5 of 5 events, 1 of 1 table" in program().verify(target, "--pcap", capture(frames))
    report = program().run(capture(frames), expected={"drops": {"seen": 5}})
    assert report["tables"][0]["entries"] == len({zlib.crc32(frame[:32]) for frame in frames})


def test_mistakes_have_a_place():
    def gone():
        External("void f(void)", "gone.c")

    words = ("`gone.c`, which has function `f`, is not there; it would be ", "gone.c")
    refused(gone, *words, line=line_of_here(__file__, 'External("void f(void)", "gone.c")'))
    refused(lambda: External("f", "-lz"), "`f` is no prototype; write External")

    class Other(Number):
        externals = (crc32, External("uint32_t numbered(uint64_t of)", "external.c"))

    network = FromNet()
    (
        network
        >> Queue("host", side="host")
        >> Check()
        >> Number()
        >> Check(name="again")
        >> Other()
        >> Drop("seen")
    )
    refused(
        Program("two", network).source, "there are two functions `numbered`; the other one is at "
    )


def test_functions_that_nobody_has_are_named(capture):
    class Lost(Element):
        inp = In(pkt=packet)
        out = Out(packet)
        externals = (External("uint32_t nobody_has_this(uint32_t of)", "-lz"),)
        body = "if (nobody_has_this(1) == 0) { out(pkt); return; } out(pkt);"

    network = FromNet()
    network >> Queue("host", side="host") >> Lost() >> Drop("seen")
    refused(lambda: Program("lost", network).run(capture([bytes(60)])), "nobody_has_this")
