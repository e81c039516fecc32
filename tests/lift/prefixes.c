// SPDX-License-Identifier: Apache-2.0 OR MIT
// Tries of prefixes that are asked for less than a whole address: one key for IPv4 and IPv6, and
// a number of bits that a packet says.
#include <linux/bpf.h>

#include <linux/if_ether.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct key {
    __u32 bits;
    __u32 port;
    __u8 address[16];
};

struct {
    __uint(type, BPF_MAP_TYPE_LPM_TRIE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, 64);
    __type(key, struct key);
    __type(value, __u32);
} rules SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 8);
    __type(key, __u32);
    __type(value, __u64);
} seen SEC(".maps");

static __always_inline void count(__u32 rule)
{
    __u32 slot = rule & 7;
    __u64 *found = bpf_map_lookup_elem(&seen, &slot);
    if (found)
        *found += 1;
}

/* The rule for the sender's address. */
SEC("xdp") int sender(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct ethhdr *eth = data;
    struct key key = {0};
    if (data + 54 > end)
        return XDP_PASS;
    if (eth->h_proto == bpf_htons(ETH_P_IP)) {
        key.bits = 64;
        __builtin_memcpy(key.address, data + 26, 4);
    } else {
        key.bits = 160;
        __builtin_memcpy(key.address, data + 22, 16);
    }
    __u32 *rule = bpf_map_lookup_elem(&rules, &key);
    count(rule ? *rule : 7);
    return rule && *rule & 1 ? XDP_DROP : XDP_PASS;
}

/* As many bits as a byte says, of the first of two addresses that has a rule. */
SEC("xdp") int bits(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct key key = {0};
    if (data + 38 > end)
        return XDP_PASS;
    key.bits = 40 + (((__u8 *)data)[37] & 31);
    __builtin_memcpy(key.address, data + 26, 4);
    __u32 *rule = bpf_map_lookup_elem(&rules, &key);
    if (!rule) {
        key.bits = 64;
        __builtin_memcpy(key.address, data + 30, 4);
        rule = bpf_map_lookup_elem(&rules, &key);
    }
    if (rule)
        count(*rule);
    return rule ? XDP_TX : XDP_PASS;
}

struct rule {
    __u64 packets;
    __u32 last, sizes[2];
};

struct {
    __uint(type, BPF_MAP_TYPE_LPM_TRIE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, 64);
    __type(key, __u64);
    __type(value, struct rule);
} counted SEC(".maps");

/* Numbers of a rule that packets change. */
SEC("xdp") int rules_count(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct {
        __u32 bits, address;
    } key = {32};
    if (data + 34 > end)
        return XDP_PASS;
    __builtin_memcpy(&key.address, data + 26, 4);
    struct rule *rule = bpf_map_lookup_elem(&counted, &key);
    if (!rule)
        return XDP_PASS;
    __sync_fetch_and_add(&rule->packets, 1);
    rule->sizes[rule->last & 1] += end - data;
    rule->last = ((__u8 *)data)[29];
    return rule->sizes[0] & 1 ? XDP_DROP : XDP_TX;
}

char _license[] SEC("license") = "GPL";
