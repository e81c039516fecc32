"""AES-128-CBC with a body that any target runs, and one by the processor's instructions for the
host side.

    python3 cipher.py --self-test                                # NIST's example, and both bodies against each other
    python3 cipher.py verify --target dpdk --pcap requests.pcap  # the instructions, compared with the definition

A datagram for port 5901 with four blocks of 16 bytes is answered with them encrypted, under the key
of NIST SP 800-38A, F.2.1. `Encrypt.body` is the cipher as FIPS 197 has it, in the subset: it is the
definition. `bodies["host"]` takes its place where there is a host side; it is C of the processor,
so it is opaque, and `verify` shows that it does the same.
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "python"))
from nicforge.flow import (  # noqa: E402
    Drop,
    Element,
    FromNet,
    In,
    Out,
    Program,
    Queue,
    Reply,
    Struct,
    ToSystem,
    packet,
    u8,
)

PORT = 5901
KEY = bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c")
START = bytes(range(16))
Blocks = Struct("blocks", b=u8[64])


def substitution() -> list[int]:
    """The S-box (FIPS 197, 5.1.1): the inverse in GF(2^8), turned by an affine map. p runs through
    all powers of 3, q through their inverses."""
    box, p, q = [0x63] * 256, 1, 1
    while True:
        p ^= (p << 1 & 0xFF) ^ (0x1B if p & 0x80 else 0)
        for shift in (1, 2, 4):
            q ^= q << shift & 0xFF
        q ^= 0x09 if q & 0x80 else 0
        turned = [(q << shift | q >> 8 - shift) & 0xFF for shift in range(5)]
        box[p] = turned[0] ^ turned[1] ^ turned[2] ^ turned[3] ^ turned[4] ^ 0x63
        if p == 1:
            return box


def round_keys(key: bytes, box: list[int]) -> list[int]:
    """The eleven round keys (FIPS 197, 5.2)."""
    words, constant = [list(key[at : at + 4]) for at in range(0, 16, 4)], 1
    while len(words) < 44:
        word = list(words[-1])
        if len(words) % 4 == 0:
            word = [box[byte] for byte in word[1:] + word[:1]]
            word[0] ^= constant
            constant = constant << 1 ^ (0x11B if constant & 0x80 else 0)
        words.append([a ^ b for a, b in zip(word, words[-4], strict=True)])
    return [byte for word in words for byte in word]


def listed(values) -> str:
    return ", ".join(str(value) for value in values)


BOX = substitution()
KEYS = round_keys(KEY, BOX)


class Read(Element):
    """The four blocks of a datagram."""

    inp = In(pkt=packet)
    out = Out(packet, Blocks)
    other = Out(packet)
    body = """
        struct nf_eth eth;
        struct nf_ipv4 ip;
        struct nf_udp udp;
        struct blocks blocks;
        if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) ||
            !nf_extract(pkt, &ip) || ip.ihl != 5 ||
            ip.protocol != NF_IP_UDP || !nf_extract(pkt, &udp) || udp.dport != nf_htons(PORT) ||
            udp.length != nf_htons(72) || !nf_load(pkt, 0, &blocks)) {
            other(pkt);
            return;
        }
        nf_reset(pkt);
        out(pkt, blocks);
    """


class Encrypt(Element):
    """AES-128-CBC of four blocks."""

    inp = In(pkt=packet, blocks=Blocks)
    out = Out(packet, Blocks)
    includes = ("<immintrin.h>",)
    features = ("aes", "sse2")
    pure = True
    body = f"""
        static const uint8_t box[256] = {{{listed(BOX)}}};
        static const uint8_t keys[176] = {{{listed(KEYS)}}};
        static const uint8_t start[16] = {{{listed(START)}}};
        struct blocks sealed = {{0}};
        uint8_t s[16];
        for (uint32_t i = 0; i < 16; i++)
            s[i] = start[i];
        for (uint32_t block = 0; block < 4; block++) {{
            for (uint32_t i = 0; i < 16; i++)
                s[i] = s[i] ^ blocks.b[16 * block + i] ^ keys[i];
            for (uint32_t round = 1; round <= 10; round++) {{
                uint8_t t[16] = {{0}};
                for (uint32_t i = 0; i < 16; i++)
                    t[i] = box[s[5 * i & 15]];
                for (uint32_t i = 0; i < 16; i++) {{
                    uint8_t mixed = t[i];
                    if (round < 10) {{
                        uint8_t one = t[(i & 12) | ((i + 1) & 3)];
                        uint8_t two = t[(i & 12) | ((i + 2) & 3)];
                        uint8_t three = t[(i & 12) | ((i + 3) & 3)];
                        uint8_t both = t[i] ^ one;
                        mixed = (uint8_t)(both << 1) ^ ((both >> 7) * 0x1b) ^ one ^ two ^ three;
                    }}
                    s[i] = mixed ^ keys[16 * round + i];
                }}
            }}
            for (uint32_t i = 0; i < 16; i++)
                sealed.b[16 * block + i] = s[i];
        }}
        out(pkt, sealed);
    """
    bodies = {
        "host": f"""
            static const uint8_t keys[176] = {{{listed(KEYS)}}};
            static const uint8_t start[16] = {{{listed(START)}}};
            struct blocks sealed;
            __m128i at = _mm_loadu_si128((const __m128i *)start);
            for (int block = 0; block < 4; block++) {{
                at = _mm_xor_si128(at, _mm_loadu_si128((const __m128i *)&blocks.b[16 * block]));
                at = _mm_xor_si128(at, _mm_loadu_si128((const __m128i *)keys));
                for (int round = 1; round < 10; round++)
                    at = _mm_aesenc_si128(at, _mm_loadu_si128((const __m128i *)&keys[16 * round]));
                at = _mm_aesenclast_si128(at, _mm_loadu_si128((const __m128i *)&keys[160]));
                _mm_storeu_si128((__m128i *)&sealed.b[16 * block], at);
            }}
            out(pkt, sealed);
        """,
    }


class Answer(Element):
    """Turns the datagram round, with the encrypted blocks as its text."""

    inp = In(pkt=packet, sealed=Blocks)
    out = Out(packet)
    gone = Out(packet)
    body = """
        struct nf_eth eth;
        struct nf_ipv4 ip;
        struct nf_udp udp;
        if (!nf_extract(pkt, &eth) || !nf_extract(pkt, &ip) || !nf_extract(pkt, &udp) ||
            !nf_strip(pkt, 64)) {
            gone(pkt);
            return;
        }
        nf_mac mac = eth.dst;
        eth.dst = eth.src;
        eth.src = mac;
        nf_be32 address = ip.dst;
        ip.dst = ip.src;
        ip.src = address;
        udp.dport = udp.sport;
        udp.sport = nf_htons(PORT);
        udp.csum = 0;
        nf_emit(pkt, &eth);
        nf_emit(pkt, &ip);
        nf_emit(pkt, &udp);
        nf_emit(pkt, &sealed);
        out(pkt);
    """


network, read, encrypt, answer = FromNet(), Read(PORT=PORT), Encrypt(), Answer(PORT=PORT)
network >> read
read.out >> Queue("requests", side="host") >> encrypt
read.other >> ToSystem()
encrypt >> answer
answer.out >> Reply()
answer.gone >> Drop("too short", name="cut_off")
program = Program("cipher", network, ports=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--self-test",
        action="store_true",
        help="NIST's example, and both bodies against each other",
    )
    options, rest = parser.parse_known_args()
    if options.self_test:
        import selftest

        sys.exit(selftest.cipher(program, PORT))
    program.main(rest)


if __name__ == "__main__":
    main()
