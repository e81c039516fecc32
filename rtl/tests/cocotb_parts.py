"""Small parts of generated designs: nf_queue, nf_slots, nf_line_ram, nf_line_banks, nf_byte_store,
nf_divider."""

import os
import random
from collections import deque

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

TOP = os.environ["TOP"]
DEPTH, SLOTS, LINES = (int(os.environ.get(name, 1)) for name in ("DEPTH", "SLOTS", "ROWS"))


async def start(dut, silent):
    for name in silent:
        getattr(dut, name).value = 0
    Clock(dut.clk, 4, "ns").start()
    if hasattr(dut, "rst"):
        await reset(dut)


async def reset(dut):
    dut.rst.value = 1
    for _ in range(2):
        await FallingEdge(dut.clk)
    dut.rst.value = 0


@cocotb.test(skip=TOP != "nf_queue")
async def a_queue_keeps_order(dut):
    """Full, empty, one word in and out each cycle, and a reset with words inside; what finds no
    room is not taken."""
    await start(dut, ["put", "put_data", "take"])
    for _ in range(2):
        words, most, refused, taken = deque(), 0, 0, 0
        for step in range(1500):
            valid, room = int(dut.valid.value), int(dut.room.value)
            assert (valid, room) == (bool(words), len(words) < DEPTH), step
            if valid:
                assert int(dut.data.value) == words[0]
            # In turn more in than out, more out than in, both always.
            put, take = ((0.9, 0.3), (0.3, 0.9), (1, 1))[step // 100 % 3]
            put, take = random.random() < put, random.random() < take
            word = random.getrandbits(8)
            dut.put.value, dut.put_data.value, dut.take.value = int(put), word, int(take)
            refused += put and not room
            if take and valid:
                words.popleft()
                taken += 1
            if put and room:
                words.append(word)
            most = max(most, len(words))
            await FallingEdge(dut.clk)
        assert most == DEPTH and refused > 50 and taken > 500
        dut.put.value = dut.take.value = 0
        await reset(dut)


@cocotb.test(skip=TOP != "nf_slots")
async def slots_have_one_owner(dut):
    """No slot is given out twice; all are, and each can be had in the cycle after it came back."""
    await start(dut, ["f_take", "b_valid", "b_slot"])
    for _ in range(2):
        out, all_out = [], 0
        for step in range(1500):
            valid = int(dut.f_valid.value)
            assert valid == (len(out) < SLOTS), step
            take, give = ((0.9, 0.3), (0.2, 0.6), (1.0, 0.9))[step // 100 % 3]
            take, give = random.random() < take, out and random.random() < give
            back = out.pop(random.randrange(len(out))) if give else None
            dut.b_valid.value, dut.b_slot.value = int(bool(give)), back or 0
            dut.f_take.value = int(take)
            if take and valid:
                slot = int(dut.f_slot.value)
                assert slot not in [*out, back], f"slot {slot} has two owners"
                out.append(slot)
            all_out += len(out) == SLOTS
            await FallingEdge(dut.clk)
        assert all_out > 5
        dut.f_take.value = dut.b_valid.value = 0
        await reset(dut)


@cocotb.test(skip=TOP not in ("nf_line_ram", "nf_line_banks"))
async def lines_by_bytes(dut):
    """Bytes are written where they are kept; a read is there two cycles later, with the bytes
    before a write in its cycle."""
    await start(dut, ["w_en", "w_addr", "w_data", "w_keep", "r_en", "r_addr"])
    # The clock's first edge comes with the first values.
    await FallingEdge(dut.clk)
    memory = {}
    for at in range(LINES):
        memory[at] = bytearray(random.randbytes(64))
        dut.w_en.value, dut.w_addr.value, dut.w_keep.value = 1, at, (1 << 64) - 1
        dut.w_data.value = int.from_bytes(memory[at], "little")
        await FallingEdge(dut.clk)
    way = deque([None, None])
    for _ in range(1000):
        wanted = way.popleft()
        if wanted is not None:
            assert int(dut.r_data.value).to_bytes(64, "little") == wanted
        read, write = random.random() < 0.8, random.random() < 0.8
        at = random.randrange(LINES)
        dut.r_en.value, dut.r_addr.value = int(read), at
        way.append(bytes(memory[at]) if read else None)
        # Often the line that is read.
        to = random.choice([at, random.randrange(LINES)])
        keep = random.choice([random.getrandbits(64), (1 << 64) - 1, 0])
        data = random.randbytes(64)
        dut.w_en.value, dut.w_addr.value, dut.w_keep.value = int(write), to, keep
        dut.w_data.value = int.from_bytes(data, "little")
        if write:
            for byte in range(64):
                if keep >> byte & 1:
                    memory[to][byte] = data[byte]
        await FallingEdge(dut.clk)


@cocotb.test(skip=TOP != "nf_divider")
async def quotients_and_remainders(dut):
    await start(dut, ["req", "dividend", "divisor"])
    most = (1 << 64) - 1
    special = [0, 1, 2, 3, most, most - 1, 1 << 63, (1 << 63) - 1]
    cases = [(a, b) for a in special for b in special]
    cases += [
        (random.getrandbits(random.randint(1, 64)), random.getrandbits(random.randint(1, 64)))
        for _ in range(60)
    ]
    for number, (a, b) in enumerate(cases):
        dut.req.value, dut.dividend.value, dut.divisor.value = 1, a, b
        if number % 10 == 9:
            # In the middle of a division; the operands are still asked for afterwards.
            for _ in range(random.randint(1, 60)):
                await FallingEdge(dut.clk)
            await reset(dut)
        for cycle in range(1, 66):
            await FallingEdge(dut.clk)
            assert int(dut.done.value) == (cycle == 65)
        want = divmod(a, b) if b else (0, a)
        assert (int(dut.quotient.value), int(dut.remainder.value)) == want, f"{a} / {b}"
        dut.req.value = random.getrandbits(1) if number % 10 != 8 else 0
        await FallingEdge(dut.clk)
        assert not int(dut.done.value)


@cocotb.test(skip=TOP != "nf_byte_store")
async def the_host_waits_for_the_deparser(dut):
    """Lines written and read by both: the host while the deparser is idle, the deparser always."""
    await start(
        dut,
        [
            "busy",
            "r_en",
            "r_addr",
            "w_en",
            "w_addr",
            "w_data",
            "w_keep",
            "h_req",
            "h_write",
            "h_index",
            "h_value",
        ],
    )
    lines, host, answers, done = {}, None, [], 0
    for step in range(6000):
        # Quiet and busy times in turn.
        busy = random.random() < (0.9 if step // 40 % 2 else 0.0)
        dut.busy.value = int(busy)
        write, read = busy and random.random() < 0.6, busy and random.random() < 0.6
        # What is read in a cycle in which it is written is not asked for, nor the host's line by
        # the deparser.
        at, of = random.sample(
            [line for line in range(LINES) if host is None or line != host[1]], 2
        )
        keep = random.choice([(1 << 64) - 1, random.getrandbits(64)])
        line = random.getrandbits(512)
        dut.w_en.value, dut.w_addr.value, dut.w_data.value, dut.w_keep.value = (
            int(write),
            at,
            line,
            keep,
        )
        dut.r_en.value, dut.r_addr.value = int(read), of
        if write:
            mask = sum(255 << 8 * byte for byte in range(64) if keep >> byte & 1)
            if at in lines or keep == (1 << 64) - 1:
                lines[at] = lines.get(at, 0) & ~mask | line & mask
        if read:
            answers.append((step + 2, lines.get(of)))
        if host is None and random.random() < 0.1 and not write and not read:
            host = (random.getrandbits(1), random.randrange(LINES), random.getrandbits(512))
            dut.h_write.value, dut.h_index.value, dut.h_value.value = host
            dut.h_req.value = 1
        await FallingEdge(dut.clk)
        while answers and answers[0][0] == step + 1:
            expected = answers.pop(0)[1]
            assert expected is None or int(dut.r_data.value) == expected, step
        if host and int(dut.h_done.value):
            writes, index, value = host
            if writes:
                lines[index] = value
            elif index in lines:
                assert int(dut.h_r_value.value) == lines[index], step
            dut.h_req.value = 0
            host, done = None, done + 1
    assert done > 100
