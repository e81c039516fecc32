/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * rate_limit: a token bucket for each source, under a lock.
 */
#include "xdp.h"

struct bucket {
    struct bpf_spin_lock lock;
    __u32 tokens;
    __u64 last;
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 4096);
    __type(key, __u32);
    __type(value, struct bucket);
} buckets SEC(".maps");

#define BURST 32
#define EACH 1000000

SEC("xdp") int rate_limit(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    struct iphdr *ip = take(&p, sizeof(*ip));
    if (!eth || !ip || eth->h_proto != bpf_htons(ETH_P_IP))
        return XDP_PASS;
    __u32 source = ip->saddr;
    __u64 now = bpf_ktime_get_ns();
    struct bucket *bucket = bpf_map_lookup_elem(&buckets, &source);
    if (!bucket) {
        struct bucket fresh = {.tokens = BURST - 1, .last = now};
        bpf_map_update_elem(&buckets, &source, &fresh, BPF_ANY);
        return XDP_PASS;
    }
    int verdict = XDP_DROP;
    bpf_spin_lock(&bucket->lock);
    __u64 more = (now - bucket->last) / EACH;
    if (more) {
        bucket->tokens = more + bucket->tokens > BURST ? BURST : more + bucket->tokens;
        bucket->last = now;
    }
    if (bucket->tokens) {
        bucket->tokens--;
        verdict = XDP_PASS;
    }
    bpf_spin_unlock(&bucket->lock);
    return verdict;
}
