"""nf_access: reads, writes, sums and copies at any place of lines, with ports that others use."""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

BYTES, ADDRESS = int(os.environ["BYTES"]), int(os.environ["AW"])
READ, WRITE, SUM, COPY = range(4)
MEMORIES, LINES = 2, 1 << ADDRESS


class Memories:
    """Lines that answer after two cycles, with something else when nothing was read."""

    def __init__(self, dut):
        self.dut, self.stall = dut, 0.0
        self.bytes = [bytearray(random.randbytes(64 * LINES)) for _ in range(MEMORIES)]
        self.next, self.stalled = 0, (0, 0)

    async def run(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            if not dut.r_en.value.is_resolvable:
                # Before the first reset.
                continue
            read_stall, write_stall = self.stalled
            dut.r_data.value = self.next
            self.next = random.getrandbits(512)
            if int(dut.r_en.value) and not read_stall:
                at = 64 * int(dut.r_addr.value)
                self.next = int.from_bytes(self.bytes[int(dut.r_mem.value)][at : at + 64], "little")
            if int(dut.w_en.value) and not write_stall:
                memory, at = self.bytes[int(dut.w_mem.value)], 64 * int(dut.w_addr.value)
                data, keep = int(dut.w_data.value).to_bytes(64, "little"), int(dut.w_keep.value)
                for byte in range(64):
                    if keep >> byte & 1:
                        memory[at + byte] = data[byte]
            self.stalled = tuple(int(random.random() < self.stall) for _ in range(2))
            dut.r_stall.value, dut.w_stall.value = self.stalled


async def start(dut):
    for name in "req op mem line from length w_value sum to_mem to_line to r_stall w_stall".split():
        getattr(dut, name).value = 0
    Clock(dut.clk, 4, "ns").start()
    memories = Memories(dut)
    cocotb.start_soon(memories.run())
    await reset(dut)
    return memories


async def reset(dut):
    dut.rst.value = 1
    for _ in range(2):
        await RisingEdge(dut.clk)
    dut.rst.value = 0


def place(length):
    """A line and a byte behind it, from where so many bytes are inside the memory."""
    start = random.randrange(64 * LINES - length - 64)
    line = random.randint(max(0, start // 64 - 3), start // 64)
    return line, start - 64 * line


def ask(dut, op, length):
    """Puts a request on the wires; gives what is to come of it."""
    line, at = place(length)
    to_line, to = place(length)
    request = {
        **{"op": op, "mem": random.randrange(MEMORIES), "line": line, "from": at, "length": length},
        **{
            "w_value": random.getrandbits(8 * BYTES),
            "sum": random.getrandbits(random.choice([16, 32])),
        },
        **{"to_mem": random.randrange(MEMORIES), "to_line": to_line, "to": to},
    }
    for name, value in request.items():
        getattr(dut, name).value = value
    dut.req.value = 1
    return request


async def done(dut):
    for cycle in range(4000):
        await RisingEdge(dut.clk)
        if int(dut.done.value):
            return cycle
    raise AssertionError("never done")


def apply(request, memories):
    """What the request does to the memories; the value it reads, or the sum."""
    start, length = 64 * request["line"] + request["from"], request["length"]
    found = bytes(memories[request["mem"]][start : start + length])
    if request["op"] == WRITE:
        value = request["w_value"].to_bytes(BYTES, "little")
        memories[request["mem"]][start : start + length] = value[:length]
    elif request["op"] == COPY:
        to = 64 * request["to_line"] + request["to"]
        memories[request["to_mem"]][to : to + length] = found
    elif request["op"] == SUM:
        total = request["sum"] + sum(
            (found + b"\0")[at] << 8 | (found + b"\0")[at + 1] for at in range(0, length, 2)
        )
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        return total
    return int.from_bytes(found, "little")


@cocotb.test()
async def operations(dut):
    memories = await start(dut)
    for step in range(250):
        memories.stall = (0.0, 0.4, 0.8)[step % 3]
        op = random.randrange(4)
        longest = BYTES if op in (READ, WRITE) else 300
        length = random.choice([0, 1, 63, 64, 65, random.randint(1, longest)])
        request = ask(dut, op, min(length, longest))
        if op == COPY and request["mem"] == request["to_mem"]:
            # Overlapping bytes have no order.
            request["to_mem"] = dut.to_mem.value = 1 - request["mem"]
        before = [bytearray(memory) for memory in memories.bytes]
        cycles = await done(dut)
        answer = {READ: dut.r_value, SUM: dut.r_sum}.get(op)
        want = apply(request, before)
        if answer is not None:
            assert int(answer.value) == want, request
        pieces = (request["length"] + 63) // 64
        if memories.stall == 0.0:
            assert cycles <= pieces * (6, 3, 6, 9)[op] + 2, (
                f"{cycles} cycles for {pieces} pieces of operation {op}"
            )
        assert memories.bytes == before, request
        dut.req.value = 0
        if step % 2:
            await RisingEdge(dut.clk)


@cocotb.test()
async def reset_in_flight(dut):
    memories = await start(dut)
    for cycles in range(1, 12):
        ask(dut, random.randrange(4), 128)
        for _ in range(cycles):
            await RisingEdge(dut.clk)
        dut.req.value = 0
        await reset(dut)
        request = ask(dut, READ, BYTES)
        await done(dut)
        assert int(dut.r_value.value) == apply(request, memories.bytes)
        dut.req.value = 0
        await RisingEdge(dut.clk)
