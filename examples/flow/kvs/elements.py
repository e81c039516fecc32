"""Elements of a memcached for small items: binary and text protocol over UDP, GET and SET.

A datagram of memcached has a frame header of 8 bytes (protocol.txt, "UDP protocol") and one request
behind it. Keys have at most 32 bytes, values at most 64; items do not expire. Requests of any other
form are given up, counted.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "python"))
from nicforge.flow import Element, In, Out, Struct, Table, be32, packet, u8, u32, u64  # noqa: E402

KEYS = 131072

Key = Struct("key", length=u8, b=u8[32])
#: What an answer needs of its request, besides the packet's headers.
Request = Struct("request", ascii=u8, padding=u8[3], opaque=be32, key=Key)
Item = Struct("item", flags=u32, length=u32, b=u8[64])
#: For headers that are read and written as they are on the wire.
Frame = Struct("frame", request=u8[2], sequence=u8[2], datagrams=u8[2], reserved=u8[2])
Binary = Struct(
    "binary",
    magic=u8,
    opcode=u8,
    key_length=u8[2],
    extras_length=u8,
    data_type=u8,
    status=u8[2],
    body_length=u8[4],
    opaque=be32,
    cas=u8[8],
)

#: A whole value.
Bytes = Struct("bytes", b=u8[64])

items = Table("items", "hash", Key, Item, KEYS)
#: Acknowledged items that found the store full.
unwritten = Table("unwritten", "array", u32, u64, 1)


class Classify(Element):
    """Requests for memcached's port are the store's; all else, such as ARP, is the operating
    system's."""

    inp = In(pkt=packet)
    kv = Out(packet)
    other = Out(packet)
    structs = (Frame,)
    body = """
        struct nf_eth eth;
        struct nf_ipv4 ip;
        struct nf_udp udp;
        struct frame frame;
        if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) ||
            !nf_extract(pkt, &ip) || ip.ihl != 5 ||
            (ip.frag & nf_htons(NF_IPV4_MORE | NF_IPV4_OFFSET)) != 0 || ip.protocol != NF_IP_UDP ||
            !nf_extract(pkt, &udp) || udp.dport != nf_htons(11211) || !nf_extract(pkt, &frame)) {
            other(pkt);
            return;
        }
        kv(pkt);
    """


class ReadGet(Element):
    """Requests of the binary protocol that ask for a value; all others are for the full parser."""

    inp = In(pkt=packet)
    get = Out(packet, Request)
    rest = Out(packet)
    structs = (Binary,)
    body = """
        struct binary binary;
        if (!nf_load(pkt, 0, &binary) || binary.magic != 0x80 || binary.opcode > 1 ||
            binary.data_type != 0 ||
            binary.body_length[0] != 0 || binary.body_length[1] != 0 ||
                binary.body_length[2] != 0) {
            rest(pkt);
            return;
        }
        uint32_t key_length = (uint32_t)binary.key_length[0] << 8 | binary.key_length[1];
        uint32_t extras = binary.extras_length, body = binary.body_length[3];
        /* SETs come along this far: if the key's offset were known, the verifier would walk the rest for each length. */
        if (key_length == 0 || key_length > 32 || key_length + extras > body ||
            nf_len(pkt) < 24 + body) {
            rest(pkt);
            return;
        }
        struct key key = {0};
        key.length = key_length;
        for (uint32_t i = 0; i < 32; i++) {
            if (i >= key_length)
                break;
            uint8_t c;
            nf_load(pkt, 24 + extras + i, &c);
            key.b[i] = c;
        }
        struct request request = {.opaque = binary.opaque, .key = key};
        if (binary.opcode == 0 && body == key_length)
            get(pkt, request);
        else
            rest(pkt);
    """


class ReadKey(Element):
    """All other requests as far as their key: get KEY and set KEY of the text protocol, and SETs of
    the binary one."""

    inp = In(pkt=packet)
    get = Out(packet, Request)
    set = Out(packet, Request)
    other = Out(packet)
    structs = (Binary,)
    body = """
        /* Where the request begins is known, but behind a queue only we know it. */
        nf_reset(pkt);
        if (!nf_strip(pkt, 14 + 20 + 8 + 8)) {
            other(pkt);
            return;
        }
        struct request request = {0};
        struct binary binary;
        if (nf_load(pkt, 0, &binary) && binary.magic == 0x80) {
            uint32_t length = (uint32_t)binary.key_length[0] << 8 | binary.key_length[1];
            if (binary.opcode != 1 || length == 0 || length > 32) {
                other(pkt);
                return;
            }
            request.opaque = binary.opaque;
            request.key.length = length;
            for (uint32_t i = 0; i < 32; i++) {
                if (i >= length)
                    break;
                uint8_t b;
                nf_load(pkt, 24 + binary.extras_length + i, &b);
                request.key.b[i] = b;
            }
            set(pkt, request);
            return;
        }
        uint8_t c = 0, e = 0, t = 0, space = 0;
        nf_load(pkt, 0, &c);
        nf_load(pkt, 1, &e);
        nf_load(pkt, 2, &t);
        nf_load(pkt, 3, &space);
        bool getting = c == 'g', setting = c == 's';
        if (!(getting || setting) || e != 'e' || t != 't' || space != ' ') {
            other(pkt);
            return;
        }
        request.ascii = 1;
        /* What is added is 0 for all datagrams that hold a request. The verifier does not know, and so forgets from one byte
         * to the next how long the packet is at least: what it has seen is then what it has seen before. */
        uint32_t key = 0, begin = 4 + (nf_len(pkt) >> 14);
        for (uint32_t i = 0; i < 33; i++) {
            /* Ends are a space, the line's end and 0, a bit for each; memcached takes other control characters. */
            if (!nf_load(pkt, begin + i, &c) || (c <= ' ' && (0x100002401ull >> c & 1) != 0))
                break;
            if (i < 32)
                request.key.b[i] = c;
            key = key + 1;
        }
        request.key.length = key;
        if (key == 0 || key > 32) {
            other(pkt);
            return;
        }
        uint8_t line = 0;
        nf_load(pkt, 4 + key, &c);
        nf_load(pkt, 5 + key, &line);
        if (setting)
            set(pkt, request);
        else if (c == '\\r' && line == '\\n' && nf_len(pkt) == key + 6)
            get(pkt, request);
        else
            other(pkt);
    """


class ReadValue(Element):
    """What a SET holds: its value, which is behind the key, and its flags."""

    inp = In(pkt=packet, request=Request)
    set = Out(packet, Request, Item)
    other = Out(packet)
    structs = (Binary, Bytes)
    body = """
        nf_reset(pkt);
        if (!nf_strip(pkt, 14 + 20 + 8 + 8)) {
            other(pkt);
            return;
        }
        struct item item = {0};
        uint32_t key = request.key.length & 63, length = 0;
        bool good = false;
        if (request.ascii) {
            /* KEY FLAGS 0 LENGTH, then the value on a line of its own. Items that expire are not stored. */
            uint8_t c = 0, line = 0, zero = 0, space = 0, first = 0, second = 0;
            nf_strip(pkt, 4 + key);
            nf_load(pkt, 0, &c);
            good = c == ' ';
            uint64_t flags = 0;
            uint32_t digits = 0;
            uint32_t start = 1 + (nf_len(pkt) >> 14);
            for (uint32_t i = 0; i < 10; i++) {
                if (!nf_load(pkt, start + i, &c) || c < '0' || c > '9')
                    break;
                flags = flags * 10 + (c - '0');
                digits = digits + 1;
            }
            nf_strip(pkt, 1 + digits);
            nf_load(pkt, 0, &c);
            nf_load(pkt, 1, &zero);
            nf_load(pkt, 2, &space);
            nf_load(pkt, 3, &first);
            nf_load(pkt, 4, &second);
            good = good && digits > 0 && flags <= 0xffffffff && c == ' ' && zero == '0' &&
                space == ' ' && first >= '0' &&
                   first <= '9';
            bool two = second >= '0' && second <= '9';
            length = two ? (first - '0') * 10 + (second - '0') : first - '0';
            nf_strip(pkt, two ? 5 : 4);
            nf_load(pkt, 0, &c);
            nf_load(pkt, 1, &line);
            good = good && c == '\\r' && line == '\\n';
            nf_strip(pkt, 2);
            nf_load(pkt, length & 127, &c);
            nf_load(pkt, (length & 127) + 1, &line);
            good = good && length <= 64 && nf_len(pkt) == length + 2 && c == '\\r' && line == '\\n';
            item.flags = flags;
        } else {
            struct binary binary;
            uint32_t expires = 1;
            nf_be32 flags = 0;
            uint8_t versions = 0;
            nf_load(pkt, 0, &binary);
            nf_load(pkt, 24, &flags);
            nf_load(pkt, 28, &expires);
            for (uint32_t i = 0; i < 8; i++)
                versions |= binary.cas[i];
            uint32_t body = (uint32_t)binary.body_length[2] << 8 | binary.body_length[3];
            length = body - 8 - key;
            good = binary.body_length[0] == 0 && binary.body_length[1] == 0 &&
                binary.data_type == 0 &&
                   binary.extras_length == 8 && key + 8 <= body && length <= 64 &&
                       nf_len(pkt) >= 24 + body &&
                   expires == 0 && versions == 0;
            item.flags = nf_ntohl(flags);
            nf_strip(pkt, 32 + key);
        }
        if (!good || !nf_trim(pkt, length & 127)) {
            other(pkt);
            return;
        }
        item.length = length;
        /* What is behind the value was cut off, so that bytes there read zero. */
        struct bytes bytes;
        if (nf_load(pkt, 0, &bytes)) {
            for (uint32_t i = 0; i < 64; i++)
                item.b[i] = bytes.b[i];
        } else {
            uint32_t begin = nf_len(pkt) >> 14;
            for (uint32_t i = 0; i < 63; i++) {
                uint8_t c;
                nf_load(pkt, begin + i, &c);
                item.b[i] = c;
            }
        }
        set(pkt, request, item);
    """


class Find(Element):
    """Looks an item up."""

    inp = In(pkt=packet, request=Request)
    hit = Out(packet, Request, Item)
    miss = Out(packet, Request, Item)
    tables = (items,)
    body = """
        struct item item;
        if (nf_lookup(&items, request.key, &item))
            hit(pkt, request, item);
        else
            miss(pkt, request, item);
    """


class Store(Element):
    """Stores an item."""

    inp = In(pkt=packet, request=Request, item=Item)
    stored = Out(packet, Request, Item)
    full = Out(packet)
    tables = (items,)
    body = """
        if (nf_update(&items, request.key, item))
            stored(pkt, request, item);
        else
            full(pkt);
    """


class StoreDisplaced(Element):
    """Stores what a write-back cache had to give up. Its writer was answered long ago, so what does
    not fit is counted."""

    inp = In(key=Key, item=Item)
    out = Out(Key)
    tables = (items, unwritten)
    body = """
        if (!nf_update(&items, key, item))
            nf_add_value(&unwritten, 0, 1);
        out(key);
    """


class Leave(Element):
    """Out by the port the packet came in by; the rest is no longer wanted."""

    inp = In(pkt=packet, request=Request, item=Item)
    body = "nf_send(pkt, nf_port(pkt));"


#: Headers back to the sender, for `payload` bytes behind the frame header.
HEADERS = """
        struct nf_eth eth;
        struct nf_ipv4 ip;
        struct nf_udp udp;
        struct frame frame;
        nf_reset(pkt);
        if (!nf_extract(pkt, &eth) || !nf_extract(pkt, &ip) || !nf_extract(pkt, &udp) ||
            !nf_extract(pkt, &frame)) {
            nf_drop(pkt, "too short");
            return;
        }
        nf_mac mac = eth.src;
        eth.src = eth.dst;
        eth.dst = mac;
        nf_be32 address = ip.src;
        ip.src = ip.dst;
        ip.dst = address;
        ip.length = nf_htons(sizeof(struct nf_ipv4) + sizeof(struct nf_udp) +
            sizeof(struct frame) + payload);
        ip.ttl = 64;
        ip.csum = 0;
        ip.csum = nf_csum_fold(nf_csum_add(0, ip));
        udp.dport = udp.sport;
        udp.sport = nf_htons(11211);
        udp.length = nf_htons(sizeof(struct nf_udp) + sizeof(struct frame) + payload);
        udp.csum = 0;
        frame.sequence[0] = 0;
        frame.sequence[1] = 0;
        frame.datagrams[0] = 0;
        frame.datagrams[1] = 1;
        frame.reserved[0] = 0;
        frame.reserved[1] = 0;
        nf_emit(pkt, &eth);
        nf_emit(pkt, &ip);
        nf_emit(pkt, &udp);
        nf_emit(pkt, &frame);
"""


class BinaryValue(Element):
    """Answers a GET of the binary protocol with the item."""

    inp = In(pkt=packet, request=Request, item=Item)
    out = Out(packet, Request, Item)
    structs = (Frame, Binary)
    body = (
        """
        uint32_t length = item.length <= 64 ? item.length : 64;
        uint32_t payload = 28 + length;
    """
        + HEADERS
        + """
        struct binary reply = {0};
        reply.magic = 0x81;
        reply.extras_length = 4;
        reply.body_length[3] = 4 + length;
        reply.opaque = request.opaque;
        nf_emit(pkt, &reply);
        nf_be32 flags = nf_htonl(item.flags);
        nf_emit(pkt, &flags);
        for (uint32_t i = 0; i < 64; i++) {
            if (i >= length)
                break;
            nf_emit(pkt, &item.b[i]);
        }
        nf_trim(pkt, 0);
        out(pkt, request, item);
    """
    )


class AsciiValue(Element):
    """Answers a GET of the text protocol: VALUE KEY FLAGS LENGTH, the value, END."""

    inp = In(pkt=packet, request=Request, item=Item)
    out = Out(packet, Request, Item)
    structs = (Frame,)
    body = (
        """
        uint32_t length = item.length <= 64 ? item.length : 64;
        uint32_t flags_digits = 1, scale = 1;
        for (uint32_t i = 0; i < 9; i++) {
            if (item.flags / scale < 10)
                break;
            scale = scale * 10;
            flags_digits = flags_digits + 1;
        }
        uint32_t length_digits = length < 10 ? 1 : 2;
        uint32_t payload = 6 + request.key.length + 1 + flags_digits + 1 + length_digits + 2 +
            length + 2 + 5;
    """
        + HEADERS
        + """
        static const uint8_t head[6] = {'V', 'A', 'L', 'U', 'E', ' '};
        static const uint8_t tail[7] = {'\\r', '\\n', 'E', 'N', 'D', '\\r', '\\n'};
        for (uint32_t i = 0; i < 6; i++) {
            uint8_t h = head[i];
            nf_emit(pkt, &h);
        }
        for (uint32_t i = 0; i < 32; i++) {
            if (i >= request.key.length)
                break;
            nf_emit(pkt, &request.key.b[i]);
        }
        uint8_t c = ' ';
        nf_emit(pkt, &c);
        for (uint32_t i = 0; i < 10; i++) {
            if (scale == 0)
                break;
            c = '0' + item.flags / scale % 10;
            scale = scale / 10;
            nf_emit(pkt, &c);
        }
        c = ' ';
        nf_emit(pkt, &c);
        if (length >= 10) {
            c = '0' + length / 10;
            nf_emit(pkt, &c);
        }
        c = '0' + length % 10;
        nf_emit(pkt, &c);
        c = '\\r';
        nf_emit(pkt, &c);
        c = '\\n';
        nf_emit(pkt, &c);
        for (uint32_t i = 0; i < 64; i++) {
            if (i >= length)
                break;
            nf_emit(pkt, &item.b[i]);
        }
        for (uint32_t i = 0; i < 7; i++) {
            uint8_t l = tail[i];
            nf_emit(pkt, &l);
        }
        nf_trim(pkt, 0);
        out(pkt, request, item);
    """
    )


class Absent(Element):
    """Answers that there is no such item: END, or status 1 and why."""

    inp = In(pkt=packet, request=Request, item=Item)
    out = Out(packet, Request, Item)
    structs = (Frame, Binary)
    body = (
        """
        uint32_t payload = request.ascii ? 5 : 33;
    """
        + HEADERS
        + """
        static const uint8_t end[5] = {'E', 'N', 'D', '\\r', '\\n'};
        static const uint8_t why[9] = {'N', 'o', 't', ' ', 'f', 'o', 'u', 'n', 'd'};
        if (request.ascii) {
            for (uint32_t i = 0; i < 5; i++) {
                uint8_t c = end[i];
                nf_emit(pkt, &c);
            }
        } else {
            struct binary reply = {0};
            reply.magic = 0x81;
            reply.status[1] = 1;
            reply.body_length[3] = 9;
            reply.opaque = request.opaque;
            nf_emit(pkt, &reply);
            for (uint32_t i = 0; i < 9; i++) {
                uint8_t c = why[i];
                nf_emit(pkt, &c);
            }
        }
        nf_trim(pkt, 0);
        out(pkt, request, item);
    """
    )


class Stored(Element):
    """Answers that an item was stored."""

    inp = In(pkt=packet, request=Request, item=Item)
    out = Out(packet, Request, Item)
    structs = (Frame, Binary)
    body = (
        """
        uint32_t payload = request.ascii ? 8 : 24;
    """
        + HEADERS
        + """
        static const uint8_t stored[8] = {'S', 'T', 'O', 'R', 'E', 'D', '\\r', '\\n'};
        if (request.ascii) {
            for (uint32_t i = 0; i < 8; i++) {
                uint8_t c = stored[i];
                nf_emit(pkt, &c);
            }
        } else {
            struct binary reply = {0};
            reply.magic = 0x81;
            reply.opcode = 1;
            reply.opaque = request.opaque;
            nf_emit(pkt, &reply);
        }
        nf_trim(pkt, 0);
        out(pkt, request, item);
    """
    )


class IsWrite(Element):
    """Sends what is stored another way than what is asked for; the packet says which it is."""

    inp = In(pkt=packet, request=Request)
    get = Out(packet, Request)
    set = Out(packet, Request)
    body = """
        uint8_t opcode = 0, first = 0;
        nf_reset(pkt);
        nf_load(pkt, 14 + 20 + 8 + 8, &first);
        nf_load(pkt, 14 + 20 + 8 + 8 + 1, &opcode);
        if (request.ascii ? first == 's' : opcode == 1)
            set(pkt, request);
        else
            get(pkt, request);
    """


class IsAscii(Element):
    """Sends an item the way its request came."""

    inp = In(pkt=packet, request=Request, item=Item)
    ascii = Out(packet, Request, Item)
    binary = Out(packet, Request, Item)
    body = """
        if (request.ascii)
            ascii(pkt, request, item);
        else
            binary(pkt, request, item);
    """
