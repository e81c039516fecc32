"""nf_pipe_ternary against a plain list of rows: changes by the host, a lookup every cycle between
them, resets in flight."""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

KEY, VALUE, CAPACITY = (int(os.environ[name]) for name in ("KEY", "VALUE", "CAPACITY"))
CYCLES = 4 + (CAPACITY > 16) + (CAPACITY > 256)
UPDATE, DELETE, PEEK, NEXT = 1, 2, 5, 6


def first(rows, key):
    """The value of the first row of those with the highest priority that match."""
    found = [
        (priority, -at, value)
        for at, ((of, mask, priority), value) in enumerate(rows)
        if key & mask == of
    ]
    return max(found)[2] if found else None


async def reset(dut):
    dut.rst.value = 1
    for _ in range(3):
        await FallingEdge(dut.clk)
    dut.rst.value = 0
    await FallingEdge(dut.clk)


async def host(dut, op, row=(0, 0, 0), value=0, index=0, give_up=None):
    """Whether it was ok, and the value found; of `next` also the row. After `give_up` cycles a
    reset instead."""
    dut.h_op.value, dut.h_value.value, dut.h_index.value = op, value, index
    dut.h_key.value, dut.h_mask.value, dut.h_detail.value = row
    dut.h_req.value = 1
    for cycle in range(5 * CAPACITY + 20):
        await FallingEdge(dut.clk)
        if cycle == give_up:
            dut.h_req.value = 0
            await reset(dut)
            return None
        if int(dut.h_done.value):
            ok = int(dut.h_ok.value)
            names = {NEXT: ("value", "key", "mask", "detail", "index"), PEEK: ("value",)}.get(
                op, ()
            )
            answer = [int(getattr(dut, f"h_r_{name}").value) for name in names] if ok else [None]
            dut.h_req.value = 0
            await FallingEdge(dut.clk)
            return ok, answer
    raise AssertionError(f"operation {op} is never done")


def some_row():
    """Rows that have much in common."""
    mask = random.choice([0, 15, (1 << KEY) - 1, random.getrandbits(KEY)])
    return random.randrange(24) * 0x1111 % (1 << KEY) & mask, mask, random.randrange(4)


@cocotb.test()
async def lookups_and_changes(dut):
    for name in (
        "k_valid",
        "k_key",
        "h_req",
        "h_op",
        "h_key",
        "h_mask",
        "h_value",
        "h_detail",
        "h_index",
    ):
        getattr(dut, name).value = 0
    Clock(dut.clk, 4, "ns").start()
    await reset(dut)
    rows, refused, hits = [], 0, 0
    for step in range(400 if CAPACITY < 16 else 140):
        if step % 100 == 99:
            # Nothing is left of before, wherever an operation is.
            if (
                await host(dut, UPDATE, some_row(), give_up=random.randrange(2 * len(rows) + 5))
                is not None
            ):
                await reset(dut)
            rows = []
        growing = step % 50 < 35
        op = random.choice([UPDATE] * 5 + [DELETE] if growing else [DELETE] * 4 + [UPDATE])
        row = (
            random.choice(rows)[0]
            if rows and (op == DELETE or random.random() < 0.2)
            else some_row()
        )
        value, names = random.getrandbits(VALUE), [name for name, _ in rows]
        ok, _ = await host(dut, op, row, value)
        if op == DELETE:
            assert ok == (row in names), step
            rows = [one for one in rows if one[0] != row]
        else:
            assert ok == (row in names or len(rows) < CAPACITY), step
            refused += not ok
            if row in names:
                rows[names.index(row)] = (row, value)
            elif ok:
                rows.append((row, value))
        ok, answer = await host(dut, PEEK, row)
        assert answer == [dict(rows).get(row)], step
        way = [None] * CYCLES
        for ask in range(30 + CYCLES):
            key = (
                random.randrange(24) * 0x1111 % (1 << KEY)
                if random.random() < 0.7
                else random.getrandbits(KEY)
            )
            dut.k_key.value = key
            way.append(key)
            if (before := way.pop(0)) is not None:
                wanted = first(rows, before)
                hits += wanted is not None
                assert int(dut.c_hit.value) == (wanted is not None), (step, ask)
                assert int(dut.c_value.value) == (wanted or 0), (step, ask)
            await FallingEdge(dut.clk)
    listed = []
    while (answer := await host(dut, NEXT, index=len(listed)))[0]:
        value, *row, index = answer[1]
        assert index == len(listed)
        listed.append((tuple(row), value))
    assert sorted(listed) == sorted(rows)
    assert hits and (refused or CAPACITY > 16)
