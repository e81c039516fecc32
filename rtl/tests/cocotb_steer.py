"""nf_steer: packets whole to their output, unknown outputs dropped, one output's stall, reset in a
packet."""

import os
import random

import cocotb
from streams import STALLS, Bench, Source

PORTS = int(os.environ["PORTS"])


class Sinks:
    def __init__(self, dut):
        self.dut, self.stall = dut, 0.0
        self.closed = 0
        dut.m_ready.value = 0
        self.clear()

    def clear(self):
        self.got, self.dropped, self.ready = [[] for _ in range(PORTS)], 0, 0

    def edge(self):
        valid = int(self.dut.m_valid.value)
        assert valid & (valid - 1) == 0, "one word to several outputs"
        for port in range(PORTS):
            if valid & self.ready & 1 << port:
                self.got[port].append((int(self.dut.m_data.value), int(self.dut.m_last.value)))
        self.dropped += int(self.dut.dropped.value)
        self.ready = (
            sum(int(random.random() >= self.stall) << port for port in range(PORTS)) & ~self.closed
        )
        self.dut.m_ready.value = self.ready


async def bench(dut):
    bench = Bench(dut)
    bench.source = bench.add(Source(dut.s_valid, dut.s_ready, [dut.s_data, dut.s_last, dut.s_port]))
    bench.sinks = bench.add(Sinks(dut))
    return await bench.start()


def packet(port, length):
    """Only the first word names the port; later words name others."""
    return [
        (random.getrandbits(32), int(i == length - 1), port if i == 0 else random.randrange(PORTS))
        for i in range(length)
    ]


@cocotb.test()
async def every_packet_to_its_output(dut):
    b = await bench(dut)
    for b.source.stall, b.sinks.stall in STALLS:
        b.sinks.clear()
        wanted, unknown = [[] for _ in range(PORTS)], 0
        for _ in range(60):
            port = random.randrange(PORTS + 1)
            words = packet(port, random.randint(1, 4))
            b.source.items += words
            if port < PORTS:
                wanted[port] += [(word, last) for word, last, _ in words]
            else:
                unknown += 1
        await b.until(lambda: not b.source.items)
        await b.run(1)
        assert b.sinks.got == wanted
        assert b.sinks.dropped == unknown


@cocotb.test()
async def a_closed_output_holds_the_stream(dut):
    b = await bench(dut)
    b.sinks.closed = 2
    b.source.items = packet(0, 2) + packet(1, 2) + packet(0, 2)
    await b.run(30)
    assert len(b.source.taken) == 2
    b.sinks.closed = 0
    await b.until(lambda: len(b.sinks.got[0]) == 4)
    assert len(b.sinks.got[1]) == 2


@cocotb.test()
async def reset_in_a_packet(dut):
    b = await bench(dut)
    b.source.items = [(1, 0, 1)]
    await b.run(5)
    await b.reset()
    b.source.items = [(2, 1, 0)]
    await b.until(lambda: b.sinks.got[0] == [(2, 1)], 20)
