"""nf_table_lpm and nf_table_ternary: random entries and searches, full, deleted, listed, reset in
flight."""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge

TOP = os.environ["TOP"]
KEY, VALUE, CAPACITY = (int(os.environ[name]) for name in ("KEY", "VALUE", "CAPACITY"))
FIND, UPDATE, DELETE, WRITE, PEEK, NEXT = 0, 1, 2, 4, 5, 6


async def start(dut):
    for name in ("req", "op", "key", "value", "mask", "detail", "index"):
        getattr(dut, name).value = 0
    Clock(dut.clk, 4, "ns").start()
    await reset(dut)


async def reset(dut):
    dut.rst.value = 1
    for _ in range(3):
        await FallingEdge(dut.clk)
    dut.rst.value = 0
    for _ in range(8 * CAPACITY + 100):
        await FallingEdge(dut.clk)
        if int(dut.ready.value):
            return
    raise AssertionError("the table is never ready")


async def ask(dut, op, key=0, mask=0, detail=0, value=0, index=0, give_up=None):
    """Whether it was done, and what was found; after `give_up` cycles a reset instead."""
    for name, one in {
        "op": op,
        "key": key,
        "mask": mask,
        "detail": detail,
        "value": value,
        "index": index,
    }.items():
        getattr(dut, name).value = one
    dut.req.value = 1
    for cycle in range(3000):
        await FallingEdge(dut.clk)
        if cycle == give_up:
            dut.req.value = 0
            await reset(dut)
            return None
        if int(dut.done.value):
            found = {
                name: int(getattr(dut, f"r_{name}").value) if int(dut.ok.value) else None
                for name in ("value", "index")
            }
            found |= {name: getattr(dut, f"r_{name}").value for name in ("key", "mask", "detail")}
            ok = int(dut.ok.value)
            # The request stays to the end of the cycle.
            await RisingEdge(dut.clk)
            dut.req.value = 0
            await FallingEdge(dut.clk)
            return ok, found
    raise AssertionError(f"operation {op} is never done")


def network(bits):
    """Mask of a prefix: from the first byte's highest bit."""
    return sum(1 << 8 * (at // 8) + 7 - at % 8 for at in range(bits))


class Lpm:
    """Prefixes as a dictionary from length and key."""

    def __init__(self):
        self.entries = {}

    def identity(self):
        bits = random.choice([0, 1, 8, 13, KEY - 1, KEY])
        return {
            "key": random.randrange(16) * 0x1111 & random.choice([network(bits), -1]),
            "detail": bits,
        }

    def name(self, asked):
        return asked["detail"], asked["key"] & network(asked["detail"])

    def find(self, key):
        for bits in range(KEY, -1, -1):
            if (bits, key & network(bits)) in self.entries:
                return self.entries[bits, key & network(bits)]
        return None

    def listed(self, found):
        return int(found["detail"]), int(found["key"])


class Ternary:
    """Rows in the order in which they were set; the dictionary keeps it."""

    def __init__(self):
        self.entries = {}

    def identity(self):
        mask = random.choice([0, 0xF, 0xF0, (1 << KEY) - 1])
        return {"key": random.randrange(64), "mask": mask, "detail": random.randrange(3)}

    def name(self, asked):
        return asked["key"] & asked["mask"], asked["mask"], asked["detail"]

    def find(self, key):
        matching = [
            (-priority, at)
            for at, (k, mask, priority) in enumerate(self.entries)
            if key & mask == k
        ]
        return list(self.entries.values())[min(matching)[1]] if matching else None

    def listed(self, found):
        return int(found["key"]), int(found["mask"]), int(found["detail"])


@cocotb.test()
async def operations(dut):
    await start(dut)
    for _ in range(2):
        model = Lpm() if TOP == "nf_table_lpm" else Ternary()
        refused = full = hits = 0
        for step in range(500):
            asked = model.identity()
            name = model.name(asked)
            op = random.choice(
                [FIND, FIND, UPDATE, UPDATE, DELETE, PEEK]
                if step % 250 > 3 * CAPACITY
                else [UPDATE]
            )
            value = random.getrandbits(VALUE)
            if op == FIND:
                asked = {
                    "key": random.choice([asked["key"], asked["key"] ^ 1 << random.randrange(KEY)])
                }
            ok, found = await ask(dut, op, **asked, value=value)
            if op == FIND:
                want = model.find(asked["key"])
                assert found["value"] == want, f"step {step}: {asked['key']:x}"
                hits += ok
            elif op == PEEK:
                assert found["value"] == model.entries.get(name)
            elif op == UPDATE:
                room = name in model.entries or len(model.entries) < CAPACITY
                assert ok == room, step
                refused += not room
                full += len(model.entries) == CAPACITY
                if room:
                    model.entries[name] = value
            else:
                assert ok == (model.entries.pop(name, None) is not None)
        assert int(dut.n_refused.value) == refused and full and hits > 40
        listed, index = {}, 0
        while (answer := await ask(dut, NEXT, index=index))[0]:
            found = answer[1]
            listed[model.listed(found)] = found["value"]
            # The whole of an entry by its index.
            await ask(dut, WRITE, index=found["index"], value=index & 1)
            model.entries[model.listed(found)], index = index & 1, found["index"] + 1
        assert listed.keys() == model.entries.keys()
        for name, value in model.entries.items():
            key, detail, mask = (
                (name[1], name[0], 0) if TOP == "nf_table_lpm" else (name[0], name[2], name[1])
            )
            ok, found = await ask(dut, PEEK, key=key, mask=mask, detail=detail)
            assert ok and found["value"] == value
        await reset(dut)


@cocotb.test()
async def reset_in_flight(dut):
    await start(dut)
    model = Lpm() if TOP == "nf_table_lpm" else Ternary()
    for give_up in range(1, 30, 2):
        for _ in range(4):
            await ask(dut, UPDATE, **model.identity(), value=1)
        if await ask(
            dut, random.choice([FIND, UPDATE, DELETE, NEXT]), **model.identity(), give_up=give_up
        ):
            # It was done before.
            await reset(dut)
        ok, _ = await ask(dut, FIND, key=random.getrandbits(KEY))
        assert not ok
        asked = model.identity()
        assert (await ask(dut, UPDATE, **asked, value=7))[0]
        assert (await ask(dut, FIND, key=asked["key"]))[1]["value"] == 7
        await reset(dut)
