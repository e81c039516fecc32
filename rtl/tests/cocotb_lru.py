"""nf_lru against a list in order of use; reset."""

import os
import random

import cocotb
from streams import Bench, Source

ENTRIES = int(os.environ["ENTRIES"])


class Model:
    def __init__(self, dut):
        self.dut, self.checked = dut, 0
        self.clear()

    def clear(self):
        self.order = list(range(ENTRIES))

    def edge(self):
        assert int(self.dut.oldest.value) == self.order[0]
        self.checked += 1
        if int(self.dut.s_valid.value):
            self.order.remove(int(self.dut.s_index.value))
            self.order.append(int(self.dut.s_index.value))


@cocotb.test()
async def the_oldest_is_known_in_every_cycle(dut):
    b = Bench(dut)
    model = b.add(Model(dut))
    source = b.add(Source(dut.s_valid, None, [dut.s_index], 0.2))
    await b.start()
    for _ in range(3):
        source.items = [(random.randrange(ENTRIES),) for _ in range(500)]
        await b.until(lambda: not source.items)
        # Uses of the oldest only: all entries take turns.
        for _ in range(2 * ENTRIES):
            source.items = [(model.order[0],)]
            await b.until(lambda: not source.items)
            await b.run(1)
        await b.reset()
    assert model.checked > 1500
