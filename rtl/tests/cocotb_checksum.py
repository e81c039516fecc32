"""nf_checksum, nf_checksum_update and nf_checksum_delta against plain sums."""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from streams import Bench, Sink, Source

TOP = os.environ["TOP"]


def fold(total):
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def words_sum(data):
    return sum(int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2))


@cocotb.test(skip=TOP != "nf_checksum")
async def packets(dut):
    size = int(os.environ.get("BYTES", 0))
    b = Bench(dut)
    source = b.add(
        Source(dut.s_valid, None, [dut.s_data, dut.s_keep, dut.s_last, dut.s_start], 0.2)
    )
    sink = b.add(Sink(dut.m_valid, None, [dut.m_checksum]))
    await b.start()
    wanted = []
    for number in range(150):
        length = random.randint(1, size * 4)
        data = bytes([255] * length) if number % 10 == 0 else random.randbytes(length)
        start, skip = random.getrandbits(16), random.randrange(0, min(length, 40), 2)
        counted = bytes(skip) + data[skip:] + bytes(length % 2)
        if number % 2:
            start = (
                ~words_sum(counted) & 0xFFFF
            )  # a sum with all low bits one, which carries when it is folded
        wanted.append((0xFFFF ^ fold(words_sum(counted) + start),))
        for at in range(0, length, size):
            part = data[at : at + size]
            keep = sum(1 << i for i in range(len(part)) if at + i >= skip)
            # Bytes that do not count may hold anything.
            filled = part + random.randbytes(size - len(part))
            source.items.append(
                (int.from_bytes(filled, "little"), keep, int(at + size >= length), start)
            )
    await b.until(lambda: len(sink.got) == len(wanted))
    assert sink.got == wanted
    # A reset inside a packet: the next packet starts from zero.
    source.stall = 0.0
    source.items = [((1 << 8 * size) - 1, (1 << size) - 1, 0, 0)] * 3
    await b.run(3)
    await b.reset()
    source.items = [(0x0201, 3, 1, 0)]
    await b.until(lambda: sink.got, 20)
    assert sink.got == [(0xFFFF ^ 0x0102,)]


@cocotb.test(skip=TOP != "nf_checksum_update")
async def updates(dut):
    """A field over random words: after the update it must be right for the new words, also where
    sums are zero."""
    b = Bench(dut)
    source = b.add(Source(dut.s_valid, None, [dut.s_checksum, dut.s_delta, dut.s_udp], 0.1))
    sink = b.add(Sink(dut.m_valid, None, [dut.m_checksum]))
    await b.start()
    cases = []
    for number in range(3000):
        words = [random.choice([0, 0xFFFF, random.getrandbits(16)]) for _ in range(6)]
        new = [
            random.choice([0, 0xFFFF, word, random.getrandbits(16)]) for word in words[:2]
        ] + words[2:]
        # Not all words zero, as in every header: then the sum of the data is never zero, only
        # 0xffff.
        words, new = [*words, 0x4500], [*new, 0x4500]
        if number % 4 == 1:  # new words whose checksum is zero
            rest = 0xFFFF ^ fold(sum(new))
            words, new = [*words, rest], [*new, rest]
        udp = number % 2
        field = 0xFFFF ^ fold(sum(words))
        if udp:
            field = 0 if number % 20 == 1 else field or 0xFFFF
        delta = fold(sum((0xFFFF ^ old) + now for old, now in zip(words, new, strict=True)))
        cases.append((field, delta, udp, new))
    source.items = [case[:3] for case in cases]
    await b.until(lambda: len(sink.got) == len(cases))
    for (field, _, udp, new), (got,) in zip(cases, sink.got, strict=True):
        if udp and field == 0:
            assert got == 0
        else:
            assert fold(sum(new) + got) == 0xFFFF, (field, new, got)
            assert not udp or got != 0


@cocotb.test(skip=TOP != "nf_checksum_delta")
async def deltas(dut):
    words = int(os.environ.get("WORDS", 0))
    Clock(dut.clk, 4, "ns").start()
    await RisingEdge(dut.clk)
    for _ in range(500):
        old = [random.choice([0, 0xFFFF, random.getrandbits(16)]) for _ in range(words)]
        new = [random.choice([0, 0xFFFF, random.getrandbits(16)]) for _ in range(words)]
        dut.s_old.value = sum(word << 16 * i for i, word in enumerate(old))
        dut.s_new.value = sum(word << 16 * i for i, word in enumerate(new))
        await RisingEdge(dut.clk)
        await RisingEdge(dut.clk)
        assert int(dut.m_delta.value) == fold(
            sum((0xFFFF ^ o) + n for o, n in zip(old, new, strict=True))
        )
