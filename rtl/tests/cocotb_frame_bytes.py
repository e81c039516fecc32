"""nf_frame_bytes: bytes of frames from any place on, asked for as soon as a frame is there, and
later."""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

SLOTS, LINES, BYTES = (int(os.environ.get(name, 1)) for name in ("SLOTS", "ROWS", "BYTES"))
LATENCY = 5


@cocotb.test()
async def any_bytes_may_be_asked_for(dut):
    """Frames written with gaps and without, a question each cycle: about the newest frame at once,
    and about older ones."""
    Clock(dut.clk, 4, "ns").start()
    await FallingEdge(dut.clk)
    dut.w_en.value, dut.w_keep.value = 0, (1 << 64) - 1
    frames, lines, answers, new, asked_last = {}, [], [], None, 0
    for step in range(4000):
        # What was written in the last cycle may be asked about.
        if frames:
            slot = new if new is not None else random.choice(list(frames))
            last = len(frames[slot]) - BYTES
            if last >= 0:
                to = random.choice(
                    [
                        0,
                        last,
                        random.randrange(last + 1),
                        last // 64 * 64,
                        max(0, last // 64 * 64 - 1),
                    ]
                )
                dut.slot.value, dut.to.value = slot, to
                answers.append((step + LATENCY, frames[slot][to : to + BYTES], slot, to))
                asked_last = step
        new = None
        dut.w_en.value = 0
        if not lines and random.random() < 0.7:
            busy = [answer[2] for answer in answers]
            free = [other for other in range(SLOTS) if other not in busy]
            if free:
                at = random.choice(free)
                frames.pop(at, None)
                whole = random.randbytes(random.randrange(1, 64 * LINES + 1))
                lines = [whole[start : start + 64] for start in range(0, len(whole), 64)]
                count = len(lines)
        if lines and random.random() < (0.4 if step // 500 % 2 else 1.0):
            dut.w_addr.value = at * LINES + count - len(lines)
            line = lines.pop(0)
            dut.w_en.value = 1
            # Bytes behind the frame are anything.
            dut.w_data.value = int.from_bytes(line + random.randbytes(64 - len(line)), "little")
            if not lines:
                frames[at], new = whole, at
        await FallingEdge(dut.clk)
        while answers and answers[0][0] <= step + 1:
            _, expected, of, to = answers.pop(0)
            assert int(dut.bytes.value) == int.from_bytes(expected, "little"), (step, of, to)
    assert asked_last > 3900
