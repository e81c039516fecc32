"""Segments in and out of order, old, overlapping, beyond the window and damaged, for
tcp_rx_offload; writes traffic.pcap and tables.toml with the connections.
"""

import pathlib
import random
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import (  # noqa: E402
    ACK,
    FIN,
    PSH,
    RST,
    SYN,
    Traffic,
    change,
    checksum,
    dma,
    ethernet,
    interleave,
    ipv4,
    ipv6,
    message,
    pad,
    sent,
    tcp,
    udp,
)

rng = random.Random(12)
traffic = Traffic(__file__)
US, OUR_MAC, PEER_MAC = "192.0.2.1", "02:00:00:00:00:01", "02:00:00:00:01:01"
BUFFER_BYTES = 65536  # as in the program


class Connection:
    """A connection and what its receiver should do (RFC 9293, 3.10.7.4, with one out-of-order
    interval)."""

    def __init__(self, number, first_seq, first_pos, window):
        self.peer, self.sport, self.dport = f"10.0.0.{number}", 20000 + number, 80 + number % 3
        self.buffer = 0x7F00_0000_0000 + number * BUFFER_BYTES
        self.first_seq, self.first_pos, self.first_window = first_seq, first_pos, window
        self.tx_seq = rng.randrange(1 << 32)
        self.stream = rng.randbytes(4000)
        # Bytes taken in order, and the interval beyond; both as offsets into the stream.
        self.taken, self.kept = 0, None
        self.memory = {}

    def entry(self):
        """The connection as the host enters it into the program's table."""
        key = {"src": self.peer, "dst": US, "sport": self.sport, "dport": self.dport, "protocol": 6}
        value = {"buffer": self.buffer, "next_pos": self.first_pos, "available": self.first_window}
        return key, value | {"next_seq": self.first_seq, "tx_seq": self.tx_seq}

    def segment(self, start, size, flags=PSH | ACK, window=1000, **header):
        """The frame with bytes start to start + size of the stream (what is before or behind it is
        zero)."""
        content = bytes(
            self.stream[i] if 0 <= i < len(self.stream) else 0 for i in range(start, start + size)
        )
        seq = (self.first_seq + start) % 2**32
        body = tcp(self.peer, US, self.sport, self.dport, flags, seq, self.tx_seq, content, window)
        return pad(ethernet(OUR_MAC, PEER_MAC, 0x0800, ipv4(self.peer, US, 6, body, **header)))

    def send(self, start, size, flags=PSH | ACK):
        """Adds such a segment with what should become of it."""
        window = rng.randrange(65536)
        frame = self.segment(
            start,
            size,
            flags,
            window,
            ttl=rng.randrange(2, 256),
            identification=rng.randrange(65536),
        )
        if size == 0:
            traffic.add(frame, f"{self.told(0, window)}; drop pure acknowledgement")
            return
        end = min(start + size, self.first_window)
        start = max(start, self.taken)
        before, writes = self.taken, []
        if start < end:
            if start == self.taken:
                writes = self.store(start, end)
                self.taken = end
                if self.kept and self.kept[0] <= end:
                    self.taken = max(end, self.kept[1])
                    self.kept = None
            elif self.kept is None or start == self.kept[1] or end == self.kept[0]:
                writes = self.store(start, end)
                self.kept = (
                    (min(start, self.kept[0]), max(end, self.kept[1]))
                    if self.kept
                    else (start, end)
                )
        answer = tcp(
            US,
            self.peer,
            self.dport,
            self.sport,
            ACK,
            self.tx_seq,
            (self.first_seq + self.taken) % 2**32,
            window=min(65535, self.first_window - self.taken),
        )
        packet = ipv4(
            US,
            self.peer,
            6,
            answer,
            identification=int.from_bytes(frame[18:20], "big"),
            fragment=0x4000,
        )
        reply = ethernet(PEER_MAC, OUR_MAC, 0x0800, packet)
        traffic.add(
            frame, "; ".join(writes + [self.told(self.taken - before, window), sent(0, reply)])
        )

    def told(self, delivered, window):
        return message(struct.pack("<IIII", self.dport, delivered, self.tx_seq, window))

    def store(self, start, end):
        """Writes to the ring, in two parts if it ends in between."""
        pos = (self.first_pos + start) % BUFFER_BYTES
        content = self.stream[start:end]
        first = min(len(content), BUFFER_BYTES - pos)
        parts = [(pos, content[:first]), (0, content[first:])]
        for at, part in parts:
            self.memory |= {at + i: byte for i, byte in enumerate(part)}
        return [dma(self.buffer + at, part) for at, part in parts if part]

    def whole(self):
        """Everything that was taken is where the application looks for it."""
        ring = bytes(self.memory[(self.first_pos + i) % BUFFER_BYTES] for i in range(self.taken))
        return ring == self.stream[: self.taken]


connections = []
for number in range(1, 43):
    first_seq = 2**32 - rng.randrange(1, 3000) if number % 4 == 0 else rng.randrange(2**32)
    first_pos = (
        BUFFER_BYTES - rng.randrange(1, 2500) if number % 3 == 0 else rng.randrange(BUFFER_BYTES)
    )
    window = rng.choice([0, 1, 500, 2000]) if number % 5 == 0 else rng.randrange(4001, 65537)
    connections.append(Connection(number, first_seq, first_pos, window))
traffic.tables({"flows": [connection.entry() for connection in connections]})

# Each stream in pieces; neighbours change places, come twice, overlap, or are lost at first and
# sent again at the end.
threads = []
for connection in connections:
    pieces, at = [], 0
    while at < 2800:
        size = rng.choice([1, 4, 40, 100, 150, 200])
        pieces.append((at, min(size, 4000 - at)))
        at += size
    for i in range(len(pieces) - 1):
        if rng.randrange(4) == 0:
            pieces[i], pieces[i + 1] = pieces[i + 1], pieces[i]
    extra = []
    for start, size in pieces:
        extra.append((start, size))
        what = rng.randrange(12)
        if what == 0:
            extra.append((start, size))
        elif what == 1:
            extra.append((max(0, start - 30), size + 30))
        elif what == 2:
            extra.append((start + 300, 80))
        elif what == 3:
            extra.append((start, 0))
        elif what == 4:
            extra.append((start + 70000, 10))
    # The sender fills what is missing at last.
    if connection.first_window > 4000 and rng.randrange(3) == 0:
        extra += [(at, 200) for at in range(0, 3000, 200)]
    threads.append([(connection, start, size) for start, size in extra])
for connection, start, size in interleave(rng, threads):
    connection.send(start, size)
assert all(connection.whole() for connection in connections)
assert sum(connection.taken >= 2800 for connection in connections) > 10

# What the host's own stack must see, and what is damaged.
one = connections[0]


def renewed(frame, at, new):
    """A change in the IPv4 header with its checksum made right again."""
    frame = change(change(frame, at, new), 24, b"\0\0")
    return change(frame, 24, struct.pack("!H", checksum(frame[14:34])))


for i in range(8):
    data = one.segment(one.taken, 20)
    stranger = tcp("10.9.9.9", US, 1, 2, ACK, payload=b"hello")
    with_options = tcp(
        one.peer,
        US,
        one.sport,
        one.dport,
        ACK,
        1,
        1,
        b"hello",
        options=bytes([8, 10]) + bytes(8) + b"\1\1",
    )
    for frame in [
        one.segment(one.taken, 0, SYN),
        one.segment(one.taken, 5, FIN | ACK),
        one.segment(one.taken, 0, RST),
        pad(ethernet(OUR_MAC, PEER_MAC, 0x0800, ipv4("10.9.9.9", US, 6, stranger))),
        pad(ethernet(OUR_MAC, PEER_MAC, 0x0800, ipv4(one.peer, US, 6, with_options))),
        one.segment(one.taken, 20, fragment=0x2000),
        one.segment(one.taken, 20, fragment=0x0004),
        one.segment(one.taken, 20, options=b"\1" * 4),
        change(data, 14, b"\x65"),
        pad(
            ethernet(
                OUR_MAC, PEER_MAC, 0x0800, ipv4(one.peer, US, 17, udp(one.peer, US, 5, 6, b"hello"))
            )
        ),
        ethernet("ff:ff:ff:ff:ff:ff", PEER_MAC, 0x0806, bytes(28)),
        ethernet(OUR_MAC, PEER_MAC, 0x86DD, ipv6("2001:db8::1", "2001:db8::2", 6, bytes(20))),
    ]:
        traffic.add(frame, "stack")
    for frame, why in [
        (change(data, 22, b"\x01"), "bad IPv4 checksum"),
        (change(data, 55 + i, bytes([data[55 + i] ^ 1])), "bad TCP checksum"),
        (change(data, 48, b"\x12\x34"), "bad TCP checksum"),
        (renewed(data, 16, b"\x00\x27"), "bad length"),
        (renewed(data, 16, b"\x05\x00"), "bad length"),
    ]:
        traffic.add(frame, f"drop {why}")
for length in range(14, len(data)):
    # The lengths do not fit any more once the headers are whole.
    traffic.add(data[:length], "stack" if length < 54 else "drop bad length")
traffic.write()
