"""nf_pipe_entries against a list: every port changes an entry each cycle, also the same one; and
the host's operations."""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge
from streams import share

CAPACITY, KEY, VALUE, PORTS, APART, WRITTEN = (
    int(os.environ[name]) for name in ("CAPACITY", "KEY", "VALUE", "PORTS", "APART", "WRITTEN")
)
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


async def start(dut):
    for name in INPUTS:
        getattr(dut, name).value = 0
    Clock(dut.clk, 4, "ns").start()
    await reset(dut)


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
            found = tuple(
                int(getattr(dut, f"h_r_{name}").value) for name in ("index", "key", "value")
            )
            return int(dut.h_ok.value), found
    raise AssertionError(f"operation {op} of the host is never done")


class Pipe:
    """Lookups on their way, and those that were shown and are changed later."""

    def __init__(self, dut):
        self.dut, self.table = dut, [0] * CAPACITY
        self.way, self.later, self.before = [None] * 2, [None] * APART, [set()] * APART
        self.changes = self.beside = 0

    async def cycle(self, keys):
        dut, taken = self.dut, set().union(*self.before)
        if keys is not None and taken & set(keys):
            keys = None
        self.beside += keys is not None and bool(taken)
        self.before = [*self.before[1:], set(keys or [])][:APART] if APART else []
        dut.k_valid.value, dut.k_key.value = int(keys is not None), side_by_side(keys or [], KEY)
        await FallingEdge(dut.clk)
        self.way.append(keys)
        shown = self.way.pop(0)
        for port, key in enumerate(shown or []):
            assert int(dut.c_hit.value) >> port & 1 == (key < CAPACITY)
            if key < CAPACITY:
                assert int(dut.c_value.value) >> VALUE * port & (1 << VALUE) - 1 == self.table[key]
        self.later.append(shown)
        keys = self.later.pop(0)
        writes, deletes, values, changed = 0, 0, [0] * PORTS, set()
        for port, key in enumerate(keys or []):
            dice = random.random()
            if not WRITTEN >> port & 1 or key in changed or dice > 0.8:
                continue
            changed.add(key)
            values[port] = random.getrandbits(VALUE)
            if dice < 0.6:
                writes |= 1 << port
            else:
                deletes |= 1 << port
            if key < CAPACITY:
                self.table[key] = values[port] if dice < 0.6 else 0
                self.changes += 1
        dut.w_write.value, dut.w_delete.value, dut.w_value.value = (
            writes,
            deletes,
            side_by_side(values, VALUE),
        )


def any_keys(spread):
    return [random.randrange(min(spread, 1 << KEY)) for _ in range(PORTS)]


@cocotb.test()
async def every_port_every_cycle(dut):
    """Few keys and many, and a reset with lookups on their way."""
    await start(dut)
    for _ in range(2):
        pipe = Pipe(dut)
        for step in range(share(2000)):
            spread = (2, 5, CAPACITY + 3)[step // 50 % 3]
            await pipe.cycle(any_keys(spread) if random.random() < 0.9 else None)
        assert pipe.changes > share(500) and (APART == 0 or pipe.beside > share(100))
        dut.w_write.value = dut.w_delete.value = 0
        await reset(dut)


@cocotb.test()
async def the_hosts_operations(dut):
    """Between packets: entries set, deleted, looked up and listed."""
    await start(dut)
    pipe = Pipe(dut)
    for step in range(200):
        if step % 20 == 0:
            for _ in range(30):
                await pipe.cycle(any_keys(CAPACITY + 3))
            for _ in range(4 + APART):
                await pipe.cycle(None)
        key, value = random.randrange(CAPACITY + 3), random.getrandbits(VALUE)
        op = random.choice([UPDATE, UPDATE, DELETE, PEEK] + [WRITE] * (KEPT > 0))
        ok, found = await ask(dut, op, 0 if op == WRITE else key, value, key if op == WRITE else 0)
        assert ok == (key < CAPACITY)
        assert not (ok and KEPT) or found[0] == key
        if ok and op == PEEK:
            assert found[2] == pipe.table[key]
        elif ok:
            pipe.table[key] = {
                UPDATE: value & ~STAY | pipe.table[key] & STAY,
                WRITE: value,
                DELETE: 0,
            }[op]
    listed, index = [], 0
    while (answer := await ask(dut, NEXT, index=index))[0]:
        index, key, value = answer[1]
        assert index == key == len(listed)
        listed.append(value)
        index += 1
    assert listed == pipe.table
