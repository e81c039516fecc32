"""nf_control: registers and table commands through cocotbext-axi's master, with random pauses, a
slow table and resets."""

import itertools
import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiLiteBus, AxiLiteMaster

TABLES, COUNTERS, KEY, VALUE = (
    int(os.environ[name]) for name in ("TABLES", "COUNTERS", "KEY", "VALUE")
)
TABLE, COMMAND, STATUS, INDEX, DETAIL, COUNTER, KEYS, MASKS, VALUES = (
    *(0x10, 0x14, 0x18, 0x1C, 0x20, 0x100),
    *(0x400, 0x800, 0x1000),
)
NEXT = 6


class Table:
    """Answers a command after some cycles, with anything; remembers what it was asked."""

    def __init__(self, dut):
        self.dut, self.asked, self.cycles = dut, [], (0, 5)

    async def run(self):
        dut = self.dut
        dut.t_done.value = 0
        while True:
            await RisingEdge(dut.clk)
            if not int(dut.t_req.value) or int(dut.t_done.value):
                dut.t_done.value = 0
                continue
            self.asked.append(
                {name: int(getattr(dut, f"t_{name}").value) for name in ("table", "op", *FIELDS)}
            )
            for _ in range(random.randrange(*self.cycles)):
                await RisingEdge(dut.clk)
            if not int(dut.t_req.value):
                continue
            self.answer = {"ok": random.getrandbits(1)}
            dut.t_ok.value = self.answer["ok"]
            for name, bits in FIELDS.items():
                self.answer[name] = random.getrandbits(bits)
                getattr(dut, f"t_r_{name}").value = self.answer[name]
            dut.t_done.value = 1


FIELDS = {"key": KEY, "mask": KEY, "value": VALUE, "detail": 32, "index": 32}
PLACES = {"key": KEYS, "mask": MASKS, "value": VALUES, "detail": DETAIL, "index": INDEX}


async def bench(dut):
    for name in ("ready", "counters", "t_done", "t_ok"):
        getattr(dut, name).value = 0
    for name in FIELDS:
        getattr(dut, f"t_r_{name}").value = 0
    Clock(dut.clk, 4, "ns").start()
    master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
    await reset(dut)
    for channel in (
        master.write_if.aw_channel,
        master.write_if.w_channel,
        master.write_if.b_channel,
    ):
        channel.set_pause_generator(itertools.cycle([random.random() < 0.4 for _ in range(97)]))
    for channel in (master.read_if.ar_channel, master.read_if.r_channel):
        channel.set_pause_generator(itertools.cycle([random.random() < 0.4 for _ in range(89)]))
    table = Table(dut)
    cocotb.start_soon(table.run())
    return master, table


async def reset(dut):
    dut.rst.value = 1
    for _ in range(3):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    for _ in range(2):
        await RisingEdge(dut.clk)


async def put(master, name, value):
    size = 4 * ((FIELDS[name] + 31) // 32)
    await master.write(PLACES[name], value.to_bytes(size, "little"))


async def get(master, name):
    size = 4 * ((FIELDS[name] + 31) // 32)
    return int.from_bytes((await master.read(PLACES[name], size)).data, "little")


async def word(master, address):
    return int.from_bytes((await master.read(address, 4)).data, "little")


async def finished(master):
    for _ in range(200):
        status = await word(master, STATUS)
        if not status & 1:
            return status >> 1 & 1
    raise AssertionError("a command never ends")


@cocotb.test()
async def what_is_asked_and_answered(dut):
    master, table = await bench(dut)
    for op in [*range(10)] * 4:
        request = {name: random.getrandbits(bits) for name, bits in FIELDS.items()}
        for name, value in request.items():
            await put(master, name, value)
            assert await get(master, name) == value
        number = random.randrange(TABLES)
        await master.write(TABLE, number.to_bytes(4, "little"))
        await master.write(COMMAND, op.to_bytes(4, "little"))
        ok = await finished(master)
        assert table.asked.pop() == {"table": number, "op": op, **request} and not table.asked
        assert ok == table.answer["ok"]
        # Only the list of entries gives keys.
        for name in FIELDS:
            want = request[name] if name in ("key", "mask") and op != NEXT else table.answer[name]
            assert await get(master, name) == want, name


@cocotb.test()
async def nothing_changes_under_a_command(dut):
    """While a command runs, what is written is lost, and reads are answered."""
    master, table = await bench(dut)
    table.cycles = (300, 301)
    for _ in range(6):
        await put(master, "key", 5)
        await put(master, "index", 9)
        await master.write(COMMAND, (5).to_bytes(4, "little"))
        await put(master, "key", 77)
        await put(master, "index", 78)
        assert int(dut.t_index.value) == 9
        await master.write(COMMAND, NEXT.to_bytes(4, "little"))
        assert await word(master, STATUS) & 1, (
            "the command is over; it was to take longer than the writes"
        )
        await finished(master)
        [first] = table.asked
        assert (first["key"], first["index"], first["op"]) == (5, 9, 5)
        assert await get(master, "key") == 5
        table.asked.clear()


@cocotb.test()
async def counters_and_names(dut):
    master, _ = await bench(dut)
    values = [random.getrandbits(32) for _ in range(COUNTERS)]
    dut.counters.value = sum(value << 32 * at for at, value in enumerate(values))
    assert [await word(master, COUNTER + 4 * at) for at in range(COUNTERS)] == values
    assert (await master.read(0, 4)).data == b"NFC1"
    assert (await word(master, 4), await word(master, 8), await word(master, 12)) == (
        TABLES,
        COUNTERS,
        0,
    )
    dut.ready.value = 1
    assert await word(master, 12) == 1


@cocotb.test()
async def reset_in_flight(dut):
    """A reset ends a command and forgets answers that nobody took."""
    master, table = await bench(dut)
    table.cycles = (0, 300)
    for _ in range(5):
        await put(master, "key", 3)
        await master.write(COMMAND, (5).to_bytes(4, "little"))
        await reset(dut)
        assert await word(master, STATUS) == 0
        for _ in range(310):
            await RisingEdge(dut.clk)
        table.asked.clear()
        await put(master, "value", 11)
        await master.write(COMMAND, (1).to_bytes(4, "little"))
        await finished(master)
        assert [request["value"] for request in table.asked] == [11]
        table.asked.clear()
