"""Frames into and out of tunnels, for aes_tunnel; writes traffic.pcap (the local network),
traffic.1.pcap (the underlay) and tables.toml. OpenSSL encrypts, by way of its library.
"""

import ctypes
import ctypes.util
import pathlib
import random
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import Traffic, change, ethernet, ipv4, malformed, sent, udp  # noqa: E402

rng = random.Random(14)
traffic = Traffic(__file__)
crypto = ctypes.CDLL(ctypes.util.find_library("crypto"))
crypto.EVP_CIPHER_CTX_new.restype = ctypes.c_void_p
crypto.EVP_aes_128_gcm.restype = ctypes.c_void_p
context = ctypes.c_void_p(crypto.EVP_CIPHER_CTX_new())
GET_TAG = 0x10


def sealed(key, nonce, beside, plain):
    """The tag and the encrypted bytes (NIST SP 800-38D)."""
    cipher = ctypes.c_void_p(crypto.EVP_aes_128_gcm())
    out, tag, n = ctypes.create_string_buffer(len(plain) + 16), bytes(16), ctypes.c_int()
    tag = ctypes.create_string_buffer(16)
    calls = [
        crypto.EVP_EncryptInit_ex(context, cipher, None, key, nonce),
        crypto.EVP_EncryptUpdate(context, None, ctypes.byref(n), beside, len(beside)),
        crypto.EVP_EncryptUpdate(context, out, ctypes.byref(n), plain, len(plain)),
        crypto.EVP_EncryptFinal_ex(context, None, ctypes.byref(n)),
        crypto.EVP_CIPHER_CTX_ctrl(context, GET_TAG, 16, tag),
    ]
    assert all(done == 1 for done in calls), calls
    return tag.raw + out.raw[: len(plain)]


class Tunnel:
    """One direction of a tunnel, with its key and sequence number."""

    def __init__(self, spi, ends, macs):
        self.key, self.salt, self.spi = rng.randbytes(16), rng.randbytes(4), spi
        self.ends, self.macs, self.seq = ends, macs, 0

    def outer(self, plain, seq=None):
        if seq is None:
            self.seq += 1
            seq = self.seq
        head = struct.pack("!II", self.spi, seq)
        body = head + sealed(self.key, self.salt + head, head, plain)
        datagram = udp(*self.ends, 4500, 4500, body, with_checksum=False)
        return ethernet(*self.macs, 0x0800, ipv4(*self.ends, 17, datagram))


SELF, SELF_MAC = "192.0.2.1", "02:00:00:00:00:01"
PEERS = [(f"02:00:00:00:{i + 2:02x}:01", f"192.0.2.{i + 2}") for i in range(40)]
there = {}
back = {}
for i, (host, address) in enumerate(PEERS):
    hop = f"02:00:00:00:00:{i + 2:02x}"
    there[host] = Tunnel(0x1000 + i, (SELF, address), (hop, SELF_MAC))
    back[host] = Tunnel(0x2000 + i, (address, SELF), (SELF_MAC, hop))


def number(data):
    return ".".join(str(byte) for byte in data)


traffic.tables(
    {
        "peers": [
            (
                host,
                {
                    "key": tunnel.key.hex(),
                    "salt": number(tunnel.salt),
                    "spi": number(struct.pack("!I", tunnel.spi)),
                    "here": SELF,
                    "there": tunnel.ends[1],
                    "own": SELF_MAC,
                    "hop": tunnel.macs[0],
                },
            )
            for host, tunnel in there.items()
        ],
        "origins": [
            (
                number(struct.pack("!I", tunnel.spi)),
                {"key": tunnel.key.hex(), "salt": number(tunnel.salt)},
            )
            for tunnel in back.values()
        ],
    }
)


def inner(dst, src):
    size = rng.randrange(400, 1300) if rng.randrange(25) == 0 else rng.randrange(0, 80)
    payload = udp("10.0.0.1", "10.0.0.2", 5, 6, rng.randbytes(size))
    return ethernet(dst, src, 0x0800, ipv4("10.0.0.1", "10.0.0.2", 17, payload))


for _ in range(900):
    host = rng.choice(list(there))
    here = f"02:00:00:00:01:{rng.randrange(256):02x}"
    frame = inner(host, here)
    traffic.add(frame, sent(1, there[host].outer(frame)), 0)
    frame = inner(here, host)
    tunnel = back[host]
    kind = rng.randrange(12)
    if kind == 0:
        # A few are lost on the way, so the next one is ahead.
        tunnel.seq += rng.choice([1, 5, 62, 63, 64, 70])
    outer = tunnel.outer(frame)
    if kind == 1:
        at = rng.randrange(50, len(outer))
        traffic.add(change(outer, at, bytes([outer[at] ^ 1])), "drop not authentic", 1)
    if kind == 2 and tunnel.seq > 2:
        # One that comes late, once before the one after it and once behind.
        tunnel.seq += 1
        traffic.add(tunnel.outer(frame), sent(0, frame), 1)
        late = tunnel.seq - 1
        traffic.add(tunnel.outer(frame, late), sent(0, frame), 1)
        traffic.add(tunnel.outer(frame, late), "drop replayed", 1)
        traffic.add(outer, sent(0, frame), 1)
        continue
    traffic.add(outer, sent(0, frame), 1)
    if kind == 3:
        traffic.add(outer, "drop replayed", 1)
    if kind == 4:
        traffic.add(inner("02:00:00:00:09:09", here), "drop no tunnel leads there", 0)
    if kind == 5 and tunnel.seq > 70:
        traffic.add(tunnel.outer(frame, tunnel.seq - 64), "drop replayed", 1)

good = back[PEERS[0][0]].outer(inner("02:00:00:00:01:05", PEERS[0][0]))
for wrong, fate in [
    (change(good, 42, b"\x77"), "drop unknown SPI"),
    (change(good, 46, bytes(4)), "drop replayed"),
    (change(good, 12, b"\x86\xdd"), "drop no sealed frame"),
    (change(good, 14, b"\x46"), "drop no sealed frame"),
    (change(good, 23, b"\x06"), "drop no sealed frame"),
    (change(good, 36, b"\x12\xb6"), "drop no sealed frame"),
]:
    traffic.add(wrong, fate, 1)
for frame in malformed(good[:66], 50):
    traffic.add(frame, "drop no sealed frame" if len(frame) < 66 else "drop not authentic", 1)
traffic.write()
