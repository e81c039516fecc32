"""nf_pipe_hash and nf_pipe_array whose entries are changed some cycles after they are shown, with
others shown meanwhile."""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge

TOP = os.environ["TOP"]
KEY, VALUE, CAPACITY, APART = (
    int(os.environ[name]) for name in ("KEY", "VALUE", "CAPACITY", "APART")
)
PORTS, LRU = (int(os.environ.get(name, default)) for name, default in (("PORTS", 1), ("LRU", 0)))
ARRAY = TOP == "nf_pipe_array"
LATENCY = 3 if ARRAY else 5


def row(key):
    """What two lookups must not have in common: an entry, or a row (all masks are ones)."""
    return key if ARRAY else bin(key).count("1") % 2


@cocotb.test()
async def lookups_between_an_entry_and_its_change(dut):
    for name in (
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
    ):
        getattr(dut, name).value = 0
    if not ARRAY:
        dut.w_used.value = 0
    dut.rst.value = 1
    Clock(dut.clk, 4, "ns").start()
    for _ in range(3):
        await FallingEdge(dut.clk)
    dut.rst.value = 0
    while not int(dut.ready.value):
        await FallingEdge(dut.clk)
    table = dict.fromkeys(range(CAPACITY), 0) if ARRAY else {}
    places, way, later, before = {}, [None] * LATENCY, [None] * APART, [set()] * APART
    new, hits, full, beside = [0] * APART, 0, 0, 0
    for step in range(6000):
        spread = CAPACITY if ARRAY else (4, 3 * CAPACITY)[step // 200 % 2]
        keys = [random.randrange(spread) for _ in range(PORTS)]
        taken = set().union(*before)
        if random.random() < 0.1 or any(row(key) in taken for key in keys):
            keys = None
        beside += keys is not None and bool(taken)
        before = [*before[1:], set(map(row, keys or []))]
        dut.k_valid.value = int(keys is not None)
        dut.k_key.value = sum(key << (KEY * port) for port, key in enumerate(keys or []))
        way.append(keys)
        shown = way.pop(0)
        change = None
        if shown is not None:
            room = int(dut.c_room.value)
            for port, key in enumerate(shown):
                assert int(dut.c_hit.value) >> port & 1 == (key in table), (step, port)
                hits += key in table
                value = int(dut.c_value.value) >> (VALUE * port) & ((1 << VALUE) - 1)
                assert value == table.get(key, 0), (step, port)
                # Those on their way that were not there may be put into the last places.
                coming = sum(new)
                assert room >> port & 1 or (
                    len(table) + coming >= CAPACITY and key not in table and not LRU
                ), step
            port = random.randrange(PORTS)
            key, dice = shown[port], random.random()
            full += not room >> port & 1
            place = None if ARRAY else int(dut.c_place.value) >> (32 * port) & 0xFFFFFFFF
            if dice < 0.6 and room >> port & 1:
                change = (port, key, random.getrandbits(VALUE), place)
            elif dice < 0.75:
                change = (port, key, None, place)
        new = [*new[1:], shown is not None and any(key not in table for key in shown)]
        later.append(change)
        change = later.pop(0)
        dut.w_write.value = dut.w_delete.value = 0
        if change is not None:
            port, key, value, place = change
            if value is not None:
                dut.w_write.value, dut.w_value.value = 1 << port, value
                # What is put where another one is takes its place.
                for gone in [
                    one for one, at in places.items() if not ARRAY and at == place and one != key
                ]:
                    assert LRU and key not in table, step
                    del table[gone], places[gone]
                assert ARRAY or places.get(key, place) == place, step
                table[key], places[key] = value, place
            else:
                dut.w_delete.value = 1 << port
                if ARRAY:
                    table[key] = 0
                else:
                    table.pop(key, None)
                    places.pop(key, None)
        assert LRU or len(table) <= CAPACITY
        await FallingEdge(dut.clk)
    assert hits > 1000 and beside > 300 and (ARRAY or LRU or full > 20)
