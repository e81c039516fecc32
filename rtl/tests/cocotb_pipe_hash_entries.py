"""nf_pipe_hash_entries against a dictionary: every port changes an entry each cycle; and the host's
operations."""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge
from streams import share

KEY, VALUE, CAPACITY, PORTS, APART, WRITTEN = (
    int(os.environ[name]) for name in ("KEY", "VALUE", "CAPACITY", "PORTS", "APART", "WRITTEN")
)
KEPT = int(os.environ.get("KEPT", "0"))
STAYS = (1 << VALUE) - (1 << VALUE - KEPT)
R = max(1, (CAPACITY - 1).bit_length() - 2)
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
H3 = int(os.environ["H3"])


def rows(key):
    bits = [(key & (H3 >> KEY * at) & ((1 << KEY) - 1)).bit_count() & 1 for at in range(2 * R)]
    return {(side, tuple(bits[R * side : R * side + R])) for side in (0, 1)}


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
    for _ in range(40 * CAPACITY):
        await FallingEdge(dut.clk)
        if int(dut.ready.value):
            return
    raise AssertionError("the table is never ready")


async def ask(dut, op, key=0, value=0, index=0):
    for name, one in {"req": 1, "op": op, "key": key, "value": value, "index": index}.items():
        getattr(dut, f"h_{name}").value = one
    for _ in range(400):
        await FallingEdge(dut.clk)
        if int(dut.h_done.value):
            ok = int(dut.h_ok.value)
            await RisingEdge(dut.clk)
            dut.h_req.value = 0
            for _ in range(3):
                await FallingEdge(dut.clk)
            names = {PEEK: ["value"], NEXT: ["index", "key", "value"]}.get(op, [])
            if KEPT and op != NEXT:
                names = [*names, "index", "key"]
            return ok, [int(getattr(dut, f"h_r_{name}").value) for name in names if ok]
    raise AssertionError(f"operation {op} of the host is never done")


class Pipe:
    """Lookups on their way, and those that were shown and are changed later."""

    def __init__(self, dut):
        self.dut, self.table = dut, {}
        # Where keys' entries are or would be put, which is told behind them.
        self.places, self.told, self.found, self.twice = (
            {},
            [None] * (PORTS - 1),
            [{}] * (APART - PORTS + 1),
            0,
        )
        self.way, self.later, self.before = [None] * 5, [(None, 0)] * APART, [set()] * APART
        # What was not made, or was deleted, is counted for two cycles more.
        self.recent = [0, 0]
        self.changes = self.beside = self.refused = self.deleted = 0

    def places_of(self, keys):
        """Those of a lookup: keys that are the same have one, and entries stay where they are."""
        told = int(self.dut.c_place.value) if KEPT and keys else 0
        places = [told >> 32 * port & 0xFFFFFFFF for port in range(PORTS)]
        # Who changes nothing has a place if the entry is there, or may be made by one before.
        written = [port for port in range(PORTS) if WRITTEN >> port & 1]
        found = {}
        for port, key in enumerate(keys or []):
            if KEPT and (key in self.table or key in found or port in written):
                assert found.setdefault(key, places[port]) == places[port] < 8 << R, (keys, places)
                assert self.places.get(key, places[port]) == places[port]
                self.twice += key not in self.table and keys.count(key) > 1
        self.found.append(found)

    async def cycle(self, keys, deletes=0.2):
        dut, taken = self.dut, set().union(*self.before)
        wanted = set().union(*map(rows, keys or []))
        if wanted & taken:
            keys = None
        self.beside += keys is not None and bool(taken)
        self.before = [*self.before[1:], wanted if keys is not None else set()]
        dut.k_valid.value, dut.k_key.value = int(keys is not None), side_by_side(keys or [], KEY)
        self.way.append(keys)
        shown = self.way.pop(0)
        room = int(dut.c_room.value) if shown is not None else 0
        for port, key in enumerate(shown or []):
            assert int(dut.c_hit.value) >> port & 1 == (key in self.table), (port, key)
            assert int(dut.c_value.value) >> VALUE * port & (1 << VALUE) - 1 == self.table.get(
                key, 0
            )
            assert room >> port & 1 or key not in self.table
        if shown is not None:
            # With rows half empty and few entries there is room.
            crowded = any(
                sum(rows(key) & rows(other) != set() for other in self.table) > 3 for key in shown
            )
            new = sum(
                key not in self.table for keys, _ in [*self.later, (shown, 0)] for key in keys or []
            )
            assert (
                crowded
                or room == (1 << PORTS) - 1
                or len(self.table) + new + sum(self.recent) > CAPACITY
            )
        self.later.append((shown, room))
        self.told.append(shown)
        self.places_of(self.told.pop(0))
        keys, room = self.later.pop(0)
        self.recent = [self.recent[1], PORTS * (keys is not None)]
        found = self.found.pop(0)
        writes, removes, values, changed = 0, 0, [0] * PORTS, set()
        for port, key in enumerate(keys or []):
            dice = random.random()
            if not WRITTEN >> port & 1 or key in changed or dice > 0.9:
                continue
            changed.add(key)
            if dice < deletes:
                removes |= 1 << port
                self.deleted += self.table.pop(key, None) is not None
                self.places.pop(key, None)
            elif room >> port & 1:
                values[port] = random.getrandbits(VALUE)
                writes |= 1 << port
                self.table[key] = values[port]
                self.changes += 1
                if KEPT:
                    assert found[key] == self.places.get(key, found[key])
                    assert key in self.places or found[key] not in self.places.values()
                    self.places[key] = found[key]
            else:
                self.refused += 1
        assert len(self.table) <= CAPACITY
        dut.w_write.value, dut.w_delete.value, dut.w_value.value = (
            writes,
            removes,
            side_by_side(values, VALUE),
        )
        await FallingEdge(dut.clk)


def any_keys(spread):
    return [random.randrange(spread) for _ in range(PORTS)]


@cocotb.test()
async def every_port_every_cycle(dut):
    """Few keys and many, tables that are empty and full, and a reset with lookups on their way."""
    await start(dut)
    for _ in range(2):
        pipe = Pipe(dut)
        for step in range(share(5400)):
            spread = (6, CAPACITY, 1 << KEY)[step // 200 % 3]
            await pipe.cycle(
                any_keys(spread) if random.random() < 0.9 else None, (0.1, 0.6)[step // 300 % 2]
            )
        assert not KEPT or pipe.twice > 20
        assert pipe.changes > 100 and pipe.beside > 20 and pipe.deleted > 10 and pipe.refused > 2
        dut.k_valid.value = dut.w_write.value = dut.w_delete.value = 0
        await reset(dut)


@cocotb.test()
async def the_hosts_operations(dut):
    """Between packets: entries set, deleted, looked up and listed."""
    await start(dut)
    pipe = Pipe(dut)
    for step in range(200):
        if step % 20 == 0:
            for _ in range(60):
                await pipe.cycle(any_keys(2 * CAPACITY), 0.4)
            for _ in range(8 + APART):
                await pipe.cycle(None)
        key, value = random.randrange(2 * CAPACITY), random.getrandbits(VALUE)
        op = random.choice([UPDATE, UPDATE, DELETE, PEEK] + [WRITE] * (KEPT > 0))
        ok, found = await ask(dut, op, key, value)
        if KEPT and ok:
            *found, index, of = found
            assert of == key and index == pipe.places.setdefault(key, index) < 8 << R
            assert list(pipe.places.values()).count(index) == 1
            if op == DELETE:
                pipe.places.pop(key)
        if op == UPDATE:
            assert ok or (key not in pipe.table and len(pipe.table) > 7)
            value = value & ~STAYS | pipe.table.get(key, 0) & STAYS
            pipe.table.update({key: value} if ok else {})
        elif op == WRITE:
            assert ok == (key in pipe.table)
            pipe.table.update({key: value} if ok else {})
        else:
            assert ok == (key in pipe.table)
            assert not ok or op == DELETE or found == [pipe.table[key]]
            if op == DELETE:
                pipe.table.pop(key, None)
    listed, index = {}, 0
    while (answer := await ask(dut, NEXT, index=index))[0]:
        index, key, value = answer[1]
        listed[key] = value
        assert not KEPT or pipe.places[key] == index
        index += 1
    assert listed == pipe.table
