"""The most frequent words of a stream, ranked on two nodes: tuples between workers, over the
network or past it.

    python3 analytics.py --self-test                  # two nodes in a network namespace, both
                                                      variants
    python3 analytics.py --node 0 --variant bypass run --dev eth1 --host-socket run.sock

A node is this program and a worker of plain C (`worker.c`) attached to it. Workers say which task a
tuple is for; a task's lowest bit is its node. What is for the other node goes into a window of
unacknowledged tuples and leaves as a packet; what is for this node comes back to the worker:
`bypass` hands it over on the host side, `queue` lets it take the way of all others, to the NIC side
and back.

**Flow control.** Tuples are numbered per sender; every one that arrives is acknowledged on the NIC side, with nothing of
the host. The sender sends while fewer than `window` are under way and grows the window by one with
each acknowledgement; one that skips numbers halves it (some were lost), and so does silence: after
TIMEOUT all that is under way counts as lost. The worker hears of every acknowledgement how many
tuples it may have sent by now, so it need not lose any; a tuple beyond the window is given up.
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
    Reply,
    Struct,
    Table,
    ToSystem,
    be16,
    be32,
    packet,
    u8,
    u32,
    u64,
)

PORT = 5356
VARIANTS = ("queue", "bypass")
Word = Struct("word", bytes=u8[24])
#: From the worker: a count of a word for a task.
Tuple = Struct("tuple", task=u32, sender=u32, count=u64, word=Word)
#: To the worker: such a tuple, or (kind 1) how many tuples it may have sent to the other node by
#: now.
Heard = Struct("heard", kind=u32, task=u32, room=u32, sender=u32, count=u64, word=Word)
#: On the wire behind UDP: type 2 are data, type 3 acknowledgements.
Head = Struct("head", kind=be16, node=be16, number=be32)
Body = Struct("body", task=be32, count=be32, word=Word)
#: Tuples sent to the other node, those that are acknowledged or given up, how many may be under
#: way, how many the worker was promised to be sent: that never becomes less, or what is on its way
#: here would find no room.
Peer = Struct("peer", sent=u32, done=u32, window=u32, promised=u32, heard=u64)

peers = Table("peers", "array", u32, Peer, 2)
outgoing = Table("outgoing", "array", u32, u32, 1, bytes=128)


class Route(Element):
    """To this node's worker, or to the other node."""

    inp = In(tuple=Tuple)
    here = Out(Tuple)
    there = Out(Tuple)
    body = """
        if ((tuple.task & 1) == NODE)
            here(tuple);
        else
            there(tuple);
    """


class Window(Element):
    """Sends a tuple as a packet if the window has room."""

    inp = In(tuple=Tuple)
    full = Out(Tuple)
    tables = (peers, outgoing)
    structs = (Peer, Head, Body)
    body = """
        struct peer peer;
        nf_lookup(&peers, 0, &peer);
        if (peer.window == 0) {
            peer.window = 4;
            peer.promised = 4;
        }
        if (peer.sent != peer.done && nf_now() - peer.heard > TIMEOUT) {
            peer.done = peer.sent;
            peer.window = peer.window / 2 + 1;
            if (peer.promised - peer.done < peer.window)
                peer.promised = peer.done + peer.window;
        }
        if (peer.sent == peer.done)
            peer.heard = nf_now();
        if (peer.sent == peer.promised) {
            nf_update(&peers, 0, peer);
            full(tuple);
            return;
        }
        peer.sent = peer.sent + 1;
        nf_update(&peers, 0, peer);

        struct nf_eth eth = {};
        eth.dst.b[0] = 2;
        eth.dst.b[5] = 2 - NODE;
        eth.src.b[0] = 2;
        eth.src.b[5] = 1 + NODE;
        eth.type = nf_htons(NF_ETH_IPV4);
        struct nf_ipv4 ip = {};
        ip.version = 4;
        ip.ihl = 5;
        ip.ttl = 64;
        ip.protocol = NF_IP_UDP;
        ip.length = nf_htons(68);
        ip.src = nf_htonl(0x0a090101 + NODE);
        ip.dst = nf_htonl(0x0a090102 - NODE);
        ip.csum = nf_csum_fold(nf_csum_add(0, ip));
        struct nf_udp udp = {};
        udp.sport = nf_htons(PORT);
        udp.dport = nf_htons(PORT);
        udp.length = nf_htons(48);
        struct head head = {nf_htons(2), nf_htons(NODE), nf_htonl(peer.sent)};
        struct body body = {nf_htonl(tuple.task), nf_htonl(tuple.count), tuple.word};
        nf_update(&outgoing, 0, 1);
        nf_buf_clear(&outgoing, 0);
        nf_buf_append(&outgoing, 0, eth);
        nf_buf_append(&outgoing, 0, ip);
        nf_buf_append(&outgoing, 0, udp);
        nf_buf_append(&outgoing, 0, head);
        nf_buf_append(&outgoing, 0, body);
        nf_buf_send(&outgoing, 0, 0);
    """


class Acknowledged(Element):
    """Moves the window on, and tells the worker."""

    inp = In(number=u32)
    heard = Out(Heard)
    tables = (peers,)
    structs = (Peer,)
    body = """
        struct peer peer;
        nf_lookup(&peers, 0, &peer);
        uint32_t ahead = number - peer.done;
        if (ahead == 0 || ahead > peer.sent - peer.done)
            return;
        peer.window = ahead == 1 ? peer.window + 1 : peer.window / 2 + 1;
        if (peer.window > 256)
            peer.window = 256;
        peer.done = number;
        peer.heard = nf_now();
        if (peer.promised - peer.done < peer.window)
            peer.promised = peer.done + peer.window;
        nf_update(&peers, 0, peer);
        struct heard message = {1, 1 - NODE, peer.promised};
        heard(message);
    """


class Parse(Element):
    """Data are acknowledged here; what goes to the host are values, not packets."""

    inp = In(pkt=packet)
    data = Out(Tuple)
    ack = Out(packet)
    number = Out(u32)
    done = Out(packet)
    other = Out(packet)
    structs = (Head, Body)
    body = """
        struct nf_eth eth;
        struct nf_ipv4 ip;
        struct nf_udp udp;
        struct head head;
        struct body body;
        if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) ||
            !nf_extract(pkt, &ip) || ip.ihl != 5 ||
            ip.protocol != NF_IP_UDP || !nf_extract(pkt, &udp) || udp.dport != nf_htons(PORT) ||
                !nf_extract(pkt, &head)) {
            other(pkt);
            return;
        }
        if (head.kind == nf_htons(3)) {
            number(nf_ntohl(head.number));
            done(pkt);
            return;
        }
        if (head.kind != nf_htons(2) || !nf_extract(pkt, &body)) {
            other(pkt);
            return;
        }
        struct tuple tuple = {nf_ntohl(body.task), 1 - NODE, nf_ntohl(body.count), body.word};
        data(tuple);
        nf_mac mac = eth.dst;
        eth.dst = eth.src;
        eth.src = mac;
        nf_be32 address = ip.dst;
        ip.dst = ip.src;
        ip.src = address;
        head.kind = nf_htons(3);
        head.node = nf_htons(NODE);
        nf_emit(pkt, &eth);
        nf_emit(pkt, &ip);
        nf_emit(pkt, &udp);
        nf_emit(pkt, &head);
        nf_emit(pkt, &body);
        ack(pkt);
    """


class Tell(Element):
    """A tuple for the worker."""

    inp = In(tuple=Tuple)
    heard = Out(Heard)
    body = """
        struct heard message = {0, tuple.task, 0, tuple.sender, tuple.count, tuple.word};
        heard(message);
    """


class Pass(Element):
    """On the NIC side, where everything that has no short cut comes by."""

    inp = In(tuple=Tuple)
    out = Out(Tuple)
    body = "out(tuple);"


def program(node: int, variant: str) -> Program:
    """A node's program."""
    network, parse, route = FromNet(), Parse(NODE=node, PORT=PORT), Route(NODE=node)
    window = Window(NODE=node, PORT=PORT, TIMEOUT=2_000_000_000)
    acknowledged, tell = Acknowledged(NODE=node), Tell()
    worker = CallableSegment(receives=Heard, sends=Tuple, name="worker")
    network >> parse
    arrived = Queue("arrived", side="host")
    parse.other >> ToSystem()
    parse.done >> Drop("an acknowledgement")
    parse.ack >> Reply()
    parse.data >> arrived >> tell
    parse.number >> Queue("acknowledgements", side="host", ordered=False) >> acknowledged
    tell.heard >> worker
    acknowledged.heard >> worker
    worker.sent >> Queue("tuples", side="host", ordered=False) >> route
    route.there >> window
    window.full >> Discard(Tuple)
    if variant == "bypass":
        route.here >> tell
    else:
        route.here >> Queue("round", side="nic") >> Pass() >> arrived
    return Program("analytics", network, worker, ports=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--node", type=int, choices=(0, 1), default=0)
    parser.add_argument("--variant", choices=VARIANTS, default="bypass")
    parser.add_argument(
        "--self-test",
        action="store_true",
        help="two nodes in a network namespace, compared with counting",
    )
    options, rest = parser.parse_known_args()
    if options.self_test:
        from selftest import run

        sys.exit(run())
    program(options.node, options.variant).main(rest)


if __name__ == "__main__":
    main()
