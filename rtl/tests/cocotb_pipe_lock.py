"""nf_pipe_lock as a pipe's gate: who meets one that left shortly before waits, and nobody else;
resets in flight."""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

KEY, PORTS, APART, HASHED, R = (
    int(os.environ[name]) for name in ("KEY", "PORTS", "APART", "HASHED", "R")
)
SHARED = int(os.environ.get("SHARED", 0))


def meet(a, b):
    """Parts of an array are apart, unless all ports share it; all masks of hashes are ones.

    Keys that are not used are None, as are earlier packets' that are not changed."""

    def same(x, y):
        return x is not None and y is not None and (x ^ y) & ((1 << R) - 1) == 0

    if SHARED:
        return any(same(x, y) for x in a for y in b)
    if not HASHED:
        return any(same(x, y) for x, y in zip(a, b, strict=True))
    parity = [{bin(key).count("1") % 2 for key in keys if key is not None} for keys in (a, b)]
    return bool(parity[0] & parity[1])


@cocotb.test()
async def those_that_meet_wait(dut):
    Clock(dut.clk, 4, "ns").start()
    waited = together = 0
    for _ in range(3):
        dut.rst.value, dut.hold.value, dut.sent.value, dut.k_key.value, dut.k_used.value = (
            1,
            0,
            0,
            0,
            0,
        )
        dut.k_changed.value = 0
        for _ in range(3):
            await FallingEdge(dut.clk)
        dut.rst.value = 0
        # Packets in the stages in front of the gate, and in it; and those that left.
        stages, left = [None] * (HASHED + 2), [None] * APART
        for _ in range(1500):
            spread = random.choice([4, 1 << KEY])
            if stages[0] is None and random.random() < 0.9:
                keys = [
                    random.choice([None, *[random.randrange(spread)] * 3]) for _ in range(PORTS)
                ]
                stages[0] = keys, [random.choice([None, key, key]) for key in keys]
            keys, changed = stages[0] or ([None] * PORTS, [None] * PORTS)
            others = [random.randrange(1 << KEY) if key is None else key for key in keys]
            dut.k_key.value = sum(key << (KEY * port) for port, key in enumerate(others))
            dut.k_used.value = sum((key is not None) << port for port, key in enumerate(keys))
            dut.k_changed.value = sum((key is not None) << port for port, key in enumerate(changed))
            wanted = stages[-1] is not None and any(
                other and meet(stages[-1][0], other[1]) for other in left
            )
            if stages[-1] is not None:
                assert int(dut.waits.value) == wanted
                waited, together = waited + wanted, together + (not wanted and left[-1] is not None)
            sent = stages[-1] is not None and not wanted
            dut.hold.value, dut.sent.value = int(wanted), int(sent)
            left = [*left[1:], stages[-1] if sent else None]
            if not wanted:
                stages = [None, *stages[:-1]]
            await FallingEdge(dut.clk)
    assert waited > 100 and together > 100
