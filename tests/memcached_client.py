#!/usr/bin/env python3
"""A memcached client for the binary protocol over UDP.

No packaged client does binary GETs over UDP: pymemcache speaks text over TCP, and libmemcached over
UDP only sends quiet SETs, which it does not expect to be answered. So this is one, written from
memcached's documents protocol-binary (header of 24 bytes) and protocol.txt (frame header of 8 bytes
before each datagram), with nothing of the programs it is used against.

    memcached_client.py ADDRESS PORT

Reads one request as JSON per line: {"op": "get"|"set"|"add"|"delete"|"version", "key": TEXT, "value": TEXT, "flags": N}.
Answers with a line each: {"status": N, "value": TEXT, "flags": N}, or {"error": WHY}, whose cause
can be `timeout`.
"""

import json
import socket
import struct
import sys

OPCODES = {"get": 0x00, "set": 0x01, "add": 0x02, "delete": 0x04, "version": 0x0B}
HEADER = struct.Struct(">BBHBBHIIQ")
FRAME = struct.Struct(">HHHH")
# Long: a busy machine loses nothing, it is late.
PATIENCE_SECONDS = 300


def request_bytes(request, number):
    """Frame header, header, extras, key and value of a request."""
    extras = b""
    if request["op"] in ("set", "add"):
        extras = struct.pack(">II", request.get("flags", 0), 0)  # expires never
    key = request.get("key", "").encode()
    value = request.get("value", "").encode()
    body = extras + key + value
    opcode = OPCODES[request["op"]]
    header = HEADER.pack(
        0x80, opcode, len(key), len(extras), 0, 0, len(body), 0xC0DE0000 + number, 0
    )
    return FRAME.pack(number, 0, 1, 0) + header + body


def answer(datagram, request, number):
    """Reads an answer; raises ValueError unless it is one to this request."""
    if len(datagram) < FRAME.size + HEADER.size:
        raise ValueError(f"only {len(datagram)} bytes")
    frame = FRAME.unpack_from(datagram)
    if frame != (number, 0, 1, 0):
        raise ValueError(f"frame header {frame}")
    magic, opcode, key_length, extras_length, data_type, status, body_length, opaque, _cas = (
        HEADER.unpack_from(datagram, FRAME.size)
    )
    if (magic, opcode, data_type) != (0x81, OPCODES[request["op"]], 0):
        raise ValueError(f"magic {magic:#x}, opcode {opcode:#x}, data type {data_type}")
    if opaque != 0xC0DE0000 + number:
        raise ValueError(f"opaque {opaque:#x}")
    body = datagram[FRAME.size + HEADER.size :]
    if len(body) != body_length:
        raise ValueError(f"body of {len(body)} bytes, announced are {body_length}")
    result = {"status": status, "value": body[extras_length + key_length :].decode()}
    if extras_length == 4:
        result["flags"] = struct.unpack_from(">I", body)[0]
    return result


def main():
    address, port = sys.argv[1], int(sys.argv[2])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((address, port))
        sock.settimeout(PATIENCE_SECONDS)
        for number, line in enumerate(sys.stdin, start=1):
            request = json.loads(line)
            try:
                sock.send(request_bytes(request, number))
                result = answer(sock.recv(65536), request, number)
            except TimeoutError:
                result = {"error": "timeout"}
            except (OSError, ValueError) as error:
                result = {"error": str(error)}
            print(json.dumps(result))


if __name__ == "__main__":
    main()
