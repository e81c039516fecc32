"""nf_fifo: order, full and empty, throughput, whole packets, reset with words inside."""

import os
import random

import cocotb
from streams import STALLS, Bench, Sink, Source

DEPTH = int(os.environ["DEPTH"])
PACKETS = int(os.environ["PACKETS"])


async def bench(dut):
    bench = Bench(dut)
    bench.source = bench.add(Source(dut.s_valid, dut.s_ready, [dut.s_data, dut.s_last]))
    bench.sink = bench.add(Sink(dut.m_valid, dut.m_ready, [dut.m_data]))
    return await bench.start()


def words(count):
    return [
        (random.getrandbits(32), int(i == count - 1 or random.random() < 0.3)) for i in range(count)
    ]


@cocotb.test()
async def keeps_order_under_stalls(dut):
    b = await bench(dut)
    for b.source.stall, b.sink.stall in STALLS:
        b.source.items = sent = words(200)
        sent, b.sink.got = list(sent), []
        await b.until(lambda sent=sent: len(b.sink.got) == len(sent))
        assert b.sink.got == [(word,) for word, _ in sent]
        await b.run(1)
        assert int(dut.level.value) == 0


@cocotb.test()
async def holds_depth_words_and_one(dut):
    b = await bench(dut)
    b.sink.stall = 1.0
    b.source.items = words(DEPTH + 5)
    await b.run(DEPTH + 30)
    assert len(b.source.taken) == DEPTH + 1
    assert int(dut.level.value) == DEPTH + 1
    b.sink.stall = 0.0
    await b.until(lambda: len(b.sink.got) == DEPTH + 5)


@cocotb.test()
async def one_word_a_cycle(dut):
    b = await bench(dut)
    b.source.items = [(i, 1) for i in range(300)]
    assert await b.until(lambda: len(b.sink.got) == 300) <= 305


@cocotb.test()
async def shows_packets_when_they_are_whole(dut):
    b = await bench(dut)
    b.source.items = [(i, 0) for i in range(DEPTH // 2)]
    await b.run(DEPTH * 3)
    assert len(b.sink.got) == (0 if PACKETS else DEPTH // 2)
    b.source.items = [(99, 1)]
    await b.until(lambda: len(b.sink.got) == DEPTH // 2 + 1, 50)
    # A packet that does not fit goes out early instead of waiting for its end for ever.
    b.sink.got = []
    b.source.items = [(i, int(i == 2 * DEPTH)) for i in range(2 * DEPTH + 1)]
    await b.until(lambda: len(b.sink.got) == 2 * DEPTH + 1, 500)
    # Having started it goes on, although the queue is no longer full and the end has not come.
    b.sink.got = []
    b.source.items = [(i, 0) for i in range(DEPTH)]
    await b.until(lambda: len(b.sink.got) == DEPTH, 100)


@cocotb.test()
async def reset_empties_it(dut):
    b = await bench(dut)
    b.sink.stall = 1.0
    b.source.items = words(DEPTH)
    await b.run(DEPTH // 2)
    await b.reset()
    b.sink.stall = 0.0
    await b.run(20)
    assert b.sink.got == [] and int(dut.level.value) == 0
    b.source.items = [(7, 0), (8, 1)]
    await b.until(lambda: b.sink.got == [(7,), (8,)])
