/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * flow_ageing: counts the packets of flows, and tells the host side of a flow that was idle for a
 * second.
 */
#include <nicforge.h>

struct record {
    uint32_t packets;
    uint64_t last;
};

struct ended {
    struct nf_flow flow;
    struct record record;
};

NF_TABLE(hash, flows, struct nf_flow, struct record, 1024);

static void end(struct nf_flow flow, struct record record)
{
    struct ended ended = {flow, record};
    nf_host_msg(ended);
}
NF_EXPIRES(flows, last, NF_SEC(1), end)

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    if (nf_extract(pkt, &eth) && eth.type == nf_htons(NF_ETH_IPV4) && nf_extract(pkt, &ip)) {
        struct nf_flow flow = {.src = ip.src, .dst = ip.dst, .protocol = ip.protocol};
        struct record record;
        nf_lookup(&flows, flow, &record);
        record.packets++;
        record.last = nf_now();
        nf_update(&flows, flow, record);
    }
    nf_reset(pkt);
    nf_send(pkt, 1 - (nf_port(pkt) & 1));
}
