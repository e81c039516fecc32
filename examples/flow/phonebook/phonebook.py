"""Numbers by name: the questions are packets, the answers an existing server's, which knows nothing
of packets.

    python3 phonebook.py --self-test            # the server, the program and a client in a network
                                                namespace
    python3 phonebook.py build --emit host -o . # what server.c includes

The NIC side reads and checks questions, the host side keeps each until the server has answered and
makes the answer's packet. `server.c` has an event loop of its own, in which `phonebook_receive` and
`phonebook_send` are two functions among others. The region `board` is memory of both: the server
closes the book there, and reads how many questions there were.
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
    MemoryRegion,
    Out,
    Program,
    Queue,
    Struct,
    Table,
    ToSystem,
    be32,
    packet,
    u8,
    u32,
    u64,
)

PORT = 5355
Name = Struct("name", bytes=u8[16])
#: On the wire behind UDP: a number of the client's, then the name, padded by zeros.
Question = Struct("question", id=be32, name=Name)
#: What the server gets and gives. `turn` says which question of a slot it is.
Query = Struct("query", slot=u32, turn=u32, name=Name)
Answer = Struct("answer", slot=u32, turn=u32, number=u64, known=u32)
Reply = Struct("reply", id=be32, known=be32, number=u8[8])
Waiting = Struct("waiting", turn=u32, id=be32, port=u32)

board = MemoryRegion("board", 16, shared=True)
turns = Table("turns", "array", u32, u32, 1)
waiting = Table("waiting", "array", u32, Waiting, 1024, bytes=64)


class Parse(Element):
    """Picks questions out, and checks them."""

    inp = In(pkt=packet)
    question = Out(packet, Question)
    bad = Out(packet)
    other = Out(packet)
    closed = Out(packet)
    tables = (board,)
    body = """
        struct nf_eth eth;
        struct nf_ipv4 ip;
        struct nf_udp udp;
        struct question asked;
        uint64_t shut, count;
        if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) || !nf_extract(pkt, &ip)) {
            other(pkt);
            return;
        }
        if (ip.ihl != 5 || ip.protocol != NF_IP_UDP || !nf_extract(pkt, &udp) ||
            udp.dport != nf_htons(PORT)) {
            other(pkt);
            return;
        }
        if (nf_ntohs(udp.length) != 28 || !nf_extract(pkt, &asked)) {
            bad(pkt);
            return;
        }
        nf_reset(pkt);
        board_read64(0, &shut);
        board_read64(8, &count);
        board_write64(8, count + 1);
        if (shut != 0)
            closed(pkt);
        else
            question(pkt, asked);
    """


class Keep(Element):
    """Keeps what the answer's packet begins with."""

    inp = In(pkt=packet, asked=Question)
    query = Out(Query)
    done = Out(packet)
    tables = (turns, waiting)
    structs = (Waiting,)
    body = """
        struct nf_eth eth;
        struct nf_ipv4 ip;
        struct nf_udp udp;
        uint32_t turn;
        if (!nf_extract(pkt, &eth) || !nf_extract(pkt, &ip) || !nf_extract(pkt, &udp)) {
            done(pkt);
            return;
        }
        nf_lookup(&turns, 0, &turn);
        turn = turn + 1;
        nf_update(&turns, 0, turn);
        uint32_t slot = turn % 1024;
        struct waiting kept = {turn, asked.id, nf_port(pkt)};
        nf_update(&waiting, slot, kept);
        nf_buf_clear(&waiting, slot);

        nf_mac mac = eth.dst;
        eth.dst = eth.src;
        eth.src = mac;
        nf_be32 address = ip.dst;
        ip.dst = ip.src;
        ip.src = address;
        ip.length = nf_htons(44);
        ip.ttl = 64;
        ip.csum = 0;
        ip.csum = nf_csum_fold(nf_csum_add(0, ip));
        udp.dport = udp.sport;
        udp.sport = nf_htons(PORT);
        udp.length = nf_htons(24);
        udp.csum = 0;
        nf_buf_append(&waiting, slot, eth);
        nf_buf_append(&waiting, slot, ip);
        nf_buf_append(&waiting, slot, udp);
        struct query asking = {slot, turn, asked.name};
        query(asking);
        done(pkt);
    """


class Finish(Element):
    """Makes the answer's packet, unless the question's slot has another one by now."""

    inp = In(answer=Answer)
    late = Out(Answer)
    tables = (waiting,)
    structs = (Waiting, Reply)
    body = """
        struct waiting kept;
        if (!nf_lookup(&waiting, answer.slot, &kept) || kept.turn != answer.turn ||
            nf_buf_len(&waiting, answer.slot) == 0) {
            late(answer);
            return;
        }
        struct reply reply = {kept.id, nf_htonl(answer.known)};
        for (uint32_t i = 0; i < 8; i++)
            reply.number[i] = answer.number >> (56 - 8 * i);
        nf_buf_append(&waiting, answer.slot, reply);
        nf_buf_send(&waiting, answer.slot, kept.port);
        nf_buf_clear(&waiting, answer.slot);
    """


def program() -> Program:
    network, parse, keep, finish = FromNet(), Parse(PORT=PORT), Keep(PORT=PORT), Finish()
    server = CallableSegment(receives=Query, sends=Answer, name="server")
    network >> parse
    parse.other >> ToSystem()
    parse.bad >> Drop("not a question", name="malformed")
    parse.closed >> Drop("the book is closed", name="shut")
    parse.question >> Queue("questions", side="host") >> keep
    keep.query >> server
    keep.done >> Drop("answered by a packet of its own", name="answered")
    server.sent >> Queue("answers", side="host", ordered=False) >> finish
    finish.late >> Discard(Answer)
    return Program("phonebook", network, server, ports=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--self-test",
        action="store_true",
        help="serve it in a network namespace and check its answers",
    )
    options, rest = parser.parse_known_args()
    if options.self_test:
        from selftest import run

        sys.exit(run())
    program().main(rest)


if __name__ == "__main__":
    main()
