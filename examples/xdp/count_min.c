/* A count-min sketch over addresses and ports: HASHES rows, each with a counter chosen by a hash of
 * its own. */
#include "xdp.h"

#ifndef HASHES
#define HASHES 10
#endif
#define COLUMNS 4096

TABLE(sketch, __u64, 32 * COLUMNS);

INLINE __u32 row_hash(__u32 seed, const __u32 *key)
{
    __u32 hash = seed;
#pragma unroll
    for (int i = 0; i < 4; i++)
        hash = mix(hash, key[i]);
    return hash;
}

SEC("xdp")
int count_min(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof *eth);
    if (!eth || eth->h_proto != bpf_htons(ETH_P_IP))
        return XDP_PASS;
    struct iphdr *ip = take(&p, sizeof *ip);
    if (!ip || ip->ihl != 5)
        return XDP_PASS;
    __u32 key[4] = {ip->saddr, ip->daddr, ip->protocol, 0};
    if (ip->protocol == IPPROTO_TCP || ip->protocol == IPPROTO_UDP) {
        __u32 *ports = take(&p, 8);
        if (!ports)
            return XDP_PASS;
        key[3] = *ports;
    }
#pragma unroll
    for (__u32 row = 0; row < HASHES; row++) {
        __u32 index = row * COLUMNS + (row_hash(row * 0x61c88647 + 1, key) & (COLUMNS - 1));
        __u64 *counter = bpf_map_lookup_elem(&sketch, &index);
        if (counter)
            __sync_fetch_and_add(counter, 1);
    }
    return XDP_PASS;
}
