"""nf_skid: order and stability under stalls, throughput, room for two words, reset."""

import random

import cocotb
from streams import STALLS, Bench, Sink, Source


async def bench(dut):
    bench = Bench(dut)
    bench.source = bench.add(Source(dut.s_valid, dut.s_ready, [dut.s_data]))
    bench.sink = bench.add(Sink(dut.m_valid, dut.m_ready, [dut.m_data]))
    return await bench.start()


@cocotb.test()
async def keeps_order_under_stalls(dut):
    b = await bench(dut)
    for b.source.stall, b.sink.stall in STALLS:
        sent = [(random.getrandbits(32),) for _ in range(300)]
        b.source.items, b.sink.got = list(sent), []
        await b.until(lambda sent=sent: len(b.sink.got) == len(sent))
        assert b.sink.got == sent


@cocotb.test()
async def one_word_a_cycle(dut):
    b = await bench(dut)
    b.source.items = [(i,) for i in range(300)]
    assert await b.until(lambda: len(b.sink.got) == 300) <= 304


@cocotb.test()
async def two_words_when_full(dut):
    b = await bench(dut)
    b.sink.stall = 1.0
    b.source.items = [(i,) for i in range(5)]
    await b.run(20)
    assert len(b.source.taken) == 2
    await b.reset()
    b.sink.stall = 0.0
    await b.run(10)
    assert b.sink.got == []
