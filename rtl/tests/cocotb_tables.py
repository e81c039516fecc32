"""Tables of generated designs against dictionaries: nf_table_array, nf_table_hash (engines),
nf_pipe_array, nf_pipe_hash."""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge

TOP = os.environ["TOP"]
CAPACITY, KEY, VALUE = (int(os.environ[name]) for name in ("CAPACITY", "KEY", "VALUE"))
LRU, KEPT = (int(os.environ.get(name, 0)) for name in ("LRU", "KEPT"))
FIND, UPDATE, DELETE, WRITE, PEEK, NEXT = 0, 1, 2, 4, 5, 6
# Of a value, bits that an update of the host leaves as they are, where there are such.
STAY = ((1 << KEPT) - 1) << VALUE - KEPT


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
    """One operation: whether it was ok, and the value it found; of `next` the index, key and
    value."""
    dut.req.value, dut.op.value, dut.key.value, dut.value.value, dut.index.value = (
        1,
        op,
        key,
        value,
        index,
    )
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


@cocotb.test(skip=TOP.startswith("nf_pipe"))
async def operations(dut):
    """Random operations on few keys: full, refused or evicted, deleted, listed, and empty again
    after a reset."""
    await start(dut, ["req", "op", "key", "value", "mask", "detail", "index"])
    array = TOP == "nf_table_array"
    table = dict.fromkeys(range(CAPACITY), 0) if array else {}  # in order of use
    refused = evicted = 0
    for step in range(900):
        key = random.randrange(CAPACITY if array else 2 * CAPACITY)
        op = random.choice(
            [FIND, FIND, UPDATE, UPDATE, DELETE, PEEK] if step % 300 > 60 else [UPDATE]
        )
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


# Cycles from a lookup to its answer, in pipelines.
PIPES = {"nf_pipe_array": 3, "nf_pipe_hash": 5}


class Pipe:
    """A table of a pipeline and what should be in it: an answer is compared in its cycle, in which
    the entry may change."""

    def __init__(self, dut):
        self.dut, self.array = dut, TOP == "nf_pipe_array"
        self.empty()

    def empty(self):
        self.table = dict.fromkeys(range(CAPACITY), 0) if self.array else {}
        self.way, self.hits, self.full = [None] * (PIPES[TOP] - 1), 0, 0

    async def cycle(self, key):
        """Asks for a key, or nothing; looks at the answer that comes out."""
        dut, table = self.dut, self.table
        dut.k_valid.value, dut.k_key.value = int(key is not None), key or 0
        await FallingEdge(dut.clk)
        self.way.append(key)
        key = self.way.pop(0)
        dut.w_write.value = dut.w_delete.value = 0
        if key is None:
            return
        hit, room = int(dut.c_hit.value), int(dut.c_room.value)
        assert hit == (key in table)
        assert not hit or int(dut.c_value.value) == table[key]
        self.hits += hit
        assert room or key not in table
        self.full += not room
        change = random.random()
        if change < 0.5 and (room or hit):
            table[key] = random.getrandbits(VALUE)
            dut.w_write.value, dut.w_value.value = 1, table[key]
        elif change < 0.7:
            dut.w_delete.value = 1
            if self.array and key in table:
                table[key] = 0
            else:
                table.pop(key, None)
        assert len(table) <= CAPACITY

    async def idle(self):
        for _ in range(8):
            await self.cycle(None)

    async def ask(self, op, key=0, value=0, index=0):
        """An operation of the host: whether it was done, and index, key and value."""
        dut = self.dut
        for name, one in {"req": 1, "op": op, "key": key, "value": value, "index": index}.items():
            getattr(dut, f"h_{name}").value = one
        for _ in range(400):
            await FallingEdge(dut.clk)
            if int(dut.h_done.value):
                ok = int(dut.h_ok.value)
                found = tuple(
                    getattr(dut, f"h_r_{name}").value for name in ("index", "key", "value")
                )
                await RisingEdge(dut.clk)
                dut.h_req.value = 0
                await FallingEdge(dut.clk)
                return ok, found
        raise AssertionError(f"operation {op} of the host is never done")


async def pipe(dut):
    silent = [
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
    await start(dut, silent + ["w_used"] * (TOP == "nf_pipe_hash"))
    return Pipe(dut)


@cocotb.test(skip=TOP not in PIPES)
async def a_lookup_and_a_change_every_cycle(dut):
    """Also of one key, every cycle; with more keys than places, and in the meantime a reset."""
    table = await pipe(dut)
    stashed = 0
    for _ in range(2):
        for step in range(3000):
            # Few keys, one key only, more keys than places.
            spread = (4, 1, 3 * CAPACITY)[step // 100 % 3]
            await table.cycle(
                random.randrange(min(spread, 1 << KEY)) if random.random() < 0.9 else None
            )
            stashed += not table.array and int(dut.stash_used.value) > 0
        assert table.hits > 700 and (table.array or table.full > 20 and stashed)
        # With lookups and changes on their way.
        dut.rst.value = 1
        await table.cycle(1)
        await table.cycle(None)
        dut.rst.value = dut.w_write.value = dut.w_delete.value = 0
        await empty(dut)
        table.empty()


@cocotb.test(skip=TOP not in PIPES)
async def the_hosts_operations(dut):
    """Between packets: entries set, deleted, looked up and listed, up to full."""
    table = await pipe(dut)
    refused = 0
    for step in range(400):
        if step % 20 == 0:
            for _ in range(30):
                await table.cycle(random.randrange(CAPACITY))
            await table.idle()
        key, value = random.randrange(min(2 * CAPACITY, 1 << KEY)), random.getrandbits(VALUE)
        op = random.choice([UPDATE, UPDATE, DELETE, PEEK] + [WRITE] * (KEPT > 0))
        ok, found = await table.ask(op, 0 if op == WRITE else key, value, key if op == WRITE else 0)
        there = key in table.table
        assert not (ok and table.array and KEPT) or int(found[0]) == key
        if op == UPDATE:
            assert ok or not there
            refused += not ok
            if ok:
                table.table[key] = value & ~STAY | table.table.get(key, 0) & STAY
        elif op == WRITE:
            assert ok == there
            if ok:
                table.table[key] = value
        else:
            assert ok == there
            if op == PEEK:
                assert not ok or int(found[2]) == table.table[key]
            elif there:
                table.table[key] = 0
                if not table.array:
                    del table.table[key]
        assert len(table.table) <= CAPACITY
    assert refused > 5
    listed, index = {}, 0
    while (answer := await table.ask(NEXT, index=index))[0]:
        index, key, value = (int(part) for part in answer[1])
        listed[key] = value
        index += 1
    assert listed == table.table
