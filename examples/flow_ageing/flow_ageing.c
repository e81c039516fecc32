/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * flow_ageing: counts the packets of flows, and tells the host side of a flow that was idle for a
 * second. A timer looks at 16 entries every 10 ms, so that it is at each of the 1024 within 640 ms.
 */
#include <nicforge.h>

#define ENTRIES 1024
#define BATCH 16
#define IDLE 1000000000ull

struct record {
    struct nf_flow flow;
    uint32_t packets;
    uint64_t last;
};

/* By a hash of the flow; a new flow takes the place of another one with the same hash. */
NF_TABLE(array, flows, uint32_t, struct record, ENTRIES);
NF_TABLE(array, hand, uint32_t, uint32_t, 1);

NF_TIMER(NF_MS(10))
void age(void)
{
    uint32_t at = 0;
    nf_lookup(&hand, 0, &at);
    for (uint32_t i = 0; i < BATCH; i++) {
        struct record record;
        uint32_t entry = (at + i) % ENTRIES;
        if (!nf_lookup(&flows, entry, &record) || !record.packets || nf_now() - record.last < IDLE)
            continue;
        nf_host_msg(record);
        record = (struct record){0};
        nf_update(&flows, entry, record);
    }
    nf_update(&hand, 0, (at + BATCH) % ENTRIES);
}

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    if (nf_extract(pkt, &eth) && eth.type == nf_htons(NF_ETH_IPV4) && nf_extract(pkt, &ip)) {
        struct nf_flow flow = {.src = ip.src, .dst = ip.dst, .protocol = ip.protocol};
        uint32_t entry = nf_hash(1, flow) % ENTRIES;
        struct record record;
        nf_lookup(&flows, entry, &record);
        bool same = record.flow.src == flow.src && record.flow.dst == flow.dst &&
                    record.flow.protocol == flow.protocol;
        uint32_t packets = same ? record.packets + 1 : 1;
        record = (struct record){flow, packets, nf_now()};
        nf_update(&flows, entry, record);
    }
    nf_reset(pkt);
    nf_send(pkt, 1 - (nf_port(pkt) & 1));
}
