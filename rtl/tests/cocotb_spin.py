"""Modules of rtl/spin one by one, with stalls; together they are compared in
crates/run/tests/spin_datapath.rs."""

import os
import random
from collections import deque

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly
from streams import SOAK, STALLS, Bench, Sink, Source, share

TOP = os.environ["TOP"]


def beats(data, *more):
    for at in range(0, len(data), 64):
        part = data[at : at + 64]
        last = int(at + 64 >= len(data))
        yield (int.from_bytes(part, "little"), (1 << len(part)) - 1, last, *more)


def joined(got):
    """Packets of beats: bytes, and what else the last beat had."""
    packets, bytes_ = [], b""
    for data, keep, last, *more in got:
        assert keep & (keep + 1) == 0
        bytes_ += data.to_bytes(64, "little")[: keep.bit_count()]
        if last:
            packets.append((bytes_, *more))
            bytes_ = b""
    assert bytes_ == b""
    return packets


def quiet(dut, *names):
    for name in names:
        getattr(dut, name).value = 0


# --- nf_spin_match

RULE_ANY, RULE_NEVER = (0, 0, 0, 0), (0, 0, 1, 0)


def word_rule(word, mask, start, end=None):
    return (word << 18, mask, start, start if end is None else end)


def field_rule(kind, value, offset=0):
    return (kind | offset << 16, 0xFFFFFFFF, value, value)


def frame(tags=b"", options=b"", port=9330, last=False, message=7, extra=20):
    segment = b"\x12\x34" + port.to_bytes(2, "big") + (18 + extra).to_bytes(2, "big") + bytes(2)
    segment += (
        (0x8000 * last).to_bytes(2, "big")
        + message.to_bytes(4, "little")
        + bytes(4)
        + random.randbytes(extra)
    )
    ip = bytes([0x45 + len(options) // 4, 0]) + (20 + len(options) + len(segment)).to_bytes(
        2, "big"
    )
    ip += bytes([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2])
    return bytes(range(12)) + tags + b"\x08\x00" + ip + options + segment


async def matcher(dut):
    quiet(dut, "rules", "sets", "reversed", "commit")
    b = Bench(dut)
    fields = [dut.s_axis_tdata, dut.s_axis_tkeep, dut.s_axis_tlast]
    b.source = b.add(Source(dut.s_axis_tvalid, dut.s_axis_tready, fields))
    names = [
        "m_axis_tdata",
        "m_axis_tkeep",
        "m_axis_tlast",
        "m_match",
        "m_context",
        "m_message",
        "m_end",
    ]
    b.sink = b.add(
        Sink(dut.m_axis_tvalid, dut.m_axis_tready, [getattr(dut, name) for name in names])
    )
    return await b.start()


async def program(b, sets):
    """Rulesets: (set word, four rules)."""
    rules = words = 0
    for at, (word, four) in enumerate(sets):
        words |= word << 32 * at
        for place, rule in enumerate(four):
            for part, value in enumerate(rule):
                rules |= value << 512 * at + 128 * place + 32 * part
    b.dut.rules.value, b.dut.sets.value = rules, words
    b.dut.commit.value = 1
    await b.run(1)
    b.dut.commit.value = 0


SLMP = (
    1 | 44 << 16,
    [
        word_rule(3, 0xFFFF0000, 0x08000000),
        word_rule(5, 0xFF, 17),
        word_rule(9, 0xFFFF0000, 9330 << 16),
        word_rule(10, 0x8000, 0x8000),
    ],
)
BY_HEADERS = (
    5 | 2 << 16,
    [field_rule(3, 17), field_rule(5, 9330), RULE_ANY, (6, 0x80000000, 0x80000000, 0x80000000)],
)


@cocotb.test(skip=TOP != "nf_spin_match")
async def rules_choose_under_stalls(dut):
    """Words see plain frames only, fields the same message behind tags and options; what is not
    wanted passes untouched."""
    b = await matcher(dut)
    for sets, sees in (([SLMP], False), ([BY_HEADERS], True)):
        for b.source.stall, b.sink.stall in STALLS if SOAK else STALLS[::2]:
            await b.until(lambda: not b.source.items)
            await b.run(20)
            await program(b, sets)
            b.sink.got, wanted = [], []
            for _ in range(share(36)):
                tags = random.choice(
                    [b"", b"", b"\x81\x00\x00\x05", b"\x88\xa8\x00\x05\x81\x00\x00\x06"]
                )
                options = bytes([1]) * random.choice([0, 0, 4, 40])
                last, port, message = (
                    random.random() < 0.3,
                    random.choice([9330, 9331]),
                    random.getrandbits(32),
                )
                data = frame(tags, options, port, last, message, random.choice([2, 20, 200, 500]))
                match = port == 9330 and (sees or not tags + options)
                wanted.append((data, int(match), 0, message if match else 0, int(last and match)))
                b.source.items += beats(data)
            await b.until(
                lambda wanted=wanted: len([1 for beat in b.sink.got if beat[2]]) == len(wanted)
            )
            assert joined(b.sink.got) == wanted


@cocotb.test(skip=TOP != "nf_spin_match")
async def a_packet_a_cycle_four_cycles_late(dut):
    b = await matcher(dut)
    await program(b, [SLMP])
    await b.run(10)
    b.source.items = [beat for _ in range(200) for beat in beats(frame(extra=0)[:60])]
    start = await b.until(lambda: b.source.taken)
    assert await b.until(lambda: b.sink.got) == 4, start
    assert await b.until(lambda: len(b.sink.got) == 200) == 199
    assert all(match for _, _, _, match, *_ in b.sink.got)


@cocotb.test(skip=TOP != "nf_spin_match")
async def the_first_ruleset_and_or_and_ranges(dut):
    b = await matcher(dut)
    either = (3 | 44 << 16, [field_rule(5, 1), field_rule(4, 2), RULE_NEVER, RULE_NEVER])
    ports = word_rule(9, 0xFFFF0000, 0x00FF0000, 0x01010000)
    await program(b, [either, (1 | 44 << 16, [ports, RULE_ANY, RULE_ANY, RULE_NEVER]), SLMP])
    for port, context in ((1, 0), (0xFF, 1), (0x101, 1), (0x102, None), (9330, 2)):
        b.sink.got = []
        b.source.items += beats(frame(port=port))
        await b.until(lambda: any(beat[2] for beat in b.sink.got))
        assert (b.sink.got[0][3], b.sink.got[0][4]) == (
            (0, 0) if context is None else (1, context)
        ), port
    # With bytes reversed 0xff00 to 0x0101 is empty; single values match the same.
    dut.reversed.value = 1
    await program(b, [either, (1 | 44 << 16, [ports, RULE_ANY, RULE_ANY, RULE_NEVER]), SLMP])
    for port, match in ((0x100, 0), (9330, 1)):
        b.sink.got = []
        b.source.items += beats(frame(port=port))
        await b.until(lambda: any(beat[2] for beat in b.sink.got))
        assert b.sink.got[0][3] == match, port


@cocotb.test(skip=TOP != "nf_spin_match")
async def rules_change_between_packets(dut):
    """Every packet is decided by the old or the new rules, in this order, and the stream goes
    on."""
    b = await matcher(dut)
    await program(b, [SLMP])
    b.source.items = [beat for _ in range(60) for beat in beats(frame(extra=100))]
    await b.run(40)
    await program(b, [(0, [RULE_ANY] * 4)])
    await b.until(lambda: len([1 for beat in b.sink.got if beat[2]]) == 60)
    matches = [match for _, match, *_ in joined(b.sink.got)]
    assert matches == sorted(matches, reverse=True) and 0 < sum(matches) < 60
    assert not int(dut.pending.value)
    await b.reset()
    b.source.items += beats(frame())
    b.sink.got = []
    await b.until(lambda: b.sink.got)
    assert b.sink.got[0][3] == 0, "rules are off after a reset"


# --- nf_spin_alloc: against lists, as in crates/spin


@cocotb.test(skip=TOP != "nf_spin_alloc")
async def slots_of_two_sizes(dut):
    small, large = int(os.environ["SMALL"]), int(os.environ["LARGE"])
    quiet(dut, "all_classes", "a_valid", "a_bytes", "f_valid", "f_line")
    b = Bench(dut)
    await b.start()
    refused = {"long": 0, "full": 0}
    for all_classes in (0, 1):
        dut.all_classes.value = all_classes
        await b.reset()
        free = [
            deque(range(0, 2 * small, 2)),
            deque(2 * small + 24 * slot for slot in range(large)),
        ]
        held, most = [], 0
        for step in range(1000):
            busy = (0.9, 0.3)[step // 100 % 2]
            asks, gives = random.random() < busy, bool(held) and random.random() < 0.5
            size = random.choice([0, 64, 128, 129, 1536, 1537, random.randrange(2000)])
            line, kind = held.pop(random.randrange(len(held))) if gives else (0, 0)
            dut.a_valid.value, dut.a_bytes.value = int(asks), size
            dut.f_valid.value, dut.f_line.value = int(gives), line
            await ReadOnly()
            assert (int(dut.used_small.value), int(dut.used_large.value)) == (
                small - len(free[0]),
                large - len(free[1]),
            )
            which = 0 if size <= 128 else 1
            room = all(free) if all_classes else bool(free[which])
            assert int(dut.a_long.value) == (asks and size > 1536)
            grant = asks and size <= 1536 and room
            assert int(dut.a_grant.value) == grant
            refused["long"] += asks and size > 1536
            refused["full"] += asks and size <= 1536 and not room
            if grant:
                assert int(dut.a_line.value) == free[which][0], (
                    "the slot freed first goes first, in the cycle of the question"
                )
                held.append((free[which].popleft(), which))
            most = max(most, 2 * (small - len(free[0])) + 24 * (large - len(free[1])))
            if gives:
                free[kind].append(line)
            await b.run(1)
        await ReadOnly()
        assert int(dut.most_lines.value) == most
        await b.run(1)
    assert min(refused.values()) > 30


# --- nf_spin_ingress


class Allocator:
    """A few slots; answers at once."""

    def __init__(self, dut):
        self.dut = dut
        self.clear()

    def clear(self):
        self.free, self.given = deque(range(0, 24 * 4, 24)), []

    async def answer(self):
        while True:
            await FallingEdge(self.dut.clk)
            asked = int(self.dut.a_valid.value)
            size = int(self.dut.a_bytes.value) if asked else 0
            self.dut.a_long.value = int(asked and size > 1536)
            self.dut.a_grant.value = int(asked and size <= 1536 and bool(self.free))
            self.dut.a_line.value = self.free[0] if self.free else 0

    def edge(self):
        if int(self.dut.a_grant.value):
            self.given.append(self.free.popleft())


class Lines:
    def __init__(self, dut):
        self.dut, self.lines, self.stall = dut, {}, 0.0
        self.clear()

    def clear(self):
        self.ready = True
        self.dut.w_ready.value = 1

    def edge(self):
        if int(self.dut.w_valid.value) and self.ready:
            self.lines[int(self.dut.w_line.value)] = int(self.dut.w_data.value).to_bytes(
                64, "little"
            )
        self.ready = random.random() >= self.stall
        self.dut.w_ready.value = int(self.ready)


@cocotb.test(skip=TOP != "nf_spin_ingress")
async def frames_get_into_memory_or_are_dropped(dut):
    quiet(dut, "a_grant", "a_long", "a_line")
    dut.contexts.value = 0b0111
    for lossy in (0, 1):
        dut.lossy.value = lossy
        b = Bench(dut)
        fields = [dut.s_tdata, dut.s_tkeep, dut.s_tlast, dut.s_tag]
        source = b.add(Source(dut.s_tvalid, dut.s_tready, fields))
        sink = b.add(Sink(dut.d_valid, dut.d_ready, [dut.d_line, dut.d_bytes, dut.d_tag]))
        allocator, memory = b.add(Allocator(dut)), b.add(Lines(dut))
        await b.start()
        answers = cocotb.start_soon(allocator.answer())
        dropped = []
        frames = []
        for source.stall, sink.stall in STALLS:
            memory.stall = random.choice([0.0, 0.3])
            frames = [
                (
                    random.randbytes(random.choice([1, 63, 64, 65, 128, 700, 1536, 1537, 3000])),
                    random.randrange(1 << 33) << 2 | random.randrange(4),
                )
                for _ in range(50)
            ]
            source.items = [beat for data, tag in frames for beat in beats(data, tag)]
            dropped, seen, still = [], 0, 0
            for _ in range(30000):
                await b.run(1)
                if int(dut.drop_valid.value):
                    dropped.append(int(dut.drop_why.value))
                while sink.got and random.random() < 0.3:
                    line, size, tag = sink.got.pop(0)
                    while (
                        lossy
                        and frames[seen][1] != tag
                        or len(frames[seen][0]) > 1536
                        or frames[seen][1] & 3 == 3
                    ):
                        seen += 1
                    data = b"".join(memory.lines[line + at] for at in range((size + 63) // 64))[
                        :size
                    ]
                    assert (data, tag) == frames[seen]
                    seen += 1
                    allocator.free.append(line)
                still = 0 if source.items or sink.got or len(allocator.free) < 4 else still + 1
                if still == 60:
                    break
            wanted = (
                sum(tag & 3 == 3 for _, tag in frames),
                sum(len(data) > 1536 and tag & 3 != 3 for data, tag in frames),
            )
            assert (dropped.count(2), dropped.count(1)) == wanted
            assert lossy or dropped.count(0) == 0
            while sink.got:
                allocator.free.append(sink.got.pop()[0])
        answers.cancel()


@cocotb.test(skip=TOP != "nf_spin_ingress")
async def two_cycles_and_one_a_beat(dut):
    """None longer than the published 8 to 70 cycles, whatever the length; frames of one beat one a
    cycle."""
    quiet(dut, "lossy", "a_grant", "a_long", "a_line")
    dut.contexts.value = 1
    b = Bench(dut)
    source = b.add(
        Source(dut.s_tvalid, dut.s_tready, [dut.s_tdata, dut.s_tkeep, dut.s_tlast, dut.s_tag])
    )
    sink = b.add(Sink(dut.d_valid, dut.d_ready, [dut.d_line, dut.d_bytes, dut.d_tag]))
    allocator = b.add(Allocator(dut))
    b.add(Lines(dut))
    await b.start()
    answers = cocotb.start_soon(allocator.answer())
    for size in (64, 65, 1536):
        source.items += beats(bytes(size), 0)
        source.taken = []
        await b.until(lambda: source.taken)
        lines = (size + 63) // 64
        cycles = await b.until(lambda: sink.got)
        assert cycles <= 2 * lines + 2 and (size > 64 or cycles < 8) and cycles < 70
        allocator.free.append(sink.got.pop()[0])
    allocator.free = deque(range(0, 24 * 200, 24))
    source.items = [beat for _ in range(100) for beat in beats(bytes(60), 0)]
    assert await b.until(lambda: len(sink.got) == 100) <= 106
    answers.cancel()


# --- nf_spin_memory


@cocotb.test(skip=TOP != "nf_spin_memory")
async def lines_of_four_users(dut):
    quiet(dut, *"i_valid i_line i_data e_valid e_line c_valid c_write c_line c_data c_keep".split())
    b = Bench(dut)
    await b.start()
    lines = {}
    for line in range(8):
        lines[line] = random.getrandbits(512)
        dut.i_valid.value, dut.i_line.value, dut.i_data.value = 1, line, lines[line]
        await b.run(1)
    due = {"eq": deque(), "cq": deque()}
    waited = 0
    for cycle in range(1500):
        i, e, c, write = (random.random() < p for p in (0.4, 0.4, 0.7, 0.5))
        at = [random.randrange(8) for _ in range(3)]
        # A read of a line that is written in the same cycle is nobody's business.
        dut.i_valid.value, dut.i_line.value, dut.i_data.value = (
            int(i),
            at[0],
            (word := random.getrandbits(512)),
        )
        e = e and not (i and at[0] == at[1])
        c = c and not (i and at[0] == at[2]) and not (write and e and at[1] == at[2])
        dut.e_valid.value, dut.e_line.value = int(e), at[1]
        keep, store = random.getrandbits(64), random.getrandbits(512)
        dut.c_valid.value, dut.c_write.value, dut.c_line.value = int(c), int(write), at[2]
        dut.c_data.value, dut.c_keep.value = store, keep
        await ReadOnly()
        for name in ("eq", "cq"):
            expected = due[name][0] if due[name] and due[name][0][0] == cycle else None
            assert int(getattr(dut, f"{name}_valid").value) == (expected is not None)
            if expected:
                assert int(getattr(dut, f"{name}_data").value) == due[name].popleft()[1]
        ready = int(dut.c_ready.value)
        waited += c and not ready
        assert ready or (i if write else e)
        if e:
            due["eq"].append((cycle + 2, lines[at[1]]))
        if c and ready and not write:
            due["cq"].append((cycle + 2, lines[at[2]]))
        if c and ready and write:
            mask = sum(0xFF << 8 * k for k in range(64) if keep >> k & 1)
            lines[at[2]] = lines[at[2]] & ~mask | store & mask
        if i:
            lines[at[0]] = word
        await b.run(1)
    assert waited > 100


# --- nf_spin_align, nf_spin_egress, nf_spin_host_dma


@cocotb.test(skip=TOP != "nf_spin_align")
async def bytes_from_any_place(dut):
    b = Bench(dut)
    jobs = b.add(Source(dut.j_valid, dut.j_ready, [dut.j_offset, dut.j_bytes]))
    lines = b.add(Source(dut.l_valid, dut.l_ready, [dut.l_data]))
    sink = b.add(Sink(dut.m_tvalid, dut.m_tready, [dut.m_tdata, dut.m_tkeep, dut.m_tlast]))
    await b.start()
    for jobs.stall, sink.stall in STALLS:
        lines.stall = jobs.stall
        wanted, sink.got = [], []
        for _ in range(80):
            offset, size = (
                random.choice([0, 1, 42, 63]),
                random.choice([1, 22, 63, 64, 65, 128, 129, 500]),
            )
            data = random.randbytes(size)
            padded = bytes(offset) + data
            padded += bytes(-len(padded) % 64)
            jobs.items.append((offset, size))
            lines.items += [
                (int.from_bytes(padded[at : at + 64], "little"),)
                for at in range(0, len(padded), 64)
            ]
            wanted.append((data,))
        await b.until(lambda wanted=wanted: len([1 for beat in sink.got if beat[2]]) == len(wanted))
        assert joined(sink.got) == wanted and not lines.items


class Memory:
    """Answers lines of a memory after a few cycles."""

    def __init__(self, dut, data):
        self.dut, self.data, self.stall = dut, data, 0.0
        self.clear()

    def clear(self):
        self.due, self.ready = deque(), False
        quiet(self.dut, "r_ready", "q_valid", "q_data")

    def edge(self):
        if int(self.dut.r_valid.value) and self.ready:
            at = int(self.dut.r_line.value) * 64
            self.due.append(
                (random.choice([2, 2, 5]), int.from_bytes(self.data[at : at + 64], "little"))
            )
        self.due = deque((max(wait - 1, 0), line) for wait, line in self.due)
        self.dut.q_valid.value = 0
        if self.due and self.due[0][0] == 0:
            self.dut.q_valid.value, self.dut.q_data.value = 1, self.due.popleft()[1]
        self.ready = random.random() >= self.stall
        self.dut.r_ready.value = int(self.ready)


@cocotb.test(skip=TOP != "nf_spin_egress")
async def frames_leave_as_they_lie(dut):
    b = Bench(dut)
    commands = b.add(Source(dut.c_valid, dut.c_ready, [dut.c_address, dut.c_bytes, dut.c_number]))
    sink = b.add(Sink(dut.m_tvalid, dut.m_tready, [dut.m_tdata, dut.m_tkeep, dut.m_tlast]))
    memory = b.add(Memory(dut, random.randbytes(8192)))
    await b.start()
    for commands.stall, sink.stall in STALLS:
        memory.stall = sink.stall
        sink.got, wanted, done = [], [], []
        for number in range(40):
            at, size = random.randrange(6000), random.choice([1, 52, 60, 64, 65, 777, 1514])
            commands.items.append((at, size, number))
            wanted.append((memory.data[at : at + size],))
        for _ in range(20000):
            await b.run(1)
            if int(dut.done_valid.value):
                done.append(int(dut.done_number.value))
            if len(done) == 40:
                break
        assert joined(sink.got) == wanted and done == list(range(40))
    commands.stall = sink.stall = memory.stall = 0.0
    await b.run(4)
    sink.got = []
    commands.items.append((0, 1024, 0))
    await b.until(lambda: not commands.items)
    assert await b.until(lambda: sink.got) <= 10


@cocotb.test(skip=TOP != "nf_spin_host_dma")
async def strobes_become_ranges(dut):
    """Data, address and length of unaligned bursts; holes are refused, and what follows is not
    disturbed."""
    b = Bench(dut)
    address = b.add(Source(dut.aw_valid, dut.aw_ready, [dut.aw_address]))
    writes = b.add(Source(dut.w_valid, dut.w_ready, [dut.w_data, dut.w_strobe, dut.w_last]))
    answers = b.add(Sink(dut.b_valid, dut.b_ready, [dut.b_error]))
    sink = b.add(Sink(dut.m_tvalid, dut.m_tready, [dut.m_tdata, dut.m_tkeep, dut.m_tlast]))
    told = b.add(Sink(dut.d_valid, dut.d_ready, [dut.d_address, dut.d_bytes, dut.d_bad]))
    await b.start()
    for writes.stall, sink.stall in STALLS:
        told.stall = answers.stall = sink.stall
        sink.got, told.got, answers.got, wanted, ranges = [], [], [], [], []
        for _ in range(50):
            at, size = (
                random.getrandbits(58) << 6 | random.choice([0, 3, 8, 63]),
                random.choice([1, 8, 61, 64, 65, 700, 1460]),
            )
            data = random.randbytes(size)
            padded = bytes(at % 64) + data
            padded += bytes(-len(padded) % 64)
            strobes = [1] * size
            bad = random.random() < 0.2 and size > 2
            if bad:
                strobes[random.randrange(1, size - 1)] = 0
            mask = sum(bit << at % 64 + k for k, bit in enumerate(strobes))
            count = len(padded) // 64
            address.items.append((at - at % 64,))
            for k in range(count):
                line = int.from_bytes(padded[64 * k : 64 * k + 64], "little")
                writes.items.append((line, mask >> 64 * k & (1 << 64) - 1, int(k == count - 1)))
            if not bad:
                wanted.append((data,))
            ranges.append((at, size, 0) if not bad else None)
        await b.until(lambda: len(answers.got) == 50)
        assert joined(sink.got) == wanted
        assert [(int(r is None),) for r in ranges] == answers.got
        assert all(
            got[2] == 1 if want is None else got == want
            for got, want in zip(told.got, ranges, strict=True)
        )


# --- nf_spin_her


@cocotb.test(skip=TOP != "nf_spin_her")
async def contexts_and_dropped_packets(dut):
    table = [random.getrandbits(32) | 1 for _ in range(40)]
    table[0] = table[12] = 0
    dut.table_.value = sum(word << 32 * at for at, word in enumerate(table))
    quiet(dut, *"d_valid d_line h_ready h_drop f_valid f_line t_context t_handler".split())
    b = Bench(dut)
    await b.start()
    assert (int(dut.has_header.value), int(dut.has_completion.value)) == (0b1110, 0b1101)
    owed, freed, wanted = deque(), [], []
    for _ in range(800):
        context, handler = random.randrange(4), random.randrange(3)
        dut.t_context.value, dut.t_handler.value = context, handler
        frees, line = random.random() < 0.5, random.randrange(8192)
        dut.f_valid.value, dut.f_line.value = int(frees), line
        offers, packet = random.random() < 0.7, random.randrange(8192)
        dut.d_valid.value, dut.d_line.value = int(offers), packet
        asked = offers and not owed
        drops, takes = asked and random.random() < 0.5, random.random() < 0.5
        dut.h_drop.value, dut.h_ready.value = int(drops), int(drops or takes)
        await ReadOnly()
        words = table[10 * context : 10 * context + 10]
        parts = [words[handler : handler + 1], words[3:5], words[5:8], words[8:10]]
        for name, part in zip(
            ("function", "handler_memory", "host_memory", "scratchpad"), parts, strict=True
        ):
            assert int(getattr(dut, f"o_{name}").value) == sum(
                word << 32 * at for at, word in enumerate(part)
            )
        assert int(dut.h_valid.value) == asked
        assert int(dut.d_ready.value) == ((drops or takes) and not owed)
        if int(dut.free_valid.value):
            freed.append(int(dut.free_line.value))
        if frees:
            wanted.append(line)
        elif owed:
            wanted.append(owed.popleft())
        if drops:
            owed.append(packet)
        await b.run(1)
    assert freed == wanted and len(freed) > 400
