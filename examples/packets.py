"""Packets and captures for the examples' traffic scripts: plain Python, no dependencies.

Addresses are strings; every function returns bytes. Checksums are filled in. Captures are written
with `Traffic`, whose clock the scripts advance themselves, so that the same script always writes
the same files.
"""

import ipaddress
import pathlib
import struct
import sys


def mac(text):
    """Six bytes of an address such as 02:00:00:00:00:01."""
    return bytes.fromhex(text.replace(":", ""))


def checksum(data):
    """Internet checksum (RFC 1071)."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ethernet(dst, src, kind, payload):
    """An Ethernet II frame, without padding."""
    return mac(dst) + mac(src) + struct.pack("!H", kind) + payload


def vlan(tag, kind, payload):
    """An 802.1Q tag and what follows; goes behind the Ethernet type 0x8100."""
    return struct.pack("!HH", tag, kind) + payload


def ipv4(src, dst, protocol, payload, ttl=64, options=b"", identification=0, fragment=0):
    """An IPv4 packet (RFC 791)."""
    head = struct.pack(
        "!BBHHHBBH4s4s",
        0x40 | (5 + len(options) // 4),
        0,
        20 + len(options) + len(payload),
        identification,
        fragment,
        ttl,
        protocol,
        0,
        ipaddress.ip_address(src).packed,
        ipaddress.ip_address(dst).packed,
    )
    head += options
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + payload


def ipv6(src, dst, protocol, payload, hop_limit=64):
    """An IPv6 packet (RFC 8200)."""
    return (
        struct.pack("!IHBB", 6 << 28, len(payload), protocol, hop_limit)
        + ipaddress.ip_address(src).packed
        + ipaddress.ip_address(dst).packed
        + payload
    )


def _pseudo(src, dst, protocol, length):
    src, dst = ipaddress.ip_address(src).packed, ipaddress.ip_address(dst).packed
    if len(src) == 4:
        return src + dst + struct.pack("!BBH", 0, protocol, length)
    return src + dst + struct.pack("!II", length, protocol)


def udp(src, dst, sport, dport, payload, with_checksum=True):
    """A UDP datagram (RFC 768) between two IP addresses."""
    length = 8 + len(payload)
    head = struct.pack("!HHHH", sport, dport, length, 0)
    total = 0
    if with_checksum:
        total = checksum(_pseudo(src, dst, 17, length) + head + payload) or 0xFFFF
    return head[:6] + struct.pack("!H", total) + payload


SYN, ACK, FIN, RST, PSH = 0x02, 0x10, 0x01, 0x04, 0x08


def tcp(src, dst, sport, dport, flags, seq=0, ack=0, payload=b"", window=65535, options=b""):
    """A TCP segment (RFC 9293) between two IP addresses."""
    offset = 5 + len(options) // 4
    head = (
        struct.pack("!HHIIBBHHH", sport, dport, seq, ack, offset << 4, flags, window, 0, 0)
        + options
    )
    total = checksum(_pseudo(src, dst, 6, len(head) + len(payload)) + head + payload)
    return head[:16] + struct.pack("!H", total) + head[18:] + payload


def icmp(kind, code, identifier, sequence, payload=b""):
    """An ICMP message (RFC 792)."""
    head = struct.pack("!BBHHH", kind, code, 0, identifier, sequence)
    total = checksum(head + payload)
    return head[:2] + struct.pack("!H", total) + head[4:] + payload


class Traffic:
    """The captures of one example, a frame at a time, all ports on one clock that never stands
    still.

    Each frame comes with its fate: what the script's author expects the program to do with it.
    `--fates` prints the list, which the tests compare with what the program does. A fate lists the
    outputs in order, with "; " between: what `sent`, `host`, `message` and `dma` below give,
    `stack` (unchanged), `drop REASON`; or `nothing`.
    """

    def __init__(self, script):
        self.folder = pathlib.Path(script).parent
        self.now = 1_000_000_000
        self.frames = {}
        self.fates = []
        self.timers = []

    def add(self, frame, fate, port=0, after_ns=1_000):
        """Appends a frame, `after_ns` behind the last one. A fate that depends on the ticks before
        it is a function."""
        assert 14 <= len(frame) <= 3400 or port == "host", f"a frame of {len(frame)} bytes"
        assert after_ns > 0
        self.now += after_ns
        for timer in self.timers:
            timer[0] = timer[0] or self.now + timer[1]
        while self.timers and min(timer[0] for timer in self.timers) <= self.now:
            timer = min(self.timers, key=lambda timer: timer[0])
            self.fates.append(timer[2](timer[0]))
            timer[0] += timer[1]
        self.frames.setdefault(port, []).append((self.now, bytes(frame)))
        self.fates.append(fate() if callable(fate) else fate)

    def every(self, period_ns, tick):
        """A timer of the program; in the program's order, before the first frame. `tick(now)` gives a tick's fate."""
        self.timers.append([None, period_ns, tick])

    def message(self, message, fate="nothing", after_ns=1_000):
        """Appends a message of the host side."""
        self.add(message, fate, "host", after_ns)

    def write(self):
        """Writes traffic.pcap for port 0, traffic.PORT.pcap for the others, traffic.host.pcap for
        the host side."""
        for port, frames in self.frames.items():
            name = "traffic.pcap" if port == 0 else f"traffic.{port}.pcap"
            # Nanosecond time stamps, link type Ethernet.
            out = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)]
            for time, frame in frames:
                seconds, nanoseconds = divmod(time, 1_000_000_000)
                out.append(struct.pack("<IIII", seconds, nanoseconds, len(frame), len(frame)))
                out.append(frame)
            (self.folder / name).write_bytes(b"".join(out))
        if "--fates" in sys.argv:
            print("\n".join(self.fates))

    def tables(self, tables):
        """Writes tables.toml: {table: [(key, value)]}, keys and values as `toml` takes them."""
        lines = ["# Made by traffic.py.", ""]
        for name, entries in tables.items():
            for key, value in entries:
                lines += [f"[[{name}]]", f"key = {toml(key)}", f"value = {toml(value)}", ""]
        (self.folder / "tables.toml").write_text("\n".join(lines))


def toml(value):
    """A number, string, list or dictionary in TOML's inline form."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {toml(member)}" for name, member in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(toml(element) for element in value) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def nf_hash(seed, value):
    """What nf_hash(seed, value) gives for the bytes of a value: CRC-32C, mixed (see
    docs/language.md)."""
    crc = 0xFFFFFFFF
    for byte in struct.pack("<I", seed) + value:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    h = ~crc & 0xFFFFFFFF ^ seed
    h = (h ^ (h >> 16)) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & 0xFFFFFFFF
    return h ^ (h >> 16)


def sent(port, frame):
    """The fate of a frame that leaves by a port, as this frame."""
    return f"port {port} {frame.hex()}"


def host(frame):
    """The fate of a frame that goes to the program's host side, as these bytes."""
    return f"host {frame.hex()}"


def message(content):
    """A message to the host side."""
    return f"message {content.hex()}"


def dma(address, content):
    """Bytes written to host memory."""
    return f"dma {address} {content.hex()}"


def change(frame, at, new):
    """A frame with other bytes at an offset; checksums stay as they were."""
    return frame[:at] + new + frame[at + len(new) :]


def pad(frame):
    """A frame as it is on a wire: at least 60 bytes."""
    return frame.ljust(60, b"\0")


def malformed(frame, count=8):
    """Prefixes of a frame that end inside its headers, from 14 bytes (the least the kernel takes)
    on."""
    lengths = range(14, len(frame), max(1, (len(frame) - 14) // count))
    return [frame[:length] for length in lengths]


def interleave(rng, threads, at_once=40):
    """The items of several lists in random order, each list's own order kept, up to `at_once` lists
    side by side."""
    threads = [list(thread) for thread in threads if thread]
    while threads:
        thread = rng.choice(threads[:at_once])
        yield thread.pop(0)
        if not thread:
            threads.remove(thread)
