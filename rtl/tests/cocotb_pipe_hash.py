"""nf_pipe_hash against a dictionary: keys of all ports and a change every cycle; with LRU, against
rows in order of use."""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge
from streams import share

KEY, VALUE, CAPACITY, PORTS, LRU = (
    int(os.environ[name]) for name in ("KEY", "VALUE", "CAPACITY", "PORTS", "LRU")
)
INPUTS = [
    "k_valid",
    "k_key",
    "w_write",
    "w_delete",
    "w_value",
    "w_used",
    "h_req",
    "h_op",
    "h_key",
    "h_value",
    "h_index",
]


class Rows:
    """Where entries are: a key has a row of four ways on both sides, by the parity of its bits (all
    masks are ones)."""

    def __init__(self):
        self.rows = {(side, row): [None] * 4 for side in (0, 1) for row in (0, 1)}
        self.uses, self.time = {}, 0
        self.seen = self.before = self.copy()

    def copy(self):
        return {at: list(row) for at, row in self.rows.items()}

    def step(self):
        """A cycle: places for new entries are chosen by the rows as they were before the last one's
        change."""
        self.seen, self.before = self.before, self.copy()

    def sides(self, key, rows=None):
        row = bin(key).count("1") % 2
        return [(rows or self.rows)[side, row] for side in (0, 1)]

    def use(self, key):
        self.time += 1
        self.uses[key] = self.time

    def insert(self, key):
        """Puts a key somewhere; the one that had to go."""
        now, seen = self.sides(key), [list(row) for row in self.sides(key, self.seen)]
        side = int(seen[1].count(None) > seen[0].count(None))
        free = [(at, way) for at in (0, 1) for way in range(4) if seen[at][way] is None]
        if free:
            # The change of the cycle before may have taken the first place.
            for at, way in ((side, seen[side].index(None)), free[-1]):
                if now[at][way] is None:
                    now[at][way] = key
                    return None
        for row in now:
            if None in row:
                row[row.index(None)] = key
                return None
        gone = min(now[0], key=self.uses.get)
        now[0][now[0].index(gone)] = key
        return gone

    def delete(self, key):
        for row in self.sides(key):
            if key in row:
                row[row.index(key)] = None


@cocotb.test()
async def lookups_and_a_change_every_cycle(dut):
    """Each answer is compared in its fifth cycle, and the same cycle changes an entry: also of one
    key, every cycle."""
    for name in INPUTS:
        getattr(dut, name).value = 0
    dut.rst.value = 1
    Clock(dut.clk, 4, "ns").start()
    for _ in range(3):
        await FallingEdge(dut.clk)
    dut.rst.value = 0
    while not int(dut.ready.value):
        await FallingEdge(dut.clk)
    table, rows, way, hits, full, evicted = {}, Rows(), [None] * 4, 0, 0, 0
    places = {}
    for step in range(share(6000)):
        # Few keys, one key only, more keys than places.
        spread = (4, 1, 3 * CAPACITY)[step // 100 % 3]
        keys = [random.randrange(spread) for _ in range(PORTS)] if random.random() < 0.9 else None
        dut.k_valid.value = int(keys is not None)
        dut.k_key.value = sum(key << (KEY * port) for port, key in enumerate(keys or []))
        await FallingEdge(dut.clk)
        way.append(keys)
        keys = way.pop(0)
        rows.step()
        dut.w_write.value = dut.w_delete.value = dut.w_used.value = 0
        if keys is None:
            continue
        for port, key in enumerate(keys):
            assert int(dut.c_hit.value) >> port & 1 == (key in table), (step, port)
            hits += key in table
            # Every second port has no values, but the first.
            value = table.get(key, 0) if port % 2 == 0 else 0
            assert int(dut.c_value.value) >> (VALUE * port) & ((1 << VALUE) - 1) == value, (
                step,
                port,
            )
            assert int(dut.c_room.value) >> port & 1 or (
                len(table) >= CAPACITY and key not in table and not LRU
            )
            place = int(dut.c_place.value) >> (32 * port) & 0xFFFFFFFF
            assert place == places[key] if key in table else LRU or place not in places.values(), (
                step,
                port,
            )
        port = random.randrange(PORTS)
        key, change = keys[port], random.random()
        room = int(dut.c_room.value) >> port & 1
        full += not room
        if change < 0.5 and room:
            if LRU and key not in table and (gone := rows.insert(key)) is not None:
                del table[gone]
                assert int(dut.c_place.value) & 0xFFFFFFFF == places.pop(gone), step
                evicted += 1
            places[key] = int(dut.c_place.value) >> (32 * port) & 0xFFFFFFFF
            rows.use(key)
            table[key] = random.getrandbits(VALUE)
            dut.w_write.value, dut.w_value.value = 1 << port, table[key]
        elif change < 0.6:
            table.pop(key, None)
            places.pop(key, None)
            rows.delete(key)
            dut.w_delete.value = 1 << port
        elif change < 0.8:
            dut.w_used.value = 1
            if key in table:
                rows.use(key)
        assert LRU or len(table) <= CAPACITY
    assert hits > share(1000) and (evicted > share(200) if LRU else full > share(20))
    await FallingEdge(dut.clk)
    assert int(dut.n_evicted.value) == evicted
