/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fib_router: forwards IPv4 by the kernel's own routes and neighbours; what the kernel has no
 * answer for goes to it.
 */
#include <nicforge.h>

NF_PORTS(2);

NF_TABLE(array, forwarded, uint32_t, uint64_t, 2);

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) || !nf_extract(pkt, &ip) ||
        ip.ttl <= 1) {
        nf_reset(pkt);
        nf_pass(pkt);
        return;
    }
    struct nf_fib_query query = {0};
    struct nf_fib_answer answer;
    query.family = 4;
    query.protocol = ip.protocol;
    query.length = nf_ntohs(ip.length);
    query.port = nf_port(pkt);
    query.src[0] = ip.src;
    query.dst[0] = ip.dst;
    if (!nf_fib_lookup(&query, &answer)) {
        nf_reset(pkt);
        nf_pass(pkt);
        return;
    }
    for (uint32_t i = 0; i < 6; i++) {
        eth.src.b[i] = answer.src_mac[i];
        eth.dst.b[i] = answer.dst_mac[i];
    }
    ip.ttl--;
    ip.csum = nf_csum_replace16(ip.csum, NF_HTONS(0x0100), 0);
    nf_add_value(&forwarded, answer.port, 1);
    nf_emit(pkt, &eth);
    nf_emit(pkt, &ip);
    nf_send(pkt, answer.port);
}
