"""nf_lpm: a trie kept by the host, against a plain list of prefixes; changes between lookups;
reset."""

import os
import random

import cocotb
from streams import Bench, Sink, Source

KEY, STRIDE, NODES = (int(os.environ[name]) for name in ("KEY", "STRIDE", "NODES"))
LEVELS = -(-KEY // STRIDE)


class Trie:
    """What the host keeps: prefixes, the nodes of each level, and the entries that changed."""

    def __init__(self):
        self.prefixes, self.children, self.used = {}, {}, [1] + [0] * (LEVELS - 1)

    def longest(self, key):
        """The value of the longest prefix of at least one bit that covers the key."""
        for length in range(KEY, 0, -1):
            value = self.prefixes.get((key >> (KEY - length), length))
            if value is not None:
                return value
        return None

    def insert(self, prefix, length, value):
        """The entry writes for one more prefix, children first; None if the nodes do not
        suffice."""
        path, node, writes = [], 0, []  # path: entries that get a child
        level = (length - 1) // STRIDE
        padded = prefix << (LEVELS * STRIDE - length)
        for depth in range(level):
            bits = padded >> ((LEVELS - 1 - depth) * STRIDE) & ((1 << STRIDE) - 1)
            if (depth, node, bits) not in self.children:
                if self.used[depth + 1] == NODES:
                    for made in path:
                        self.used[made[0] + 1] -= 1
                        del self.children[made]
                    return None
                self.children[depth, node, bits] = self.used[depth + 1]
                self.used[depth + 1] += 1
                path.append((depth, node, bits))
            node = self.children[depth, node, bits]
        self.prefixes[prefix, length] = value
        spare = (level + 1) * STRIDE - length
        first = padded >> ((LEVELS - 1 - level) * STRIDE) & ((1 << STRIDE) - 1)
        for bits in range(first, first + (1 << spare)):
            upper = padded >> ((LEVELS - level) * STRIDE) << ((LEVELS - level) * STRIDE)
            writes.append(
                self.entry(level, node, bits, upper | bits << ((LEVELS - 1 - level) * STRIDE))
            )
        for depth, at, bits in reversed(path):
            upper = padded >> ((LEVELS - 1 - depth) * STRIDE) << ((LEVELS - 1 - depth) * STRIDE)
            writes.append(self.entry(depth, at, bits, upper))
        return writes

    def entry(self, level, node, bits, padded):
        """The entry's value is that of the longest prefix that ends in this level."""
        key = padded >> (LEVELS * STRIDE - KEY)
        value = None
        for length in range(min((level + 1) * STRIDE, KEY), level * STRIDE, -1):
            value = self.prefixes.get((key >> (KEY - length), length)) if value is None else value
        child = self.children.get((level, node, bits))
        return (
            level,
            node << STRIDE | bits,
            int(value is not None),
            int(child is not None),
            child or 0,
            value or 0,
        )


async def bench(dut):
    bench = Bench(dut)
    bench.lookups = bench.add(Source(dut.s_valid, None, [dut.s_key], 0.2))
    fields = [dut.w_level, dut.w_entry, dut.w_has_value, dut.w_has_child, dut.w_child, dut.w_value]
    bench.writes = bench.add(Source(dut.w_valid, None, fields, 0.2))
    bench.answers = bench.add(Sink(dut.m_valid, None, [dut.m_hit, dut.m_value]))
    await bench.start()
    for bits in range(1 << STRIDE):
        bench.writes.items.append((0, bits, 0, 0, 0, 0))
    await bench.until(lambda: not bench.writes.items)
    return bench


async def answers(b, keys):
    b.answers.got, b.lookups.items = [], [(key,) for key in keys]
    await b.until(lambda: len(b.answers.got) == len(keys))
    return [value if hit else None for hit, value in b.answers.got]


def random_prefix(trie, nested):
    """A prefix of at least four bits; if `nested`, one that is there or a longer one below it."""
    if nested and trie.prefixes:
        prefix, length = random.choice(list(trie.prefixes))
        more = random.randint(0, KEY - length)
        return prefix << more | random.getrandbits(more) if more else prefix, length + more
    length = random.randint(4, KEY)
    return random.getrandbits(length), length


@cocotb.test()
async def longest_prefix_wins_while_prefixes_come(dut):
    b = await bench(dut)
    trie, seen = Trie(), set()
    for _ in range(6):
        for step in range(12):
            prefix, length = random_prefix(trie, step % 2)
            b.writes.items += trie.insert(prefix, length, random.getrandbits(12)) or []
        await b.until(lambda: not b.writes.items)
        await b.run(2)
        keys = [random.getrandbits(KEY) for _ in range(60)]
        for prefix, length in trie.prefixes:
            rest = KEY - length
            keys.append(prefix << rest | random.getrandbits(rest) if rest else prefix)
        got = await answers(b, keys)
        assert got == [trie.longest(key) for key in keys]
        seen |= set(got)
    assert None in seen and len(seen) > 20


@cocotb.test()
async def latency_throughput_and_reset(dut):
    b = await bench(dut)
    b.lookups.stall = 0.0
    b.answers.got, b.lookups.items = [], [(i,) for i in range(100)]
    # Two cycles a level, and two for the first to go in and the last to be seen.
    assert await b.until(lambda: len(b.answers.got) == 100) <= 100 + 2 * LEVELS + 2
    b.answers.got, b.lookups.items = [], [(i,) for i in range(4)]
    await b.run(4)
    await b.reset()
    await b.run(3 * LEVELS)
    assert b.answers.got == []
