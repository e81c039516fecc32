"""The host's operations on tables of pipelines whose entries are changed long after they are shown:
the host waits as long for the change of what it has asked for."""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

CAPACITY, VALUE, APART = (int(os.environ[name]) for name in ("CAPACITY", "VALUE", "APART"))
ARRAY = os.environ["TOP"] in ("nf_pipe_array", "nf_pipe_entries")
UPDATE, DELETE, PEEK = 1, 2, 5
INPUTS = "k_valid k_key w_write w_delete w_value h_req h_op h_key h_value h_index".split()


async def ask(dut, op, key, value=0):
    """Whether it was ok, and the value there."""
    dut.h_req.value, dut.h_op.value = 1, op
    dut.h_key.value, dut.h_value.value, dut.h_index.value = key, value, 0
    for _ in range(100 + 2 * APART):
        await FallingEdge(dut.clk)
        if int(dut.h_done.value):
            answer = int(dut.h_ok.value), int(dut.h_r_value.value)
            dut.h_req.value = 0
            await FallingEdge(dut.clk)
            return answer
    raise AssertionError(f"operation {op} is never done")


@cocotb.test()
async def what_the_host_writes_is_there(dut):
    for name in INPUTS + ["w_used"] * hasattr(dut, "w_used"):
        getattr(dut, name).value = 0
    dut.rst.value = 1
    Clock(dut.clk, 4, "ns").start()
    for _ in range(3):
        await FallingEdge(dut.clk)
    dut.rst.value = 0
    while not int(dut.ready.value):
        await FallingEdge(dut.clk)
    table = dict.fromkeys(range(CAPACITY), 0) if ARRAY else {}
    for _ in range(150):
        key, value = random.randrange(2 * CAPACITY), random.getrandbits(VALUE)
        op = random.choice([UPDATE, UPDATE, DELETE, PEEK, PEEK])
        ok, found = await ask(dut, op, key, value)
        # Rows of a hash table may be full before all of it is.
        assert ok == (key in table) or (op == UPDATE and not ARRAY), (op, key)
        if op == PEEK:
            assert not ok or found == table[key], key
        elif op == UPDATE and ok:
            table[key] = value
        elif op == DELETE and ARRAY:
            table.update({key: 0} if ok else {})
        elif op == DELETE:
            table.pop(key, None)
    assert len(table) > CAPACITY // 3
