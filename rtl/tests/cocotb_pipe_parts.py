"""nf_pipe_parts against a list: a lookup and a change in each part and cycle, and the host's
operations over all of them."""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge

CAPACITY, KEY, VALUE, PARTS = (
    int(os.environ[name]) for name in ("CAPACITY", "KEY", "VALUE", "PARTS")
)
# The module's own: two parts, the second one from number 8 on. Keys beyond the table are the
# second's.
RANGES = [range(8), range(8, min(CAPACITY + 3, 1 << KEY))]
INPUTS = [
    "k_valid",
    "k_key",
    "w_write",
    "w_delete",
    "w_value",
    "h_req",
    "h_op",
    "h_key",
    "h_value",
    "h_index",
]
UPDATE, DELETE, WRITE, PEEK, NEXT = 1, 2, 4, 5, 6
# Upper bits of values that an update of the host leaves as they are.
KEPT = int(os.environ.get("KEPT", 0))
STAY = ((1 << KEPT) - 1) << VALUE - KEPT


def side_by_side(values, width):
    return sum(value << width * at for at, value in enumerate(values))


async def start(dut):
    for name in INPUTS:
        getattr(dut, name).value = 0
    Clock(dut.clk, 4, "ns").start()
    await reset(dut)


async def reset(dut):
    dut.rst.value = 1
    for _ in range(3):
        await FallingEdge(dut.clk)
    dut.rst.value = 0
    for _ in range(4 * CAPACITY):
        await FallingEdge(dut.clk)
        if int(dut.ready.value):
            return
    raise AssertionError("the table is never ready")


async def ask(dut, op, key=0, value=0, index=0):
    for name, one in {"req": 1, "op": op, "key": key, "value": value, "index": index}.items():
        getattr(dut, f"h_{name}").value = one
    for _ in range(40):
        await FallingEdge(dut.clk)
        if int(dut.h_done.value):
            await RisingEdge(dut.clk)
            dut.h_req.value = 0
            for _ in range(3):
                await FallingEdge(dut.clk)
            # What was found stays.
            found = tuple(
                int(getattr(dut, f"h_r_{name}").value) for name in ("index", "key", "value")
            )
            return int(dut.h_ok.value), found
    raise AssertionError(f"operation {op} of the host is never done")


async def cycle(dut, table, way, keys):
    """Gives a key of each part, or none; compares what comes out, and changes some of it."""
    dut.k_valid.value, dut.k_key.value = int(keys is not None), side_by_side(keys or [], KEY)
    await FallingEdge(dut.clk)
    way.append(keys)
    keys = way.pop(0)
    writes, deletes, values = 0, 0, [0] * PARTS
    for part, key in enumerate(keys or []):
        hit = int(dut.c_hit.value) >> part & 1
        assert hit == (key < CAPACITY)
        if not hit:
            continue
        assert int(dut.c_value.value) >> VALUE * part & (1 << VALUE) - 1 == table[key]
        change = random.random()
        if change < 0.5:
            table[key] = values[part] = random.getrandbits(VALUE)
            writes |= 1 << part
        elif change < 0.7:
            table[key] = 0
            deletes |= 1 << part
    dut.w_write.value, dut.w_delete.value, dut.w_value.value = (
        writes,
        deletes,
        side_by_side(values, VALUE),
    )


@cocotb.test()
async def every_part_every_cycle(dut):
    """Few keys and many, and a reset with lookups on their way."""
    await start(dut)
    for _ in range(2):
        table, way = [0] * CAPACITY, [None] * 2
        for step in range(1500):
            spread = (1, 3, 32)[step // 100 % 3]
            keys = [random.choice(part[:spread]) for part in RANGES]
            await cycle(dut, table, way, keys if random.random() < 0.9 else None)
        dut.w_write.value = dut.w_delete.value = 0
        await reset(dut)


@cocotb.test()
async def the_hosts_operations(dut):
    """Between packets: entries of all parts set, deleted, looked up and listed."""
    await start(dut)
    table, way = [0] * CAPACITY, [None] * 2
    for step in range(200):
        if step % 20 == 0:
            for _ in range(20):
                await cycle(dut, table, way, [random.choice(part) for part in RANGES])
            for _ in range(4):
                await cycle(dut, table, way, None)
        key, value = random.randrange(CAPACITY + 3), random.getrandbits(VALUE)
        op = random.choice([UPDATE, UPDATE, DELETE, PEEK] + [WRITE] * (KEPT > 0))
        ok, found = await ask(dut, op, 0 if op == WRITE else key, value, key if op == WRITE else 0)
        assert ok == (key < CAPACITY)
        if not ok:
            continue
        assert found[0] == key
        if op == PEEK:
            assert found[2] == table[key]
        else:
            table[key] = {UPDATE: value & ~STAY | table[key] & STAY, WRITE: value, DELETE: 0}[op]
    listed, index = [], 0
    while (answer := await ask(dut, NEXT, index=index))[0]:
        index, key, value = answer[1]
        assert index == key == len(listed)
        listed.append(value)
        index += 1
    assert listed == table
