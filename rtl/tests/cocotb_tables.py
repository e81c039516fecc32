"""Tables of generated designs against dictionaries: nf_table_array and nf_table_hash (engines), nf_pipe_hash (pipelines)."""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

TOP = os.environ["TOP"]
CAPACITY, KEY, VALUE = (int(os.environ[name]) for name in ("CAPACITY", "KEY", "VALUE"))
LRU = int(os.environ.get("LRU", 0))
FIND, UPDATE, DELETE, PEEK, NEXT = 0, 1, 2, 5, 6


async def start(dut, silent):
    for name in silent:
        getattr(dut, name).value = 0
    dut.rst.value = 1
    Clock(dut.clk, 4, "ns").start()
    for _ in range(3):
        await FallingEdge(dut.clk)
    dut.rst.value = 0
    await empty(dut)


async def empty(dut):
    for _ in range(4 * CAPACITY + 100):
        await FallingEdge(dut.clk)
        if int(dut.ready.value):
            return
    raise AssertionError("the table is never ready")


async def ask(dut, op, key=0, value=0, index=0):
    """One operation: whether it was ok, and the value it found; of `next` the index, key and value."""
    dut.req.value, dut.op.value, dut.key.value, dut.value.value, dut.index.value = 1, op, key, value, index
    for _ in range(400):
        await FallingEdge(dut.clk)
        if int(dut.done.value):
            ok = int(dut.ok.value)
            dut.req.value = 0
            answer = None
            if ok and op == NEXT:
                answer = int(dut.r_index.value), int(dut.r_key.value), int(dut.r_value.value)
            elif ok and op in (FIND, PEEK):
                answer = int(dut.r_value.value)
            await FallingEdge(dut.clk)
            return ok, answer
    raise AssertionError(f"operation {op} is never done")


@cocotb.test(skip=TOP == "nf_pipe_hash")
async def operations(dut):
    """Random operations on few keys: full, refused or evicted, deleted, listed, and empty again after a reset."""
    await start(dut, ["req", "op", "key", "value", "mask", "detail", "index"])
    array = TOP == "nf_table_array"
    table = dict.fromkeys(range(CAPACITY), 0) if array else {}  # in order of use
    refused = evicted = 0
    for step in range(900):
        key = random.randrange(CAPACITY if array else 2 * CAPACITY)
        op = random.choice([FIND, FIND, UPDATE, UPDATE, DELETE, PEEK] if step % 300 > 60 else [UPDATE])
        value = random.getrandbits(VALUE)
        ok, answer = await ask(dut, op, key, value)
        if op in (FIND, PEEK):
            assert ok == (key in table)
            assert not ok or answer == table[key]
            if ok and op == FIND and not array:
                table[key] = table.pop(key)
        elif op == UPDATE:
            room = key in table or len(table) < CAPACITY
            if not room and LRU:
                del table[next(iter(table))]
                evicted += 1
                room = True
            assert ok == room
            refused += not room
            if room:
                if not array:
                    table.pop(key, None)
                table[key] = value
        else:
            assert ok == (key in table)
            if array:
                table[key] = 0
            else:
                table.pop(key, None)
    assert (int(dut.n_refused.value), int(dut.n_evicted.value)) == (refused, evicted)
    assert array or refused or evicted
    listed, index = {}, 0
    while index < CAPACITY:
        ok, answer = await ask(dut, NEXT, index=index)
        if not ok:
            break
        listed[answer[1]] = answer[2]
        index = answer[0] + 1
    assert listed == table
    dut.rst.value = 1
    await FallingEdge(dut.clk)
    dut.rst.value = 0
    await empty(dut)
    ok, answer = await ask(dut, FIND, 1)
    assert not ok or array and answer == 0


@cocotb.test(skip=TOP != "nf_pipe_hash")
async def a_lookup_and_a_change_every_cycle(dut):
    """Each answer is compared in its fifth cycle, and the same cycle changes the entry: also of one key, every cycle."""
    await start(dut, ["k_valid", "k_key", "w_write", "w_delete", "w_value", "h_req", "h_op", "h_key", "h_value", "h_index"])
    table, way, hits, full = {}, [None] * 4, 0, 0
    for step in range(4000):
        # Few keys, one key only, more keys than places.
        spread = (4, 1, 3 * CAPACITY)[step // 100 % 3]
        key = random.randrange(spread) if random.random() < 0.9 else None
        dut.k_valid.value = int(key is not None)
        dut.k_key.value = key or 0
        await FallingEdge(dut.clk)
        way.append(key)
        key = way.pop(0)
        dut.w_write.value = dut.w_delete.value = 0
        if key is None:
            continue
        assert int(dut.c_hit.value) == (key in table), step
        hits += key in table
        if key in table:
            assert int(dut.c_value.value) == table[key], step
        room = int(dut.c_room.value)
        assert room or len(table) == CAPACITY or key not in table
        full += not room
        change = random.random()
        if change < 0.5 and (room or key in table):
            table[key] = random.getrandbits(VALUE)
            dut.w_write.value, dut.w_value.value = 1, table[key]
        elif change < 0.7:
            table.pop(key, None)
            dut.w_delete.value = 1
        assert len(table) <= CAPACITY
    assert hits > 1000 and full > 20
