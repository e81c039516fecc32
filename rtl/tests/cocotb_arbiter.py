"""nf_arbiter: whole packets, fairness, nothing lost, reset in a packet."""

import os
import random

import cocotb
from streams import STALLS, Bench, Sink

PORTS = int(os.environ["PORTS"])
WIDTH = int(os.environ["WIDTH"])


class Sources:
    """One sender per port; a word is {port, packet, place}."""

    def __init__(self, dut):
        self.dut, self.stall = dut, 0.0
        self.clear()

    def clear(self):
        self.items = [[] for _ in range(PORTS)]
        self.offering = [False] * PORTS
        self.dut.s_valid.value = 0

    def packets(self, port, count, longest):
        for packet in range(count):
            length = random.randint(1, longest)
            for place in range(length):
                self.items[port].append(
                    (port << 24 | packet << 8 | place, int(place == length - 1))
                )

    def edge(self):
        ready = int(self.dut.s_ready.value)
        data = last = valid = 0
        for port in range(PORTS):
            if self.offering[port] and ready >> port & 1:
                self.items[port].pop(0)
                self.offering[port] = False
            if not self.offering[port] and self.items[port]:
                self.offering[port] = random.random() >= self.stall
            if self.offering[port]:
                word, end = self.items[port][0]
                data |= word << port * WIDTH
                last |= end << port
                valid |= 1 << port
        self.dut.s_data.value, self.dut.s_last.value, self.dut.s_valid.value = data, last, valid


async def bench(dut):
    bench = Bench(dut)
    bench.sources = bench.add(Sources(dut))
    bench.sink = bench.add(Sink(dut.m_valid, dut.m_ready, [dut.m_data, dut.m_last, dut.m_port]))
    return await bench.start()


def check_whole(got):
    """Packets are not mixed; returns the ports in the order of their packets."""
    order, current = [], None
    for word, last, port in got:
        assert word >> 24 == port
        assert current in (None, word >> 8), "a word of another packet came between"
        if current is None:
            order.append(port)
        current = None if last else word >> 8
    assert current is None
    return order


@cocotb.test()
async def whole_packets_under_stalls(dut):
    b = await bench(dut)
    for b.sources.stall, b.sink.stall in STALLS:
        for port in range(PORTS):
            b.sources.packets(port, 15, 5)
        wanted = [list(items) for items in b.sources.items]
        b.sink.got = []
        await b.until(lambda: not any(b.sources.items))
        await b.run(1)
        check_whole(b.sink.got)
        for port in range(PORTS):
            assert [
                (word, last) for word, last, from_port in b.sink.got if from_port == port
            ] == wanted[port]


@cocotb.test()
async def takes_turns_without_gaps(dut):
    b = await bench(dut)
    for port in range(PORTS):
        b.sources.packets(port, 20, 1)
    assert await b.until(lambda: len(b.sink.got) == 20 * PORTS) <= 20 * PORTS + 4
    order = check_whole(b.sink.got)
    for start in range(0, len(order), PORTS):
        assert sorted(order[start : start + PORTS]) == list(range(PORTS))


@cocotb.test()
async def reset_in_a_packet(dut):
    b = await bench(dut)
    b.sources.items[PORTS - 1] = [(5, 0), (6, 0)]
    await b.run(10)
    await b.reset()
    b.sources.packets(0, 1, 1)
    await b.until(lambda: len(b.sink.got) == 1, 20)
