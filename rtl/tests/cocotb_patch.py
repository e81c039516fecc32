"""nf_patch: lines of frames with bytes in the place of others, at any place, over one another and
across lines."""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly
from streams import share

COUNT, BYTES, LINES, SLOT, ADDRESS = (
    int(os.environ.get(name, 1)) for name in ("COUNT", "BYTES", "ROWS", "SW", "AW")
)


@cocotb.test()
async def lines_are_patched(dut):
    """A command after the other, its lines in any order, one each cycle; bytes come two cycles
    later."""
    Clock(dut.clk, 4, "ns").start()
    await FallingEdge(dut.clk)
    command, answers, changed = None, [], 0
    for step in range(share(4000)):
        dut.c_take.value = 0
        if command:
            slot, frame, patched = command
            line = random.randrange(LINES)
            dut.r_addr.value = slot * LINES + line
            answers.append((step + 2, frame[64 * line :][:64], patched[64 * line :][:64]))
        # The command that is taken now is the one whose lines are read from the next cycle on.
        if not command or random.random() < 0.4:
            slot, frame = random.randrange(1 << SLOT), random.randbytes(64 * LINES)
            patched, word = bytearray(frame), 0
            last = 0
            for at in range(COUNT):
                count = random.choice([0, BYTES, random.randrange(BYTES + 1)])
                near = min(64 * LINES - BYTES, max(0, last + random.randrange(-BYTES, BYTES)))
                last = place = random.choice([near, random.randrange(64 * LINES - BYTES + 1)])
                data = random.randbytes(BYTES)
                patched[place : place + count] = data[:count]
                one = count << 16 + 8 * BYTES | place << 8 * BYTES | int.from_bytes(data, "little")
                word |= one << (23 + 8 * BYTES) * at
            dut.c_take.value, dut.c_slot.value, dut.c_patch.value = 1, slot, word
            command = slot, frame, bytes(patched)
        # Bytes as they are in the buffer come two cycles later, and as they are now in the same
        # one.
        old, new = answers.pop(0)[1:] if answers and answers[0][0] == step else (bytes(64), None)
        dut.r_data.value = int.from_bytes(old, "little")
        await ReadOnly()
        if new is not None:
            assert int(dut.data.value) == int.from_bytes(new, "little"), step
            changed += old != new
        await FallingEdge(dut.clk)
    assert changed > share(300)
