"""Writes of several packets by several queue pairs, with losses, wrong keys and wrong lengths, for
rdma_write; writes traffic.pcap, traffic.1.pcap and tables.toml."""

import pathlib
import random
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import Traffic, dma, ethernet, ipv4, malformed, message, sent, udp  # noqa: E402

FIRST, MIDDLE, LAST, ONLY = 6, 7, 8, 10
ACK, NAK_SEQUENCE, NAK_ACCESS = 0x1F, 0x60, 0x62
MTU = 256
NIC, PEER = "02:00:00:00:00:01", "02:00:00:00:00:02"
rng = random.Random(37)
traffic = Traffic(__file__)
regions = {
    key: (rng.randrange(1 << 44) << 12, rng.randrange(1, 64) << 12) for key in range(100, 140)
}
pairs = {}


def pair(number):
    return pairs.setdefault(number, {"address": 0, "left": 0, "psn": 0, "done": 0})


def take(number, opcode, reth, payload, fates):
    """The syndrome of the answer; what the packet does to its pair."""
    p = pair(number)
    if opcode in (FIRST, ONLY):
        if p["left"] != 0:
            p["left"] = 0
            return NAK_ACCESS
        address, rkey, length = reth
        if rkey in regions:
            base, size = regions[rkey]
            p["address"], p["left"] = address, length
        if rkey not in regions or not base <= address <= base + size - length:
            p["left"] = 0
            return NAK_ACCESS
    if len(payload) > p["left"] or (opcode in (LAST, ONLY) and len(payload) != p["left"]):
        p["left"] = 0
        return NAK_ACCESS
    fates.append(dma(p["address"], payload))
    p["address"] += len(payload)
    p["left"] -= len(payload)
    p["psn"] = (p["psn"] + 1) & 0xFFFFFF
    if opcode in (LAST, ONLY):
        p["done"] += 1
        fates.append(message(struct.pack("<II", number, p["done"])))
    return ACK


def packet(number, opcode, psn, reth, payload, port):
    """A packet of a write and what becomes of it."""
    head = struct.pack("!BBHII", opcode, 0, 0xFFFF, number, psn)
    if opcode in (FIRST, ONLY):
        address, rkey, length = reth
        head += struct.pack("!QII", address, rkey, length)
    body = udp("10.0.0.2", "10.0.0.1", 49152 + number, 4791, head + payload)
    frame = ethernet(NIC, PEER, 0x0800, ipv4("10.0.0.2", "10.0.0.1", 17, body))
    fates = []
    p = pair(number)
    syndrome = NAK_SEQUENCE
    if psn == p["psn"]:
        syndrome = take(number, opcode, reth, payload, fates)
    answer = struct.pack("!BBHIII", 17, 0, 0xFFFF, number, psn, syndrome << 24 | p["done"])
    answer = udp("10.0.0.1", "10.0.0.2", 49152 + number, 4791, answer, with_checksum=False)
    answer = ethernet(PEER, NIC, 0x0800, ipv4("10.0.0.1", "10.0.0.2", 17, answer))
    traffic.add(frame, "; ".join([*fates, sent(port, answer)]), port, rng.randrange(100, 2000))
    return syndrome == ACK


def write(number):
    """A write of up to eight packets, of which some are lost, repeated or wrong."""
    rkey = rng.choice(list(regions))
    base, size = regions[rkey]
    length = rng.randrange(1, 8 * MTU)
    address = base + rng.randrange(size - min(length, size) + 1)
    fault = rng.random()
    if fault < 0.05:
        rkey = 7
    elif fault < 0.1:
        address = base + size - length + 1
    elif fault < 0.15:
        length += 1
    reth = (address, rkey, length)
    left = rng.randbytes(length - (0.1 <= fault < 0.15))
    parts = [left[at : at + MTU] for at in range(0, len(left), MTU)] or [b""]
    for at, part in enumerate(parts):
        ends = at == len(parts) - 1
        opcode = (ONLY if ends else FIRST) if at == 0 else (LAST if ends else MIDDLE)
        psn = pair(number)["psn"]
        if rng.random() < 0.03:
            packet(number, opcode, (psn + 1) & 0xFFFFFF, reth, part, number % 2)
        if not packet(number, opcode, psn, reth, part, number % 2):
            return


for _ in range(520):
    write(rng.randrange(40))
other = udp("10.0.0.2", "10.0.0.1", 1, 53, bytes(20))
other = ethernet(NIC, PEER, 0x0800, ipv4("10.0.0.2", "10.0.0.1", 17, other))
traffic.add(other, "stack", 0)
read = udp("10.0.0.2", "10.0.0.1", 1, 4791, struct.pack("!BBHII", 12, 0, 0xFFFF, 1, 0) + bytes(16))
read = ethernet(NIC, PEER, 0x0800, ipv4("10.0.0.2", "10.0.0.1", 17, read))
traffic.add(read, "drop no write", 0)
for short in malformed(read, 6):
    if len(short) < 42:
        traffic.add(short, "stack", 0)
    elif len(short) < len(read):
        traffic.add(short, "drop no write", 0)
traffic.tables(
    {"regions": [(key, {"base": base, "length": size}) for key, (base, size) in regions.items()]}
)
traffic.write()
