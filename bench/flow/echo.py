"""UDP echo as a flow program: what comes to port 7 goes back. Prints the C; `bench --bin dpdk echo`
measures it.

python3 bench/flow/echo.py
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from nicforge.flow import Drop, Element, FromNet, In, Out, Program, Reply, packet  # noqa: E402


class Echo(Element):
    """Exchanges Ethernet and IPv4 addresses and UDP ports. Sums of fields that change places stay
    what they are."""

    inp = In(pkt=packet)
    out = Out(packet)
    other = Out(packet)
    body = """
        struct nf_eth eth;
        struct nf_ipv4 ip;
        struct nf_udp udp;
        if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) ||
            !nf_extract(pkt, &ip) || ip.ihl != 5 ||
            ip.protocol != NF_IP_UDP || (ip.frag & nf_htons(NF_IPV4_MORE | NF_IPV4_OFFSET)) != 0 ||
            !nf_extract(pkt, &udp) || udp.dport != nf_htons(7)) {
            other(pkt);
            return;
        }
        nf_mac sender = eth.src;
        eth.src = eth.dst;
        eth.dst = sender;
        nf_be32 source = ip.src;
        ip.src = ip.dst;
        ip.dst = source;
        udp.dport = udp.sport;
        udp.sport = nf_htons(7);
        nf_emit(pkt, &eth);
        nf_emit(pkt, &ip);
        nf_emit(pkt, &udp);
        out(pkt);
    """


network, echo = FromNet(), Echo()
network >> echo
echo.out >> Reply()
echo.other >> Drop("not for the echo")
print(Program("echo", network, ports=1).source().text, end="")
