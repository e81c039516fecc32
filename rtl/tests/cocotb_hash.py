"""nf_crc32c and nf_toeplitz: published test vectors, and plain loops on random inputs."""

import os
import random

import cocotb
from streams import Bench, Sink, Source

TOP = os.environ["TOP"]

# Microsoft's secret and vectors for receive-side scaling of IPv4 with ports: source, destination,
# ports, hash.
SECRET = int(
    "6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa",
    16,
)
VECTORS = [
    ("66.9.149.187", "161.142.100.80", 2794, 1766, 0x51CCC178),
    ("199.92.111.2", "65.69.140.83", 14230, 4739, 0xC626B0EA),
    ("24.19.198.95", "12.22.207.184", 12898, 38024, 0x5C2B394A),
    ("38.27.205.30", "209.142.163.6", 48228, 2217, 0xAFC7327F),
    ("153.39.163.191", "202.188.127.2", 44251, 1303, 0x10E828A2),
]


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def toeplitz(secret, bits, value):
    total = 0
    for i in range(bits):
        if value >> (bits - 1 - i) & 1:
            total ^= secret >> (bits - i) & 0xFFFFFFFF
    return total


@cocotb.test(skip=TOP != "nf_crc32c")
async def remainders(dut):
    size = int(os.environ.get("BYTES", 0))
    b = Bench(dut)
    source = b.add(Source(dut.s_valid, None, [dut.s_key], 0.1))
    sink = b.add(Sink(dut.m_valid, None, [dut.m_crc]))
    await b.start()
    keys = [random.randbytes(size) for _ in range(300)] + [bytes(size), bytes([255]) * size]
    if size == 9:
        keys.append(b"123456789")
    source.items = [(int.from_bytes(key, "little"),) for key in keys]
    await b.until(lambda: len(sink.got) == len(keys))
    assert sink.got == [(crc32c(key),) for key in keys]
    assert size != 9 or sink.got[-1] == (0xE3069283,)


@cocotb.test(skip=TOP != "nf_toeplitz")
async def hashes(dut):
    b = Bench(dut)
    source = b.add(Source(dut.s_valid, None, [dut.s_input], 0.1))
    sink = b.add(Sink(dut.m_valid, None, [dut.m_hash]))
    secret = SECRET >> (320 - 128)
    dut.secret.value = secret
    await b.start()
    inputs, wanted = [], []
    for src, dst, sport, dport, want in VECTORS:
        address = bytes(int(part) for part in (src + "." + dst).split("."))
        inputs.append(
            int.from_bytes(address + sport.to_bytes(2, "big") + dport.to_bytes(2, "big"), "big")
        )
        wanted.append((want,))
    for _ in range(300):
        inputs.append(random.getrandbits(96))
        wanted.append((toeplitz(secret, 96, inputs[-1]),))
    source.items = [(value,) for value in inputs]
    await b.until(lambda: len(sink.got) == len(inputs))
    assert sink.got == wanted
