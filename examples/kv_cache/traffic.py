"""GETs and SETs of small items, and all other requests of memcached, for kv_cache; writes
traffic.pcap."""

import pathlib
import random
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from packets import ACK, Traffic, change, ethernet, ipv4, ipv6, malformed, pad, sent, tcp, udp, vlan  # noqa: E402

rng = random.Random(15)
traffic = Traffic(__file__)
US, OUR_MAC, CLIENT_MAC = "192.0.2.11", "02:00:00:00:00:01", "02:00:00:00:01:01"
PORT, KEY_BYTES, VALUE_BYTES = 11211, 32, 64  # as in the program
GET, SET, ADD, DELETE, INCREMENT, FLUSH, GETK, NOOP = 0x00, 0x01, 0x02, 0x04, 0x05, 0x08, 0x0C, 0x0A

# What the cache should hold: key to (flags, value).
items = {}


def binary(magic, opcode, key=b"", extras=b"", value=b"", opaque=0, cas=0, body=None, data_type=0):
    """A request or response of the binary protocol; `body` is its length field if that is not the
    truth."""
    body = len(extras + key + value) if body is None else body
    head = struct.pack(
        "!BBHBBHIIQ", magic, opcode, len(key), len(extras), data_type, 0, body, opaque, cas
    )
    return head + extras + key + value


def datagram(number, content, datagrams=1):
    """With memcached's own header for UDP: request, sequence, number of datagrams."""
    return struct.pack("!HHHH", number, 0, datagrams, 0) + content


def packet(content, sport=4000, client="10.0.0.1", port=PORT, checksum=True, **header):
    body = udp(client, US, sport, port, content, checksum)
    return pad(ethernet(OUR_MAC, CLIENT_MAC, 0x0800, ipv4(client, US, 17, body, **header)))


def ask(opcode, key, extras=b"", value=b"", cas=0, reply=None):
    """Adds a request; `reply` makes the answer from its opaque number, without one it goes to the
    stack."""
    client, sport = f"10.0.{rng.randrange(4)}.{rng.randrange(1, 255)}", rng.randrange(1024, 65536)
    number, opaque, identification = (
        rng.randrange(65536),
        rng.randrange(1 << 32),
        rng.randrange(65536),
    )
    content = datagram(number, binary(0x80, opcode, key, extras, value, opaque, cas))
    more = {
        "ttl": rng.randrange(1, 256),
        "identification": identification,
        "checksum": rng.randrange(4) > 0,
    }
    frame = packet(content, sport, client, **more)
    if reply is None:
        traffic.add(frame, "stack")
        return
    answer = udp(US, client, PORT, sport, datagram(number, reply(opaque)), with_checksum=False)
    answer = ipv4(US, client, 17, answer, identification=identification)
    traffic.add(frame, sent(0, ethernet(CLIENT_MAC, OUR_MAC, 0x0800, answer)))


def get(key):
    if key not in items:
        ask(GET, key)
        return
    flags, value = items[key]
    ask(
        GET,
        key,
        reply=lambda opaque: binary(
            0x81, GET, extras=struct.pack("!I", flags), value=value, opaque=opaque
        ),
    )


def put(key, value, flags=0, expiration=0, cas=0):
    extras = struct.pack("!II", flags, expiration)
    if len(key) > KEY_BYTES or len(value) > VALUE_BYTES or expiration or cas:
        items.pop(key, None)
        ask(SET, key, extras, value, cas)
        return
    items[key] = (flags, value)
    ask(SET, key, extras, value, reply=lambda opaque: binary(0x81, SET, opaque=opaque))


def other(opcode, key, extras=b"", value=b""):
    """A request that the full server must see, and that may change the item there."""
    items.pop(key, None)
    ask(opcode, key, extras, value)


# Keys of all lengths; some are the beginning of others.
KEYS = (
    [b"k" * length for length in range(1, KEY_BYTES + 1)]
    + [f"user:{i}".encode() for i in range(60)]
    + [bytes(4), b"\xff\0"]
)
for _i in range(1900):
    key = rng.choice(KEYS)
    what = rng.randrange(100)
    value = rng.randbytes(rng.choice([0, 1, 8, 30, VALUE_BYTES]))
    if what < 55:
        get(key)
    elif what < 85:
        put(key, value, rng.randrange(1 << 32))
    elif what < 88:
        put(key, rng.randbytes(VALUE_BYTES + 1))
    elif what < 90:
        put(key, value, expiration=60)
    elif what < 92:
        put(key, value, cas=5)
    elif what < 94:
        other(DELETE, key)
    elif what < 96:
        other(INCREMENT, key, bytes(20))
    elif what < 97:
        other(ADD, key, bytes(8), value)
    elif what < 98:
        put(b"l" * (KEY_BYTES + 1), value)
    else:
        ask(GET, b"l" * (KEY_BYTES + 1))
# A GET must have neither extras nor a value; it changes nothing all the same.
put(b"kept", b"value")
ask(GET, b"kept", extras=bytes(4))
ask(GET, b"kept", value=b"x")
get(b"kept")

good = packet(datagram(1, binary(0x80, GET, b"kept")))
for _i in range(10):
    for frame in [
        packet(datagram(1, binary(0x80, NOOP))),
        packet(datagram(1, binary(0x80, FLUSH))),
        packet(datagram(1, binary(0x81, GET, b"kept"))),
        packet(datagram(1, binary(0x80, GET, b"kept", data_type=1))),
        packet(datagram(1, binary(0x80, GET, b"kept"), datagrams=2)),
        packet(datagram(1, binary(0x80, GET, b"kept", body=400))),
        packet(datagram(1, binary(0x80, GET, b"kept", body=3))),
        packet(datagram(1, binary(0x80, GET, b"kept", body=0xFFFFFFFF))),
        packet(b"get kept\r\n"),
        packet(datagram(1, b"get kept\r\n")),
        packet(datagram(1, binary(0x80, GET, b"kept")), port=PORT + 1),
        packet(datagram(1, binary(0x80, GET, b"kept")), options=b"\1" * 4),
        change(good, 20, b"\x20\x00"),
        change(good, 20, b"\x00\x02"),
        pad(
            ethernet(
                OUR_MAC,
                CLIENT_MAC,
                0x0800,
                ipv4("10.0.0.1", US, 6, tcp("10.0.0.1", US, 4000, PORT, ACK)),
            )
        ),
        ethernet("ff:ff:ff:ff:ff:ff", CLIENT_MAC, 0x0806, bytes(28)),
        ethernet(
            OUR_MAC,
            CLIENT_MAC,
            0x86DD,
            ipv6("2001:db8::1", "2001:db8::2", 17, udp("2001:db8::1", "2001:db8::2", 5, PORT, b"")),
        ),
        ethernet(OUR_MAC, CLIENT_MAC, 0x8100, vlan(5, 0x0800, good[14:])),
    ]:
        traffic.add(frame, "stack")
get(b"kept")
for frame in malformed(good[: 14 + 20 + 8 + 8 + 24 + 4], 200):
    traffic.add(frame, "stack")
traffic.write()
