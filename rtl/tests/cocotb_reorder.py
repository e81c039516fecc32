"""nf_reorder: results in order of tickets whatever order they come in, skips, limits, reset with
tickets out."""

import os
import random

import cocotb
from streams import STALLS, Bench, Sink

DEPTH = int(os.environ["DEPTH"])


class Replicas:
    """Takes tickets and returns results in random order; `skips` is the share that returns
    nothing."""

    def __init__(self, dut):
        self.dut, self.stall, self.skips, self.left = dut, 0.0, 0.2, 0
        dut.t_ready.value = 0
        dut.s_valid.value = 0
        self.clear()

    def clear(self):
        self.out, self.wanted, self.asking, self.hold = [], [], False, False
        self.left = 0

    def edge(self):
        if self.asking and int(self.dut.t_valid.value):
            value, skip = random.getrandbits(32), random.random() < self.skips
            self.out.append((int(self.dut.t_ticket.value), value, int(skip)))
            if not skip:
                self.wanted.append((value,))
            self.left -= 1
        self.asking = self.left > 0
        self.dut.t_ready.value = int(self.asking)
        give = bool(self.out) and not self.hold and random.random() >= self.stall
        if give:
            ticket, value, skip = self.out.pop(random.randrange(len(self.out)))
            self.dut.s_ticket.value, self.dut.s_data.value, self.dut.s_skip.value = (
                ticket,
                value,
                skip,
            )
        self.dut.s_valid.value = int(give)


async def bench(dut):
    bench = Bench(dut)
    bench.replicas = bench.add(Replicas(dut))
    bench.sink = bench.add(Sink(dut.m_valid, dut.m_ready, [dut.m_data]))
    return await bench.start()


@cocotb.test()
async def order_of_tickets(dut):
    b = await bench(dut)
    for b.replicas.stall, b.sink.stall in STALLS:
        b.replicas.wanted, b.sink.got = [], []
        b.replicas.left = 200
        await b.until(lambda: b.replicas.left == 0 and not b.replicas.out)
        await b.until(lambda: len(b.sink.got) == len(b.replicas.wanted))
        assert b.sink.got == b.replicas.wanted
        await b.run(5)
        assert int(dut.waiting.value) == 0


@cocotb.test()
async def tickets_end_when_full(dut):
    b = await bench(dut)
    b.replicas.hold = True
    b.replicas.left = DEPTH + 10
    await b.run(DEPTH + 20)
    assert len(b.replicas.out) == DEPTH
    assert int(dut.waiting.value) == DEPTH and not int(dut.t_valid.value)
    b.replicas.hold = False
    await b.until(lambda: b.replicas.left == 0 and not b.replicas.out)
    await b.until(lambda: b.sink.got == b.replicas.wanted, 100)


@cocotb.test()
async def skipped_places_pass_a_stalled_output(dut):
    b = await bench(dut)
    b.sink.stall = 1.0
    b.replicas.skips = 0.0
    b.replicas.left = 1
    await b.run(10)
    b.replicas.skips = 1.0
    b.replicas.left = 2 * DEPTH
    await b.until(lambda: b.replicas.left == 0 and int(dut.waiting.value) == 0, 100)


@cocotb.test()
async def a_result_without_a_ticket_is_ignored(dut):
    b = await bench(dut)
    await b.run(2)
    b.replicas.out = [(0, 11, 0)]
    await b.run(5)
    b.replicas.skips = 0.0
    b.replicas.left = 1
    await b.until(lambda: len(b.sink.got) == 1, 50)
    assert b.sink.got == b.replicas.wanted


@cocotb.test()
async def reset_with_tickets_out(dut):
    b = await bench(dut)
    b.replicas.hold = True
    b.replicas.left = 5
    await b.run(10)
    await b.reset()
    b.replicas.left = 20
    await b.until(lambda: b.replicas.left == 0 and not b.replicas.out)
    await b.until(lambda: len(b.sink.got) == len(b.replicas.wanted))
    assert b.sink.got == b.replicas.wanted
