"""Memory regions: bytes with addresses, shared by elements, on every kind of target."""

import pathlib
import struct

import pytest
from nicforge.flow import (
    Element,
    External,
    FromNet,
    In,
    MemoryRegion,
    Out,
    Program,
    Queue,
    Reply,
    packet,
    u32,
)
from test_flow import line_of_here, refused

here = lambda text: line_of_here(__file__, text)  # noqa: E731

ring = MemoryRegion("ring", 64, init=struct.pack("<QIHBB", 0, 7, 1, 2, 255))
lines = MemoryRegion("lines", 128, line=64)


class Write(Element):
    """Byte 0 of a frame is the address, byte 1 the width, 2 to 9 the value, which is written; goes
    on with the address."""

    inp = In(pkt=packet)
    out = Out(packet, u32)
    tables = (ring,)
    body = """
        uint8_t at = 0, wide = 0;
        nf_be64 value = 0;
        nf_load(pkt, 0, &at); nf_load(pkt, 1, &wide); nf_load(pkt, 2, &value);
        bool done = true;
        switch (wide) {
        case 8: done = ring_write8(at, (uint8_t)nf_ntohll(value)); break;
        case 16: done = ring_write16(at, (uint16_t)nf_ntohll(value)); break;
        case 32: done = ring_write32(at, (uint32_t)nf_ntohll(value)); break;
        case 64: done = ring_write64(at, nf_ntohll(value)); break;
        default: break;
        }
        if (!done) { nf_drop(pkt, "not in memory"); return; }
        out(pkt, at);
    """


class Read(Element):
    """Writes the 8 bytes around an address, and the byte there, into the frame."""

    inp = In(pkt=packet, at=u32)
    out = Out(packet)
    tables = (ring,)
    body = """
        uint64_t whole; uint32_t half; uint16_t quarter; uint8_t one;
        bool there = ring_read64(at & ~7u, &whole);
        there = there && ring_read32(at & ~3u, &half) && ring_read16(at & ~1u, &quarter) && ring_read8(at, &one);
        if (!there) { nf_drop(pkt, "not in memory"); return; }
        nf_store(pkt, 10, &whole);
        nf_store(pkt, 18, &half);
        nf_store(pkt, 22, &quarter);
        nf_store(pkt, 24, &one);
        out(pkt);
    """


def program(name="memory", queue=True):
    network, write, read = FromNet(), Write(), Read()
    network >> write
    write >> Queue(f"{name}_queue") >> read if queue else write >> read
    read >> Reply()
    return Program(name, network, ports=1)


def frame(at, wide=0, value=0):
    return struct.pack(">BBQ", at, wide, value).ljust(60, b"\0")


FRAMES = [
    frame(8),
    frame(24, 64, 0x0102030405060708),
    frame(25, 8, 0xFF),
    frame(26, 16, 0xABCD),
    frame(28, 32, 0xDEADBEEF),
    frame(31),
    frame(29, 32, 1),
    frame(64, 8, 1),
    frame(255, 64, 1),
    frame(63, 8, 9),
]


def sent(of, path, tmp_path, *arguments):
    """The frames that a program sends."""
    out = tmp_path / "out.pcap"
    of.run(path, "--out", str(out), *arguments)
    data, at, frames = out.read_bytes(), 24, []
    while at < len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        frames.append(data[at + 16 : at + 16 + length])
        at += 16 + length
    return frames


def test_values_lie_where_they_were_written(capture, tmp_path):
    path = capture(FRAMES)
    program().run(path, expected={"dropped": 3, "sent": [7]})
    values = [struct.unpack_from("<QIHB", each, 10) for each in sent(program(), path, tmp_path)]
    assert values[0] == (0xFF02000100000007, 7, 7, 7)
    memory = struct.pack("<BBHI", 8, 0xFF, 0xABCD, 0xDEADBEEF)
    assert values[5] == (*struct.unpack("<Q", memory), 0xDEADBEEF, 0xDEAD, 0xDE)
    assert values[6][0] == 9 << 56


@pytest.mark.parametrize("target", ["dpdk", "liquidio", "u280"])
def test_memory_is_the_same_everywhere(target, capture):
    program().verify(target, "--pcap", capture(FRAMES))


def test_memory_is_the_same_in_the_kernel(capture, needs_root):
    program(queue=False).verify("xdp", "--pcap", capture(FRAMES))


class Sort(Element):
    """A function of C gets a line."""

    inp, out = In(pkt=packet), Out(packet)
    tables = (lines,)
    externals = (External("void tidy(void *line)", "tidy.c"),)
    body = """
        struct lines_line line;
        uint64_t last = 0;
        nf_be32 at = 0, value = 0;
        nf_load(pkt, 0, &at);
        nf_load(pkt, 4, &value);
        lines_write64(64 + nf_ntohl(at) % 8 * 8, nf_ntohl(value));
        if (!lines_line(70, &line)) { nf_drop(pkt, "no line"); return; }
        tidy(&line);
        lines_put(70, line);
        lines_read64(120, &last);
        nf_store(pkt, 8, &last);
        out(pkt);
    """


def test_functions_get_a_line(capture, tmp_path):
    network = FromNet()
    network >> Queue("sorting", side="host") >> Sort() >> Reply()
    sorting = Program("sorting", network, ports=1)
    # Every word is put where its number says, in the order that sorting left; the greatest is last.
    numbers = [(0, 70), (1, 800), (7, 600), (3, 500), (7, 400), (5, 900), (7, 207), (7, 110)]
    frames = [struct.pack(">II", at, value).ljust(60, b"\0") for at, value in numbers]
    last = [
        struct.unpack_from("<Q", each, 8)[0] for each in sent(sorting, capture(frames), tmp_path)
    ]
    words, expected = [0] * 8, []
    for at, value in numbers:
        words[at] = value
        words.sort()
        expected.append(words[-1])
    assert last == expected and len(set(last)) > 2
    sorting.verify("dpdk", "--pcap", capture(frames))


def test_memory_that_cannot_be_is_refused():
    refused(lambda: MemoryRegion("m", 12), "has bytes=12", "multiples of 8")
    refused(lambda: MemoryRegion("m", 64, line=48), "no lines of 48")
    refused(lambda: MemoryRegion("m", 8, init="text"), "which is no bytes")
    refused(lambda: MemoryRegion("m", 8, init=bytes(9)), "begins with 9 bytes and has 8")


def test_memory_that_a_program_of_ones_own_maps_is_in_its_header(tmp_path):
    board = MemoryRegion("board", 32, line=16, shared=True)

    class Count(Element):
        inp, out, tables = In(pkt=packet), Out(packet), (board,)
        body = "uint64_t n;\nboard_read64(0, &n);\nboard_write64(0, n + 1);\nout(pkt);"

    network = FromNet()
    network >> Count() >> Reply()
    program = Program("boards", network, ports=1)
    assert "NF_SHARED\nNF_TABLE(array, board," in program.source().text
    program.tool().run("build", "--emit", "host", "-o", str(tmp_path))
    header = (tmp_path / "boards_host.h").read_text()
    assert "static inline void *boards_board(const struct nf_attach *at)" in header
    assert "nf_attach_region(at, 0, 32)" in header
    assert "map_flags, BPF_F_MMAPABLE" in program.tool().run(
        "build", "--target", "xdp", "--emit", "c"
    )


def test_memory_of_two_sides_is_refused():
    network, write = FromNet(), Write()
    read = Read()  # on the host
    network >> write >> Queue("up", side="host") >> read >> Reply()
    words = (
        "region `ring` is used by element `write` on the nic side and by element `read` on the host side",
    )
    refused(lambda: Program("sides", network, ports=1), *words, line=here("# on the host"))


def test_contents_are_added_to_tables_of_the_command_line(capture, tmp_path):
    file = tmp_path / "more.toml"
    file.write_text("[[ring]]\nkey = 7\nvalue = { words = [5] }\n")
    frames = sent(program(), capture([frame(8), frame(56)]), tmp_path, "--tables", str(file))
    assert [struct.unpack_from("<Q", each, 10)[0] for each in frames] == [0xFF02000100000007, 5]
    refused(
        lambda: program().run(capture([]), "--tables", "nowhere.toml"), "nowhere.toml: No such file"
    )
    assert pathlib.Path(file).read_text().startswith("[[ring]]")
