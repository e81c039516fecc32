"""nf_string_lock as a pipe's gate: readers wait for those noted under the same key, and no others;
resets in flight."""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge
from streams import share

KEY, PORTS, SLOTS = (int(os.environ[name]) for name in ("KEY", "PORTS", "SLOTS"))


def meet(reader, writer):
    """All masks of hashes are ones."""
    parity = [[bin(key).count("1") % 2 for key in packet["keys"]] for packet in (reader, writer)]
    return any(
        reads and stores and parity[0][x] == parity[1][y]
        for x, reads in enumerate(reader["reads"])
        for y, stores in enumerate(writer["stores"])
    )


@cocotb.test()
async def readers_wait(dut):
    Clock(dut.clk, 4, "ns").start()
    waited = passed = 0
    for _ in range(3):
        dut.rst.value, dut.hold.value, dut.sent.value, dut.done.value = 1, 0, 0, 0
        dut.k_key.value = dut.k_reads.value = dut.k_stores.value = dut.slot.value = (
            dut.done_slot.value
        ) = 0
        for _ in range(3):
            await FallingEdge(dut.clk)
        dut.rst.value = 0
        # Packets in the two stages in front of the gate, and in it; by slot those that left it.
        stages, left, free = [None] * 3, {}, list(range(SLOTS))
        for step in range(share(3000)):
            if stages[0] is None and free and random.random() < 0.9:
                stages[0] = {
                    "keys": [random.randrange(1 << KEY) for _ in range(PORTS)],
                    "reads": [random.random() < 0.4 for _ in range(PORTS)],
                    "stores": [random.random() < 0.3 for _ in range(PORTS)],
                    "slot": free.pop(random.randrange(len(free))),
                }
            new = stages[0] or {"keys": [0] * PORTS, "reads": [1] * PORTS, "stores": [1] * PORTS}
            dut.k_key.value = sum(key << (KEY * port) for port, key in enumerate(new["keys"]))
            for field in ("reads", "stores"):
                getattr(dut, f"k_{field}").value = sum(
                    int(bit) << port for port, bit in enumerate(new[field])
                )
            here = stages[-1]
            wanted = here is not None and any(meet(here, other) for other in left.values())
            if here is not None:
                assert int(dut.waits.value) == wanted, step
                waited, passed = (
                    waited + wanted,
                    passed + (not wanted and any(here["reads"]) and bool(left)),
                )
                dut.slot.value = here["slot"]
            dut.hold.value, dut.sent.value = int(wanted), int(here is not None and not wanted)
            dut.done.value = 0
            # The deparser is quick, or has a stream that waits.
            if left and random.random() < (0.9 if step // 100 % 2 else 0.1):
                done = next(iter(left))
                left.pop(done)
                free.append(done)
                dut.done.value, dut.done_slot.value = 1, done
            if not wanted:
                if here is not None:
                    left[here["slot"]] = here
                stages = [None, *stages[:-1]]
            await FallingEdge(dut.clk)
    assert waited > share(100) and passed > share(100)
