"""nf_counters against a list: adds to one counter every cycle, reads that clear, reset."""

import os
import random

import cocotb
from streams import Bench, Sink, Source

COUNTERS = int(os.environ["COUNTERS"])
WIDTH = int(os.environ["WIDTH"])
sums = [0] * COUNTERS  # the memory survives reset, so the model does too


class Model:
    def __init__(self, dut):
        self.dut = dut
        self.clear()

    def clear(self):
        self.wanted = []

    def edge(self):
        dut = self.dut
        if int(dut.s_valid.value):
            index = int(dut.s_index.value)
            sums[index] = (sums[index] + int(dut.s_amount.value)) % (1 << WIDTH)
        elif int(dut.r_valid.value):
            index = int(dut.r_index.value)
            self.wanted.append((sums[index],))
            if int(dut.r_clear.value):
                sums[index] = 0


async def bench(dut):
    bench = Bench(dut)
    bench.model = bench.add(Model(dut))
    bench.adds = bench.add(Source(dut.s_valid, None, [dut.s_index, dut.s_amount], 0.3))
    bench.reads = bench.add(Source(dut.r_valid, dut.r_ready, [dut.r_index, dut.r_clear], 0.3))
    bench.answers = bench.add(Sink(dut.q_valid, None, [dut.q_value]))
    return await bench.start()


@cocotb.test()
async def sums_and_clears(dut):
    b = await bench(dut)
    for spread in (1, 2, 3, COUNTERS):
        b.adds.items = [(random.randrange(spread), random.getrandbits(16)) for _ in range(400)]
        b.reads.items = [(random.randrange(spread), random.getrandbits(1)) for _ in range(150)]
        await b.until(lambda: not b.adds.items and not b.reads.items)
        await b.run(5)
    assert b.answers.got == b.model.wanted and len(b.answers.got) == 600


@cocotb.test()
async def every_cycle_to_one_counter(dut):
    b = await bench(dut)
    b.adds.stall = 0.0
    b.adds.items = [(3, 1)] * 200
    start = sums[3]
    assert await b.until(lambda: not b.adds.items) <= 202
    b.reads.items = [(3, 0)]
    await b.until(lambda: b.answers.got)
    assert b.answers.got == [((start + 200) % (1 << WIDTH),)]


@cocotb.test()
async def reset_keeps_sums(dut):
    b = await bench(dut)
    b.adds.items = [(1, 5)]
    await b.until(lambda: not b.adds.items)
    await b.run(5)
    await b.reset()
    b.reads.items = [(1, 0)]
    await b.until(lambda: b.answers.got)
    assert b.answers.got == b.model.wanted
