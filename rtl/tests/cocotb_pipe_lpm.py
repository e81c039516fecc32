"""nf_pipe_lpm against a plain list of prefixes: changes by the host, a lookup every cycle between
them, nodes used again."""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge
from streams import share

KEY, VALUE, CAPACITY = (int(os.environ[name]) for name in ("KEY", "VALUE", "CAPACITY"))
CYCLES = KEY // 4 + 2
FIND, UPDATE, DELETE, PEEK, NEXT = 0, 1, 2, 5, 6


def top_bits(key, length):
    """The first bits of a key whose first byte is its lowest."""
    return int.from_bytes(key.to_bytes(KEY // 8, "little"), "big") >> (KEY - length)


def longest(table, key):
    for length in range(KEY, -1, -1):
        if (top_bits(key, length), length) in table:
            return table[top_bits(key, length), length]
    return None


async def host(dut, op, key=0, length=0, value=0, index=0):
    """Whether it was ok, and the value found; of `next` also the index, key and length."""
    dut.h_op.value, dut.h_key.value, dut.h_detail.value, dut.h_value.value, dut.h_index.value = (
        op,
        key,
        length,
        value,
        index,
    )
    dut.h_req.value = 1
    for _ in range(2000):
        await FallingEdge(dut.clk)
        if int(dut.h_done.value):
            ok = int(dut.h_ok.value)
            names = {NEXT: ("value", "index", "key", "detail"), UPDATE: (), DELETE: ()}.get(
                op, ("value",)
            )
            answer = [int(getattr(dut, f"h_r_{name}").value) for name in names] if ok else [None]
            dut.h_req.value = 0
            await FallingEdge(dut.clk)
            return ok, answer
    raise AssertionError(f"operation {op} is never done")


def some_key():
    """Keys that have much in common."""
    few = [
        random.choice([0x0A, 0x0A, 0xC0, 0x17]) if random.random() < 0.8 else random.getrandbits(8)
        for _ in range(KEY // 8)
    ]
    return int.from_bytes(bytes(few), "little")


@cocotb.test()
async def lookups_and_changes(dut):
    for name in ("k_valid", "k_key", "h_req", "h_op", "h_key", "h_value", "h_detail", "h_index"):
        getattr(dut, name).value = 0
    Clock(dut.clk, 4, "ns").start()
    refused = 0
    for table in ({}, {}):
        dut.rst.value = 1
        for _ in range(3):
            await FallingEdge(dut.clk)
        dut.rst.value = 0
        while not int(dut.ready.value):
            await FallingEdge(dut.clk)
        keys = {}  # of every prefix, a key that begins with it
        for step in range(share(260)):
            growing = step % 100 < 60
            op = random.choice([UPDATE] * 5 + [DELETE] if growing else [DELETE] * 4 + [UPDATE])
            if op == DELETE and table and random.random() < 0.9:
                name = random.choice(list(table))
                key, length = keys[name], name[1]
            else:
                key, length = (
                    some_key(),
                    random.choice(
                        [0, 1, 8, KEY, random.randrange(KEY + 1), random.randrange(KEY + 1)]
                    ),
                )
            name, value = (top_bits(key, length), length), random.getrandbits(VALUE)
            ok, answer = await host(dut, op, key, length, value)
            if op == UPDATE:
                assert ok == (name in table or len(table) < CAPACITY), step
                refused += not ok
                if ok:
                    table[name], keys[name] = value, key
            else:
                assert ok == (name in table), step
                table.pop(name, None)
            ok, answer = await host(dut, PEEK, key, length)
            assert ok == (name in table)
            assert not ok or answer[0] == table[name]
            way = [None] * CYCLES
            for ask in range(40 + CYCLES):
                key = (
                    random.choice(list(keys.values()))
                    if keys and random.random() < 0.5
                    else some_key()
                )
                dut.k_key.value = key
                way.append(key)
                if (before := way.pop(0)) is not None:
                    value = longest(table, before)
                    assert int(dut.c_hit.value) == (value is not None), (step, ask)
                    assert value is None or int(dut.c_value.value) == value, (step, ask)
                await FallingEdge(dut.clk)
        listed, index = {}, 0
        while True:
            ok, answer = await host(dut, NEXT, index=index)
            if not ok:
                break
            value, index, key, length = answer
            listed[top_bits(key, length), length] = value
            index += 1
        assert listed == table
        key = some_key()
        assert (await host(dut, FIND, key))[1] == [longest(table, key)]
    assert refused
