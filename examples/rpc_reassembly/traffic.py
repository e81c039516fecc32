"""RPC messages in segments, some damaged, repeated or out of order, for rpc_reassembly; writes
traffic.pcap."""

import pathlib
import random
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import (
    Traffic,
    change,
    ethernet,
    host,
    icmp,
    interleave,
    ipv4,
    ipv6,
    malformed,
    pad,
    udp,
)  # noqa: E402

rng = random.Random(10)
traffic = Traffic(__file__)
PORT, MAX_MESSAGE, CHANNELS = 7000, 8192, 1024  # as in the program
US, OUR_MAC = "192.0.2.1", "02:00:00:00:00:01"

known = set()


def segment(channel, seq, payload, total, length=None, port=PORT, **header):
    """One segment; `length` is what its header says if that is not the truth."""
    head = struct.pack("!IIII", channel, seq, len(payload) if length is None else length, total)
    peer = f"10.0.{channel >> 8 & 255}.{channel & 255}"
    datagram = udp(peer, US, 40000 + channel % 1000, port, head + payload)
    return pad(
        ethernet(OUR_MAC, "02:00:00:00:01:01", 0x0800, ipv4(peer, US, 17, datagram, **header))
    )


def message(channel, seq, size, most):
    """(channel, frame, fate) of each segment of a message of `size` bytes, at most `most` in
    each."""
    content = rng.randbytes(size)
    out = []
    for at in range(0, size, most):
        part = content[at : at + most]
        last = at + most >= size
        fate = f"{host(content)}; drop segment taken" if last else "drop segment taken"
        out.append((channel, segment(channel, seq, part, size), fate))
        # Some are sent again, or the next but one comes too early.
        if rng.randrange(8) == 0:
            out.append((channel, segment(channel, seq, part, size), "drop out of order"))
        if rng.randrange(8) == 0:
            out.append((channel, segment(channel, seq + 2, part, size), "drop out of order"))
        seq += 1
        if rng.randrange(10) == 0 and not last:
            left = size - at - most
            for bad, why in [
                (
                    segment(channel, seq, rng.randbytes(left + 1), size),
                    "more than the message has left",
                ),
                (segment(channel, seq, b"12345678", size, length=7), "bad length"),
                (segment(channel, seq, b"12345678", size, length=9), "bad length"),
                (segment(channel, seq, b"12345678", size, length=0x80000000), "bad length"),
                (segment(channel, seq, b"", size), "bad length"),
                (segment(channel, seq, b"1", MAX_MESSAGE + 1), "bad length"),
            ]:
                if len(bad) < 1000:
                    out.append((channel, bad, f"drop {why}"))
    return out, seq


threads = []
for channel in range(1, 90):
    thread, seq = [], 0
    for _ in range(rng.randrange(1, 5)):
        segments, seq = message(
            channel,
            seq,
            rng.randrange(1, 300),
            rng.choice([1, 30, 60, 100]) if rng.randrange(3) else 300,
        )
        thread += segments[:60] if seq < 60 else []
        if seq >= 60:
            break
    threads.append(thread)
for size, most in [(MAX_MESSAGE, 1400), (MAX_MESSAGE, 1024), (MAX_MESSAGE - 1, 3000), (3000, 3000)]:
    threads.append(message(200 + len(threads), 0, size, most)[0])
for channel, frame, fate in interleave(rng, threads):
    known.add(channel)
    traffic.add(frame, fate)
# A first segment that is larger than its message, which makes no channel; a message of nothing.
traffic.add(segment(999, 0, b"four", 3), "drop more than the message has left")
traffic.add(segment(999, 0, b"four", 0), "drop more than the message has left")
# More channels than there is room for.
for channel in range(2000, 2000 + CHANNELS):
    room = len(known) < CHANNELS
    known |= {channel} if room else set()
    traffic.add(
        segment(channel, 0, b"hi", 2),
        f"{host(b'hi')}; drop segment taken" if room else "drop too many channels",
    )

# What is none of ours.
good = segment(1, 0, b"hello", 5)
for _ in range(8):
    for frame in [
        segment(1, 0, b"hello", 5, port=7001),
        segment(1, 0, b"hello", 5, options=b"\x01" * 4),
        segment(1, 0, b"hello", 5, fragment=0x2000),
        segment(1, 0, b"hello", 5, fragment=0x0001),
        change(good, 23, b"\x06"),
        ethernet(OUR_MAC, "02:00:00:00:01:01", 0x0800, ipv4("10.0.0.1", US, 1, icmp(8, 0, 1, 1))),
        ethernet("ff:ff:ff:ff:ff:ff", "02:00:00:00:01:01", 0x0806, bytes(28)),
        ethernet(
            OUR_MAC, "02:00:00:00:01:01", 0x86DD, ipv6("2001:db8::1", "2001:db8::2", 17, bytes(30))
        ),
    ]:
        traffic.add(frame, "stack")
for frame in malformed(segment(5000, 0, bytes(20), 20), 70):
    traffic.add(
        frame,
        "stack"
        if len(frame) < 42
        else "drop shorter than an RPC header"
        if len(frame) < 58
        else "drop bad length",
    )
traffic.write()
