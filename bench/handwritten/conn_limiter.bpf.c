/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * conn_limiter by hand: at most LIMIT open TCP connections per source address.
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
    __uint(max_entries, 16384);
    __type(key, __be32);
    __type(value, struct source);
} sources SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 135168);
    __type(key, struct flow);
    __type(value, struct flow_state);
} flows SEC(".maps");

COUNTERS(5, 2);

SEC("xdp")
int nf_net_recv(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data;
    void *end = (void *)(long)ctx->data_end;
    struct ethhdr *eth = data;
    struct iphdr *ip = (void *)(eth + 1);
    struct tcphdr *tcp = (void *)(ip + 1);

    if (in_port(ctx) != CLIENTS)
        return send(CLIENTS);
    if ((void *)(eth + 1) > end)
        return drop(0);
    if (eth->h_proto != bpf_htons(ETH_P_IP))
        return pass();
    if ((void *)(ip + 1) > end)
        return drop(1);
    if (ip->protocol != IPPROTO_TCP || ip->ihl != 5)
        return send(SERVERS);
    if ((void *)(tcp + 1) > end)
        return drop(2);

    struct flow flow = {
        .src = ip->saddr,
        .dst = ip->daddr,
        .sport = tcp->source,
        .dport = tcp->dest,
        .protocol = IPPROTO_TCP,
    };
    struct flow_state *state = bpf_map_lookup_elem(&flows, &flow);
    bool open = state && state->open;
    __u8 flags = ((__u8 *)tcp)[13];

    if ((flags & 0x12) == 0x02 && !open) {
        struct source *source = bpf_map_lookup_elem(&sources, &flow.src);
        if (source) {
            if (source->open >= LIMIT) {
                source->refused++;
                return drop(3);
            }
            source->open++;
        } else {
            struct source first = {.open = 1};
            if (bpf_map_update_elem(&sources, &flow.src, &first, BPF_ANY))
                refused(0);
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
    return send(SERVERS);
}
