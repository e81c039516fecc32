/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A load balancer's director and merger as an XDP developer writes them for one mode (MODE: 0
 * window, 1 token bucket, 2 proportional) and for what the packets of the benchmark are: IPv4 and
 * IPv6, TCP and UDP, with or without a VLAN tag. Maps have the layout of the director it is
 * compared with, so that both can be set up alike.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct settings {
    __u64 window_ns;
    __u64 credit;
    __u64 rate;
    __u64 burst;
    __u64 host_share;
    __u64 drain_ns;
    __u64 unused;
    __u64 route;
};

struct settings nfb_set SEC(".data.set") = {.window_ns = 100000};

struct state {
    __u64 left;
    __u64 at;
    __u64 owed;
    __u64 nic_packets;
    __u64 nic_bytes;
    __u64 host_packets;
    __u64 host_bytes;
    __u64 merged;
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct state);
} nfb_cpus SEC(".maps");

struct target {
    __u8 mac[6];
    __u16 delta;
    __u32 address[4];
};

struct in6 {
    __u32 words[4];
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 64);
    __type(key, __u32);
    __type(value, struct target);
} nfb_vips4 SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 64);
    __type(key, struct in6);
    __type(value, struct target);
} nfb_vips6 SEC(".maps");

/* Of the merger, which is not compared. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 64);
    __type(key, __u32);
    __type(value, struct target);
} nfb_hosts4 SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 64);
    __type(key, struct in6);
    __type(value, struct target);
} nfb_hosts6 SEC(".maps");

struct bucket {
    __u32 host;
    __u32 wanted;
    __u64 last_ns;
    __u64 bytes;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1024);
    __type(key, __u32);
    __type(value, struct bucket);
} nfb_buckets SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_DEVMAP);
    __uint(max_entries, 3);
    __type(key, __u32);
    __type(value, __u32);
} nfb_ports SEC(".maps");

static __always_inline __u16 adjust(__u16 sum, __u16 delta)
{
    __u32 next = (__u16)~sum + (__u32)delta;
    return ~((next & 0xffff) + (next >> 16));
}

#if MODE == 3
static __always_inline __u32 mix(__u32 hash, __u32 word)
{
    hash = (hash ^ bpf_ntohl(word)) * 0x85ebca6b;
    return (hash << 13 | hash >> 19) + 0xc2b2ae35;
}

/* The side of a flow: both addresses are `words` words from `source`. */
static __always_inline bool flow_stays(const __u32 *source, int words, const __u32 *ports,
                                       __u8 protocol, __u64 bytes)
{
    __u32 hash = protocol + 0x9e3779b9;

#pragma unroll
    for (int i = 0; i < words; i++)
        hash = mix(hash, source[i]);
    if (ports)
        hash = mix(hash, *ports);
    hash ^= hash >> 16;
    hash = (hash * 0x7feb352d) >> 16 & 1023;
    struct bucket *bucket = bpf_map_lookup_elem(&nfb_buckets, &hash);
    if (!bucket)
        return true;
    __sync_fetch_and_add(&bucket->bytes, bytes);
    if (bucket->host == bucket->wanted) {
        if (bucket->last_ns)
            bucket->last_ns = 0;
    } else {
        __u64 now = bpf_ktime_get_ns();
        if (bucket->last_ns && now - bucket->last_ns >= nfb_set.drain_ns) {
            bucket->host = bucket->wanted;
            bucket->last_ns = 0;
        } else {
            bucket->last_ns = now;
        }
    }
    return !bucket->host;
}
#else
static __always_inline bool stays(struct state *state, __u64 bytes)
{
#if MODE == 0
    if (!state->left) {
        __u64 window = bpf_ktime_get_ns() / nfb_set.window_ns;
        if (window != state->at) {
            state->at = window;
            state->left = nfb_set.credit;
        }
    }
    __u64 left = state->left;
    state->left = left > bytes ? left - bytes : 0;
    return left;
#elif MODE == 1
    __u64 left = state->left;
    if (left < bytes) {
        __u64 now = bpf_ktime_get_ns(), passed = now - state->at;
        if (passed > 1 << 24)
            passed = 1 << 24;
        state->at = now;
        left += passed * nfb_set.rate >> 20;
        if (left > nfb_set.burst)
            left = nfb_set.burst;
        if (left < bytes) {
            state->left = left;
            return false;
        }
    }
    state->left = left - bytes;
    return true;
#else
    __u64 share = nfb_set.host_share, owed = state->owed + bytes * share;
    if (share && owed >= bytes << 16) {
        state->owed = owed - (bytes << 16);
        return false;
    }
    state->owed = owed;
    return true;
#endif
}
#endif

SEC("xdp")
int nfb_ingress(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    void *at = data + 14, *fourth;
    __u16 *header_sum = NULL, *sum = NULL;
    struct target *target;
    __u32 *address;
    __u8 protocol;
    bool part = false, first = true, six = false;
    __u32 zero = 0;

    if (at > end)
        goto untouched;
    __u16 kind = *(__u16 *)(data + 12);
    if (kind == bpf_htons(ETH_P_8021Q) || kind == bpf_htons(ETH_P_8021AD)) {
        at += 4;
        if (at > end)
            goto untouched;
        kind = *(__u16 *)(at - 2);
    }
    if (kind == bpf_htons(ETH_P_IP)) {
        struct iphdr *ip = at;
        if ((void *)(ip + 1) > end || ip->version != 4 || ip->ihl < 5)
            goto untouched;
        address = &ip->daddr;
        header_sum = &ip->check;
        protocol = ip->protocol;
        part = ip->frag_off & bpf_htons(0x3fff);
        first = !(ip->frag_off & bpf_htons(0x1fff));
        fourth = at + ip->ihl * 4;
        target = bpf_map_lookup_elem(&nfb_vips4, address);
    } else if (kind == bpf_htons(ETH_P_IPV6)) {
        struct ipv6hdr *ip = at;
        if ((void *)(ip + 1) > end || ip->version != 6)
            goto untouched;
        address = ip->daddr.in6_u.u6_addr32;
        six = true;
        protocol = ip->nexthdr;
        fourth = ip + 1;
        target = bpf_map_lookup_elem(&nfb_vips6, address);
    } else {
        goto untouched;
    }
    if (!target)
        goto untouched;
    if (first && protocol == 17) {
        if (fourth + 8 > end)
            goto untouched;
        sum = fourth + 6;
    } else if (first && protocol == 6) {
        if (fourth + 18 > end)
            goto untouched;
        sum = fourth + 16;
    }

    struct state *state = bpf_map_lookup_elem(&nfb_cpus, &zero);
    if (!state)
        return XDP_ABORTED;
    __u64 bytes = end - data + 24;
    bool nic = nfb_set.route == 1;
    if (!nfb_set.route) {
#if MODE == 3
        const __u32 *ports = part || !sum ? NULL : fourth;
        if (ports && (void *)(ports + 1) > end)
            goto untouched;
        nic = six ? flow_stays(address - 4, 8, ports, protocol, bytes)
                  : flow_stays(address - 1, 2, ports, protocol, bytes);
#else
        nic = !part && stays(state, bytes);
#endif
    }
    if (nic) {
        state->nic_packets++;
        state->nic_bytes += bytes;
        return bpf_redirect_map(&nfb_ports, 1, 0);
    }
    state->host_packets++;
    state->host_bytes += bytes;
    *(__u32 *)data = *(__u32 *)target->mac;
    *(__u16 *)(data + 4) = *(__u16 *)(target->mac + 4);
    address[0] = target->address[0];
    if (!six) {
        *header_sum = adjust(*header_sum, target->delta);
    } else {
        address[1] = target->address[1];
        address[2] = target->address[2];
        address[3] = target->address[3];
    }
    if (sum && (protocol == 6 || *sum)) {
        __u16 now = adjust(*sum, target->delta);
        *sum = protocol == 17 && !now ? 0xffff : now;
    }
    return bpf_redirect_map(&nfb_ports, 2, 0);

untouched:
    return bpf_redirect_map(&nfb_ports, 1, 0);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
