/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * conn_limiter by hand: at most LIMIT open TCP connections per source address, from their SYN to
 * the first FIN or RST of either side.
 */
#include "common.h"

#define CLIENTS 0
#define SERVERS 1
#define LIMIT 8

struct source {
    __u32 open;
    __u32 refused;
};

struct flow {
    __be32 src;
    __be32 dst;
    __be16 sport;
    __be16 dport;
    __u8 protocol;
    __u8 pad[3];
};

struct flow_state {
    __u8 open;
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1024);
    __type(key, __be32);
    __type(value, struct source);
} sources SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 135168);
    __type(key, struct flow);
    __type(value, struct flow_state);
} flows SEC(".maps");

COUNTERS(6, 2);

SEC("xdp")
int nf_net_recv(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data;
    void *end = (void *)(long)ctx->data_end;
    struct ethhdr *eth = data;
    struct iphdr *ip = (void *)(eth + 1);
    bool from_client = in_port(ctx) == CLIENTS;
    __u32 out = from_client ? SERVERS : CLIENTS;

    if ((void *)(eth + 1) > end)
        return drop(0);
    if (eth->h_proto != bpf_htons(ETH_P_IP))
        return send(out);
    if ((void *)(ip + 1) > end)
        return drop(1);
    /* Of a fragmented segment only the first fragment has the TCP header. */
    if (ip->protocol != IPPROTO_TCP || (ip->frag_off & bpf_htons(0x1fff)))
        return send(out);
    struct tcphdr *tcp = (void *)ip + ip->ihl * 4;
    if (ip->ihl < 5 || (void *)(tcp + 1) > end)
        return drop(2);

    /* The flow as the client sends it, whichever way this segment goes. */
    struct flow flow = {.protocol = IPPROTO_TCP};
    if (from_client) {
        flow.src = ip->saddr;
        flow.dst = ip->daddr;
        flow.sport = tcp->source;
        flow.dport = tcp->dest;
    } else {
        flow.src = ip->daddr;
        flow.dst = ip->saddr;
        flow.sport = tcp->dest;
        flow.dport = tcp->source;
    }
    __u8 flags = ((__u8 *)tcp)[13];
    struct flow_state *state = bpf_map_lookup_elem(&flows, &flow);
    bool open = state && state->open;

    if (from_client && (flags & 0x12) == 0x02 && !open) {
        struct source *source = bpf_map_lookup_elem(&sources, &flow.src);
        if (source) {
            if (source->open >= LIMIT) {
                source->refused++;
                return drop(3);
            }
            source->open++;
        } else {
            struct source first = {.open = 1};
            if (bpf_map_update_elem(&sources, &flow.src, &first, BPF_ANY)) {
                refused(0);
                return drop(4);
            }
        }
        if (state) {
            state->open = 1;
        } else {
            struct flow_state opened = {.open = 1};
            if (bpf_map_update_elem(&flows, &flow, &opened, BPF_ANY))
                refused(1);
        }
    } else if ((flags & 0x05) && open) {
        struct source *source = bpf_map_lookup_elem(&sources, &flow.src);
        if (source && source->open)
            source->open--;
        bpf_map_delete_elem(&flows, &flow);
    }
    return send(out);
}
