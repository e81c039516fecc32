"""Packets and captures for the examples' traffic scripts: plain Python, no dependencies.

Addresses are strings; every function returns bytes. Checksums are filled in. A capture is written with `Capture`, whose
clock the scripts advance themselves, so that the same script always writes the same file.
"""

import ipaddress
import pathlib
import struct


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
    head = struct.pack("!HHIIBBHHH", sport, dport, seq, ack, offset << 4, flags, window, 0, 0) + options
    total = checksum(_pseudo(src, dst, 6, len(head) + len(payload)) + head + payload)
    return head[:16] + struct.pack("!H", total) + head[18:] + payload


def icmp(kind, code, identifier, sequence, payload=b""):
    """An ICMP message (RFC 792)."""
    head = struct.pack("!BBHHH", kind, code, 0, identifier, sequence)
    total = checksum(head + payload)
    return head[:2] + struct.pack("!H", total) + head[4:] + payload


class Capture:
    """A pcap file in the making: nanosecond time stamps, link type Ethernet."""

    def __init__(self):
        self.frames = []
        self.now = 1_000_000_000

    def add(self, frame, after_ns=1_000):
        """Appends a frame, `after_ns` behind the last one."""
        self.now += after_ns
        self.frames.append((self.now, bytes(frame)))

    def at(self, time_ns):
        """Sets the clock, for several captures that belong together."""
        self.now = time_ns

    def write(self, script, name="traffic.pcap"):
        """Writes the file beside the script that made it."""
        path = pathlib.Path(script).parent / name
        out = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)]
        for time, frame in self.frames:
            seconds, nanoseconds = divmod(time, 1_000_000_000)
            out.append(struct.pack("<IIII", seconds, nanoseconds, len(frame), len(frame)))
            out.append(frame)
        path.write_bytes(b"".join(out))


def malformed(frame, count=8):
    """Prefixes of a frame that end inside its headers, from 14 bytes (the least the kernel takes) on."""
    lengths = range(14, len(frame), max(1, (len(frame) - 14) // count))
    return [frame[:length] for length in lengths]
