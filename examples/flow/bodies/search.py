"""Searches datagrams for a pattern by the C library's regular expressions, which no subset has.

    python3 search.py --self-test                                # what is found, compared with Python's `re`
    python3 search.py verify --target xdp --pcap requests.pcap   # the NIC side in the kernel, the search in a process

A datagram for port 5900 has a line of 64 bytes, zeros at its end. It is answered with the part that
the pattern found, and dropped if there is none. `Search` is opaque: its body is C with pointers, a
library and a variable that stays. Packets do not come into it; of their state it gets `line`, which
is all that its queue carries, and gives `at` and `found`.
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "python"))
from nicforge.flow import (  # noqa: E402
    Drop,
    Element,
    Field,
    FromNet,
    In,
    Out,
    Program,
    Queue,
    Reply,
    State,
    Struct,
    ToSystem,
    packet,
    u8,
    u32,
)

PORT, PATTERN = 5900, "[a-z]+@[a-z]+\\\\.(org|net)"


Line = Struct("line", b=u8[64])


class Text(State):
    """What is searched, and what was found in it."""

    line = Field(Line)
    at = Field(u32)
    found = Field(u32)


class Read(Element):
    """The line of a datagram."""

    inp = In(pkt=packet)
    out = Out(packet)
    other = Out(packet)
    state = Text
    body = """
        struct nf_eth eth;
        struct nf_ipv4 ip;
        struct nf_udp udp;
        struct line line;
        if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) ||
            !nf_extract(pkt, &ip) || ip.ihl != 5 ||
            ip.protocol != NF_IP_UDP || !nf_extract(pkt, &udp) || udp.dport != nf_htons(PORT) ||
            udp.length != nf_htons(72) || !nf_load(pkt, 0, &line)) {
            other(pkt);
            return;
        }
        state.line = line;
        nf_reset(pkt);
        out(pkt);
    """


class Search(Element):
    """Where the pattern is."""

    inp = In(pkt=packet)
    hit = Out(packet)
    miss = Out(packet)
    state = Text
    includes = ("<regex.h>", "<string.h>")
    body = f"""
        static regex_t pattern;
        static bool ready;
        if (!ready)
            ready = regcomp(&pattern, "{PATTERN}", REG_EXTENDED) == 0;
        char line[65];
        memcpy(line, &state->line, 64);
        line[64] = 0;
        regmatch_t found = {{0}};
        bool there = ready && regexec(&pattern, line, 1, &found, 0) == 0;
        state->at = (uint32_t)found.rm_so;
        state->found = (uint32_t)(found.rm_eo - found.rm_so);
        if (there)
            hit(pkt);
        else
            miss(pkt);
    """


class Answer(Element):
    """Turns the datagram round, with what was found as its text."""

    inp = In(pkt=packet)
    out = Out(packet)
    gone = Out(packet)
    state = Text
    body = """
        struct nf_eth eth;
        struct nf_ipv4 ip;
        struct nf_udp udp;
        if (!nf_extract(pkt, &eth) || !nf_extract(pkt, &ip) || !nf_extract(pkt, &udp) ||
            !nf_strip(pkt, state->at) ||
            !nf_trim(pkt, state->found)) {
            gone(pkt);
            return;
        }
        nf_mac mac = eth.dst;
        eth.dst = eth.src;
        eth.src = mac;
        nf_be32 address = ip.dst;
        ip.dst = ip.src;
        ip.src = address;
        ip.length = nf_htons((uint16_t)(28 + state->found));
        ip.csum = 0;
        ip.csum = nf_csum_fold(nf_csum_add(0, ip));
        udp.dport = udp.sport;
        udp.sport = nf_htons(PORT);
        udp.length = nf_htons((uint16_t)(8 + state->found));
        udp.csum = 0;
        nf_emit(pkt, &eth);
        nf_emit(pkt, &ip);
        nf_emit(pkt, &udp);
        out(pkt);
    """


network, read, search, answer = FromNet(), Read(PORT=PORT), Search(), Answer(PORT=PORT)
network >> read
read.out >> Queue("searches", side="host") >> search
read.other >> ToSystem()
search.hit >> answer
search.miss >> Drop("nothing found", name="nothing")
answer.out >> Reply()
answer.gone >> Drop("too short", name="cut_off")
program = Program("search", network, ports=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--self-test", action="store_true", help="what is found, compared with Python's `re`"
    )
    options, rest = parser.parse_known_args()
    if options.self_test:
        import selftest

        sys.exit(selftest.search(program, PORT, PATTERN))
    program.main(rest)


if __name__ == "__main__":
    main()
