"""nf_axil_registers through cocotbext-axi's master: all words, strobes, errors, pairs, random
pauses, reset."""

import itertools
import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, with_timeout
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp

CONTROL, STATUS, PAIRS = (int(os.environ[name]) for name in ("CONTROL", "STATUS", "PAIRS"))


async def bench(dut):
    dut.status.value = 0
    dut.rst.value = 1
    Clock(dut.clk, 4, "ns").start()
    master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
    for _ in range(3):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    for _ in range(2):
        await RisingEdge(dut.clk)
    return master


def pauses():
    return itertools.cycle([random.random() < 0.5 for _ in range(97)])


@cocotb.test()
async def control_words_keep_what_is_written(dut):
    master = await bench(dut)
    words = [0] * CONTROL
    for stalls in (False, True):
        if stalls:
            for channel in (
                master.write_if.aw_channel,
                master.write_if.w_channel,
                master.write_if.b_channel,
            ):
                channel.set_pause_generator(pauses())
            for channel in (master.read_if.ar_channel, master.read_if.r_channel):
                channel.set_pause_generator(pauses())
        for _ in range(60):
            at = random.randrange(CONTROL)
            # Some bytes of a word only: strobes.
            first, count = random.choice([(0, 4), (0, 4), (0, 1), (1, 2), (3, 1)])
            data = random.randbytes(count)
            assert (await master.write(at * 4 + first, data)).resp == AxiResp.OKAY
            old = bytearray(words[at].to_bytes(4, "little"))
            old[first : first + count] = data
            words[at] = int.from_bytes(old, "little")
            read = random.randrange(CONTROL)
            got = await master.read(read * 4, 4)
            assert got.resp == AxiResp.OKAY and int.from_bytes(got.data, "little") == words[read]
            assert int(dut.control.value) == sum(word << 32 * i for i, word in enumerate(words))


@cocotb.test()
async def answers_are_not_lost_while_the_host_is_busy(dut):
    master = await bench(dut)
    for channel in (master.write_if.b_channel, master.read_if.r_channel):
        channel.set_pause_generator(itertools.cycle([1] * 7 + [0]))
    writes = [
        cocotb.start_soon(master.write(at % CONTROL * 4, bytes([at] * 4))) for at in range(12)
    ]
    for task in writes:
        assert (await with_timeout(task, 10, "us")).resp == AxiResp.OKAY
    reads = [cocotb.start_soon(master.read(at % CONTROL * 4, 4)) for at in range(12)]
    for at, task in enumerate(reads):
        last = max(number for number in range(12) if number % CONTROL == at % CONTROL)
        assert (await with_timeout(task, 10, "us")).data == bytes([last] * 4)


@cocotb.test()
async def statistics_are_read_and_not_written(dut):
    master = await bench(dut)
    status = random.getrandbits(32 * STATUS)
    dut.status.value = status
    for word in range(STATUS):
        if PAIRS and word % 2:
            await master.read((CONTROL + word - 1) * 4, 4)
        got = await master.read((CONTROL + word) * 4, 4)
        assert int.from_bytes(got.data, "little") == status >> 32 * word & 0xFFFFFFFF
        assert (await master.write((CONTROL + word) * 4, b"abcd")).resp == AxiResp.SLVERR
    assert int(dut.control.value) == 0


@cocotb.test(skip=not PAIRS)
async def both_halves_of_a_counter_belong_together(dut):
    master = await bench(dut)
    dut.status.value = 0xFFFFFFFF
    low = await master.read(CONTROL * 4, 4)
    dut.status.value = 0x1_00000000
    high = await master.read((CONTROL + 1) * 4, 4)
    assert (low.data, high.data) == (b"\xff\xff\xff\xff", bytes(4))


@cocotb.test()
async def outside_is_an_error(dut):
    master = await bench(dut)
    beyond = (CONTROL + STATUS) * 4
    assert beyond < 1 << int(os.environ["ADDRESS"])
    assert (await master.read(beyond, 4)).resp == AxiResp.SLVERR
    assert (await master.write(beyond, b"abcd")).resp == AxiResp.SLVERR
    assert int(dut.control.value) == 0


@cocotb.test()
async def reset_restores_the_words(dut):
    master = await bench(dut)
    await master.write(0, b"abcd")
    dut.rst.value = 1
    for _ in range(2):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    await RisingEdge(dut.clk)
    assert int(dut.control.value) == 0
    assert (await master.read(0, 4)).data == bytes(4)
