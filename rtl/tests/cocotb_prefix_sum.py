"""nf_prefix_sum and nf_line_sum: sums of frames as they are written, asked for at once and later,
at any place."""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

TOP = os.environ["TOP"]
SLOTS, LINES, START = (int(os.environ.get(name, 1)) for name in ("SLOTS", "ROWS", "START"))
LATENCY = 7


def sums(frame, start, to):
    """Bytes at even and at odd places from `start` on and before `to`."""
    places = range(start, max(start, to))
    return tuple(sum(frame[at] for at in places if at % 2 == odd) for odd in (0, 1))


def some_bytes(count):
    """Random ones, all ones, or zeros, so that sums reach their ends."""
    kind = random.random()
    return (
        bytes(count) if kind < 0.1 else b"\xff" * count if kind < 0.3 else random.randbytes(count)
    )


@cocotb.test(skip=TOP != "nf_line_sum")
async def a_line_is_added_up(dut):
    """A line each cycle, with any bytes of it."""
    Clock(dut.clk, 4, "ns").start()
    await FallingEdge(dut.clk)
    expected = []
    for step in range(500):
        line, keep = some_bytes(64), random.choice([random.getrandbits(64), (1 << 64) - 1, 0])
        dut.data.value, dut.keep.value = int.from_bytes(line, "little"), keep
        kept = bytes(byte if keep >> at & 1 else 0 for at, byte in enumerate(line))
        expected.append(sums(kept, 0, 64))
        await FallingEdge(dut.clk)
        if step >= 2:
            assert (int(dut.even.value), int(dut.odd.value)) == expected[step - 2], step


@cocotb.test(skip=TOP != "nf_prefix_sum")
async def any_place_may_be_asked_for(dut):
    """Frames written with gaps and without, a question each cycle: about the newest frame at once,
    and about older ones."""
    Clock(dut.clk, 4, "ns").start()
    await FallingEdge(dut.clk)
    dut.w_en.value = 0
    frames, lines, answers, slot, new = {}, [], [], 0, 0
    for step in range(4000):
        # What was written in the last cycle may be asked about.
        if frames and (slot_of := random.choice(list(frames))) is not None:
            asked = slot if new and slot in frames else slot_of
            frame = frames[asked]
            to = random.choice(
                [0, len(frame), random.randrange(len(frame) + 1), len(frame) // 64 * 64]
            )
            dut.slot.value, dut.to.value = asked, to
            answers.append((step + LATENCY, sums(frame, START, to), asked, to))
        new = 0
        dut.w_en.value = 0
        if not lines and random.random() < 0.7:
            slot = random.choice(
                [other for other in range(SLOTS) if other not in [a[2] for a in answers]] or [None]
            )
            if slot is not None:
                frames.pop(slot, None)
                whole = some_bytes(random.randrange(1, 64 * LINES + 1))
                lines = [whole[at : at + 64] for at in range(0, len(whole), 64)]
                first = True
        if lines and random.random() < (0.4 if step // 500 % 2 else 1.0):
            line = lines.pop(0)
            dut.w_en.value, dut.w_first.value = 1, int(first)
            dut.w_addr.value = slot * LINES + (len(whole) + 63) // 64 - len(lines) - 1
            # Bytes behind the frame are anything.
            dut.w_data.value = int.from_bytes(line + random.randbytes(64 - len(line)), "little")
            first = False
            if not lines:
                frames[slot], new = whole, 1
        await FallingEdge(dut.clk)
        while answers and answers[0][0] <= step + 1:
            _, expected, asked, to = answers.pop(0)
            assert (int(dut.even.value), int(dut.odd.value)) == expected, (step, asked, to)
