"""nf_egress: packets from new headers and old payload at every alignment, on two streams, with
stalls everywhere."""

import os
import random

import cocotb
from streams import STALLS, Bench, Sink, Source

HEADER, ADDRESS, SLOT, ALIGNED = (int(os.environ[name]) for name in ("HB", "AW", "SW", "ALIGNED"))
MEMORIES = 3


def line(memory, at):
    return random.Random(memory << 20 | at).randbytes(64)


class Memory:
    """Answers two cycles after a read, and with something else whenever nothing was read."""

    def __init__(self, dut):
        self.dut, self.stall = dut, 0.0
        self.clear()

    def clear(self):
        self.next, self.stalled = 0, False
        self.dut.r_stall.value = 0

    def edge(self):
        self.dut.r_data.value = self.next
        self.next = random.getrandbits(512)
        if int(self.dut.r_en.value) and not self.stalled:
            self.next = int.from_bytes(
                line(int(self.dut.r_mem.value), int(self.dut.r_addr.value)), "little"
            )
        self.stalled = random.random() < self.stall
        self.dut.r_stall.value = int(self.stalled)


class Stores:
    """Bytes that are written into memories."""

    def __init__(self, dut):
        self.dut = dut
        self.clear()

    def clear(self):
        self.bytes = {}

    def edge(self):
        if int(self.dut.w_en.value):
            data, keep = int(self.dut.w_data.value), int(self.dut.w_keep.value)
            memory, at = int(self.dut.w_mem.value), 64 * int(self.dut.w_addr.value)
            for byte in range(64):
                if keep >> byte & 1:
                    assert (memory, at + byte) not in self.bytes, "a byte was written twice"
                    self.bytes[memory, at + byte] = data >> 8 * byte & 255


class Freed:
    """Slots given back."""

    def __init__(self, dut):
        self.dut = dut
        self.clear()

    def clear(self):
        self.slots = []

    def edge(self):
        if int(self.dut.b_valid.value):
            self.slots.append(int(self.dut.b_slot.value))


class Command:
    def __init__(self, header=None, start=None, rest=None, host=None):
        self.silent = int(header is None and random.random() < 0.05)
        self.host = int(random.random() < 0.3 if host is None else host)
        self.kind = random.choice([2, 3, 4, 5]) if self.host else random.choice([0, 1])
        self.port, self.addr = random.randrange(256), random.getrandbits(64)
        self.header = random.randbytes(
            random.choice([0, 3, 8, 14, 34, 63, 64, 65, HEADER]) if header is None else header
        )
        self.start = (
            random.choice([0, 14, 63, 64, 65, random.randrange(1500)]) if start is None else start
        )
        self.rest = (
            random.choice([0, 1, 46, 64, 128, random.randrange(400)]) if rest is None else rest
        )
        if ALIGNED == 2 and not self.beside():
            self.header = b""
        if not self.header and not self.rest:
            self.rest = 1
        if ALIGNED:
            self.start = self.start // 64 * 64 + (0 if self.beside() else len(self.header) % 64)
        self.memory = random.randrange(MEMORIES)
        self.line = random.randrange((1 << ADDRESS) - 64)
        self.free, self.slot = random.getrandbits(1), random.randrange(1 << SLOT)
        self.store, self.to_memory, self.to_line = 0, 0, 0

    def stored(self, offset, to_line):
        """The same bytes into memory 3, from byte `offset` of a line on, sometimes behind some of
        the header."""
        self.silent, self.store, self.to_memory, self.to_line = 0, 1, MEMORIES, to_line
        self.header = bytes(offset) + (
            self.header[: HEADER - offset] if random.random() < 0.5 else b""
        )
        self.port = offset | random.getrandbits(2) << 6
        return self

    def fields(self):
        return (
            *(self.host, self.silent, self.kind, self.port, self.addr, len(self.header)),
            # Behind the header there may be anything.
            int.from_bytes(self.header + random.randbytes(HEADER - len(self.header)), "little"),
            *(self.memory, self.line, self.start, self.rest, self.free, self.slot),
            *(self.store, self.to_memory, self.to_line),
        )

    def beside(self):
        """A short header in front of a packet to the host is beside the stream."""
        return self.host and self.kind == 2 and len(self.header) <= 8 and self.rest > 0

    def packet(self):
        first, last = self.start // 64, (self.start + self.rest + 63) // 64
        lines = b"".join(line(self.memory, self.line + at) for at in range(first, last))
        return (b"" if self.beside() else self.header) + lines[self.start % 64 :][: self.rest]

    def user(self):
        if not self.host:
            return self.kind << 8 | self.port
        if self.beside():
            header = int.from_bytes(self.header, "little")
            return (
                header << 64
                | len(self.header) << 48
                | len(self.packet()) << 32
                | self.port << 8
                | self.kind
            )
        return self.addr << 64 | len(self.packet()) << 32 | self.port << 8 | self.kind


async def bench(dut):
    b = Bench(dut)
    names = "host silent kind port addr hlen hdr mem line from rest free slot store to_mem to_line".split()
    b.commands = b.add(
        Source(dut.c_valid, dut.c_take, [getattr(dut, f"c_{name}") for name in names])
    )
    b.memory, b.freed, b.stores = b.add(Memory(dut)), b.add(Freed(dut)), b.add(Stores(dut))
    streams = []
    for name in ("m", "h"):
        fields = [
            getattr(dut, f"{name}_axis_t{field}") for field in ("data", "keep", "last", "user")
        ]
        streams.append(
            b.add(
                Sink(
                    getattr(dut, f"{name}_axis_tvalid"), getattr(dut, f"{name}_axis_tready"), fields
                )
            )
        )
    b.net, b.host = streams
    return await b.start()


def packets(beats):
    """Bytes and user of packets; bytes of a beat are without holes, and full before the last."""
    found, now = [], b""
    for data, keep, last, user in beats:
        count = keep.bit_length()
        assert keep == (1 << count) - 1 and (last or count == 64)
        now += data.to_bytes(64, "little")[:count]
        if last:
            found.append((now, user))
            now = b""
    assert not now
    return found


async def play(b, commands, limit=20000):
    """Sends commands; what came of them is right. Gives the cycles that took."""
    b.freed.slots, b.net.got, b.host.got = [], [], []
    b.commands.items = [command.fields() for command in commands]
    loud = [command for command in commands if not command.silent and not command.store]
    count = lambda sink: sum(beat[2] for beat in sink.got)  # noqa: E731
    cycles = await b.until(
        lambda: not b.commands.items and count(b.net) + count(b.host) == len(loud), limit
    )
    for sink, host in ((b.net, 0), (b.host, 1)):
        want = [(command.packet(), command.user()) for command in loud if command.host == host]
        got = packets(sink.got)
        for number, (one, other) in enumerate(zip(got, want, strict=True)):
            assert one == other, f"packet {number} of {'the host' if host else 'the network'}"
    assert b.freed.slots == [command.slot for command in commands if command.free]
    return cycles


@cocotb.test()
async def packets_under_stalls(dut):
    b = await bench(dut)
    sent = [0, 0]
    for b.memory.stall, b.net.stall in STALLS:
        b.host.stall, b.commands.stall = random.choice([0.0, 0.5]), random.choice([0.0, 0.5])
        commands = [Command() for _ in range(60)]
        await play(b, commands)
        for command in commands:
            if not command.silent:
                sent[command.host] += 1
        await b.run(1)
        assert [int(dut.n_sent.value), int(dut.n_host.value)] == sent


@cocotb.test()
async def every_alignment(dut):
    """Headers shorter and longer than what they replace, by every number of bytes around a line."""
    b = await bench(dut)
    commands = [
        Command(header, 70, rest) for header in range(0, HEADER + 1, 3) for rest in (1, 64, 65)
    ]
    commands += [Command(20, start, 100) for start in range(0, 130, 3)]
    await play(b, commands)


@cocotb.test()
async def a_beat_each_cycle(dut):
    b = await bench(dut)
    one = Command(14, 14, 46, host=0)
    alone = await play(b, [one])
    assert alone <= 7, f"{alone} cycles for a packet of one beat"
    assert await play(b, [Command(14, 14, 46, host=0) for _ in range(100)]) <= 99 + alone
    # Four beats each; the first of them needs two lines, which takes a cycle more.
    assert await play(b, [Command(10, 30, 246, host=0) for _ in range(30)]) <= 5 * 30 + alone


@cocotb.test(skip=ALIGNED != 0)
async def bytes_are_stored(dut):
    """Commands that write into memory between others that send: each byte once, where it belongs,
    as fast as those."""
    b = await bench(dut)
    for b.memory.stall, b.net.stall in STALLS:
        b.host.stall = b.net.stall
        b.stores.clear()
        commands, want, at = [], {}, 0
        for _ in range(60):
            command = Command(rest=random.choice([1, 46, 64, 128, random.randrange(1, 400)]))
            if random.random() < 0.6:
                line, offset = at // 64, at % 64
                command.host, command.kind = 0, 0
                command.stored(offset, line)
                for byte in command.packet()[offset:]:
                    want[MEMORIES, at] = byte
                    at += 1
                at += random.choice([0, 0, 13])
            commands.append(command)
        commands.append(Command(14, 14, 46, host=0))
        await play(b, commands)
        assert b.stores.bytes == want
    # Four beats each, the first of them of two lines; only what is read where bytes are stored
    # waits for them.
    b.memory.stall = b.net.stall = b.host.stall = 0.0
    b.stores.clear()
    many = [Command(0, 30, 240, host=0).stored(10, 8 * number) for number in range(30)]
    for command in many:
        command.memory = 0
    assert await play(b, [*many, Command(14, 14, 46, host=0)]) <= 5 * 30 + 10


@cocotb.test()
async def reset_with_packets_inside(dut):
    b = await bench(dut)
    for cycles in (3, 10, 25):
        b.net.stall = b.host.stall = 0.5
        b.commands.items = [Command().fields() for _ in range(30)]
        await b.run(cycles)
        await b.reset()
        assert (int(dut.n_sent.value), int(dut.n_host.value)) == (0, 0)
        await play(b, [Command() for _ in range(20)])
