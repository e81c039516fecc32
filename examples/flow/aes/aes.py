"""AES-128-CBC for packets, by OpenSSL or by the processor's own instructions, in a program attached
as the host side.

    python3 aes.py --self-test     # both kernels against the `openssl` command, in a network
                                   namespace

Requests (UDP, port 5358) carry whole blocks of 16 bytes, up to 64. The NIC side checks that; the
host side keeps the answer's headers and hands the blocks to `aes.c`, which gives them back
encrypted, eight at a time.
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "python"))
from nicforge.flow import (  # noqa: E402
    CallableSegment,
    Discard,
    Drop,
    Element,
    FromNet,
    In,
    Out,
    Program,
    Queue,
    Struct,
    Table,
    ToSystem,
    packet,
    u8,
    u32,
)

PORT, BLOCKS, KEPT = 5358, 64, 256
Block = Struct("block", bytes=u8[16])
#: In front of the blocks for the program, and of each part of its answer.
Tag = Struct("tag", slot=u32, turn=u32)
Part = Struct("part", tag=Tag, blocks=u32, last=u32, block=Block[8])
Waiting = Struct("waiting", turn=u32, port=u32)

turns = Table("turns", "array", u32, u32, 1)
waiting = Table("waiting", "array", u32, Waiting, KEPT, bytes=42 + 16 * BLOCKS)


class Parse(Element):
    """Picks requests out, and checks their length."""

    inp = In(pkt=packet)
    request = Out(packet)
    bad = Out(packet)
    other = Out(packet)
    body = """
        struct nf_eth eth;
        struct nf_ipv4 ip;
        struct nf_udp udp;
        if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) ||
            !nf_extract(pkt, &ip) || ip.ihl != 5 ||
            ip.protocol != NF_IP_UDP || !nf_extract(pkt, &udp) || udp.dport != nf_htons(PORT)) {
            other(pkt);
            return;
        }
        uint32_t length = (uint32_t)nf_ntohs(udp.length) - 8;
        if (length == 0 || length > 16 * BLOCKS || length % 16 != 0 ||
            nf_ntohs(ip.length) != length + 28 ||
            nf_len(pkt) < length) {
            bad(pkt);
            return;
        }
        nf_reset(pkt);
        request(pkt);
    """


class Keep(Element):
    """Keeps the headers of the answer; what goes on are the blocks behind their tag."""

    inp = In(pkt=packet)
    blocks = Out(packet)
    gone = Out(packet)
    tables = (turns, waiting)
    structs = (Waiting, Tag)
    body = """
        struct nf_eth eth;
        struct nf_ipv4 ip;
        struct nf_udp udp;
        uint32_t turn;
        if (!nf_extract(pkt, &eth) || !nf_extract(pkt, &ip) || !nf_extract(pkt, &udp) ||
            !nf_trim(pkt, nf_ntohs(udp.length) - 8)) {
            gone(pkt);
            return;
        }
        nf_lookup(&turns, 0, &turn);
        turn = turn + 1;
        nf_update(&turns, 0, turn);
        uint32_t slot = turn % KEPT;
        struct waiting kept = {turn, nf_port(pkt)};
        nf_update(&waiting, slot, kept);
        nf_buf_clear(&waiting, slot);
        nf_mac mac = eth.dst;
        eth.dst = eth.src;
        eth.src = mac;
        nf_be32 address = ip.dst;
        ip.dst = ip.src;
        ip.src = address;
        ip.ttl = 64;
        ip.csum = 0;
        ip.csum = nf_csum_fold(nf_csum_add(0, ip));
        udp.dport = udp.sport;
        udp.sport = nf_htons(PORT);
        udp.csum = 0;
        nf_buf_append(&waiting, slot, eth);
        nf_buf_append(&waiting, slot, ip);
        nf_buf_append(&waiting, slot, udp);
        struct tag tag = {slot, turn};
        nf_emit(pkt, &tag);
        blocks(pkt);
    """


class Finish(Element):
    """Puts parts behind the headers, and sends behind the last."""

    inp = In(part=Part)
    late = Out(Part)
    tables = (waiting,)
    structs = (Waiting, Block)
    body = """
        struct waiting kept;
        if (!nf_lookup(&waiting, part.tag.slot, &kept) || kept.turn != part.tag.turn ||
            nf_buf_len(&waiting, part.tag.slot) == 0) {
            late(part);
            return;
        }
        for (uint32_t i = 0; i < 8; i++) {
            if (i < part.blocks)
                nf_buf_append(&waiting, part.tag.slot, part.block[i]);
        }
        if (part.last != 0) {
            nf_buf_send(&waiting, part.tag.slot, kept.port);
            nf_buf_clear(&waiting, part.tag.slot);
        }
    """


def program() -> Program:
    network, parse, keep = FromNet(), Parse(PORT=PORT, BLOCKS=BLOCKS), Keep(PORT=PORT, KEPT=KEPT)
    finish = Finish()
    cipher = CallableSegment(receives=packet, sends=Part, name="cipher")
    network >> parse
    parse.other >> ToSystem()
    parse.bad >> Drop("no whole blocks", name="malformed")
    parse.request >> Queue("requests", side="host") >> keep
    keep.blocks >> cipher
    keep.gone >> Drop("too short", name="cut_off")
    cipher.sent >> Queue("parts", side="host", ordered=False) >> finish
    finish.late >> Discard(Part)
    return Program("aes", network, cipher, ports=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--self-test",
        action="store_true",
        help="both kernels in a network namespace, against the openssl command",
    )
    options, rest = parser.parse_known_args()
    if options.self_test:
        from selftest import run

        sys.exit(run())
    program().main(rest)


if __name__ == "__main__":
    main()
