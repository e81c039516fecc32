"""nf_ternary against a plain list: priority, masks, removal, writes next to lookups, reset."""

import os
import random

import cocotb
from streams import Bench, Sink, Source

ENTRIES = int(os.environ["ENTRIES"])
KEY = int(os.environ["KEY"])


class Model:
    """What the table should answer. Acts before the sources, so a lookup sees only writes of
    earlier cycles."""

    def __init__(self, dut):
        self.dut = dut
        self.clear()

    def clear(self):
        self.entries, self.wanted = {}, []

    def edge(self):
        dut = self.dut
        if int(dut.s_valid.value):
            key = int(dut.s_key.value)
            hits = [
                i
                for i, (entry, mask, _) in sorted(self.entries.items())
                if (key ^ entry) & mask == 0
            ]
            self.wanted.append((1, hits[0], self.entries[hits[0]][2]) if hits else (0,))
        if int(dut.w_valid.value):
            index = int(dut.w_index.value)
            self.entries.pop(index, None)
            if int(dut.w_use.value):
                self.entries[index] = (
                    int(dut.w_key.value),
                    int(dut.w_mask.value),
                    int(dut.w_value.value),
                )


async def bench(dut):
    bench = Bench(dut)
    bench.model = bench.add(Model(dut))
    bench.lookups = bench.add(Source(dut.s_valid, None, [dut.s_key], 0.1))
    bench.writes = bench.add(
        Source(dut.w_valid, None, [dut.w_index, dut.w_use, dut.w_key, dut.w_mask, dut.w_value], 0.5)
    )
    bench.answers = bench.add(Sink(dut.m_valid, None, [dut.m_hit, dut.m_index, dut.m_value]))
    return await bench.start()


def write(use=None):
    mask = random.choice(
        [(1 << KEY) - 1, random.getrandbits(KEY), 0b1111 << random.randrange(KEY - 3)]
    )
    mask = 0 if random.random() < 0.02 else mask
    use = random.random() < 0.8 if use is None else use
    return (
        random.randrange(ENTRIES),
        int(use),
        random.getrandbits(KEY),
        mask,
        random.getrandbits(16),
    )


def check(b):
    got = [answer if answer[0] else (0,) for answer in b.answers.got]
    assert got == b.model.wanted
    return got


@cocotb.test()
async def answers_as_a_list_would(dut):
    b = await bench(dut)
    b.lookups.items = [(random.getrandbits(KEY),) for _ in range(1500)]
    b.writes.items = [write() for _ in range(700)]
    await b.until(lambda: not b.lookups.items)
    b.lookups.clear()
    await b.run(4)
    got = check(b)
    assert 100 < sum(answer[0] for answer in got) < 1400


@cocotb.test()
async def a_value_of_its_key_while_it_is_written(dut):
    """The same entry gets another key and value every cycle, with a lookup of the old and the new
    key around each."""
    b = await bench(dut)
    b.lookups.stall = b.writes.stall = 0.0
    full = (1 << KEY) - 1
    b.writes.items = [(3, 1, i % 3, full, i) for i in range(300)]
    b.lookups.items = [(random.randrange(3),) for _ in range(300)]
    await b.until(lambda: not b.lookups.items)
    b.lookups.clear()
    await b.run(4)
    assert sum(answer[0] for answer in check(b)) > 50


@cocotb.test()
async def answers_after_two_cycles_and_reset_empties(dut):
    b = await bench(dut)
    b.writes.items = [(0, 1, 0, 0, 9)]
    await b.run(20)
    b.writes.clear()
    b.lookups.stall = 0.0
    b.lookups.items = [(5,)]
    # One edge drives the lookup, one takes it, the second after that sees the answer.
    assert await b.until(lambda: b.answers.got == [(1, 0, 9)], 10) == 4
    b.lookups.items = [(5,)]
    await b.run(2)
    await b.reset()
    b.lookups.items = [(5,)]
    await b.run(6)
    assert [answer[0] for answer in b.answers.got] == [0]
