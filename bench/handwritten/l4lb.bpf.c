/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * l4lb by hand: a layer-4 load balancer with Maglev hashing for TCP and UDP over IPv4 and IPv6.
 */
#include "common.h"

#define CLIENTS 0
#define SERVERS 1
#define RING 251

/* IPv4 addresses are in word[0], the rest zero. */
struct address {
    __be32 word[4];
};

struct service_key {
    struct address address;
    __be16 port;
    __u8 protocol;
    __u8 pad;
};

struct service {
    __u32 ring;
};

struct backend {
    struct address address;
    __u8 mac[ETH_ALEN];
    __u8 pad[2];
};

struct flow_key {
    struct address client;
    struct address other;
    __be16 client_port;
    __be16 port;
    __u8 protocol;
    __u8 pad[3];
};

struct chosen {
    __u32 backend;
};

struct origin {
    struct address service;
    __u8 client_mac[ETH_ALEN];
    __u8 our_mac[ETH_ALEN];
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 64);
    __type(key, struct service_key);
    __type(value, struct service);
} services SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 4096);
    __type(key, __u32);
    __type(value, __u32);
} rings SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 256);
    __type(key, __u32);
    __type(value, struct backend);
} backends SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 135168);
    __type(key, struct flow_key);
    __type(value, struct chosen);
} flows SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 135168);
    __type(key, struct flow_key);
    __type(value, struct origin);
} returns SEC(".maps");

COUNTERS(4, 5);

/* The part of an RFC 1624 update that comes from the addresses. */
static __always_inline __u64 address_delta(const struct address *from, const struct address *to)
{
    __u64 delta = 0;
#pragma unroll
    for (int i = 0; i < 4; i++)
        delta += (__u64)(__u32)~from->word[i] + to->word[i];
    return delta;
}

SEC("xdp")
int nf_net_recv(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data;
    void *end = (void *)(long)ctx->data_end;
    struct ethhdr *eth = data;
    struct iphdr *ip4 = (void *)(eth + 1);
    struct ipv6hdr *ip6 = (void *)(eth + 1);
    struct address src = {0}, dst = {0};
    struct flow_key key = {0};
    struct udphdr *l4;

    if ((void *)(eth + 1) > end)
        return drop(0);
    __u16 type = eth->h_proto;
    if (type == bpf_htons(ETH_P_IP)) {
        if ((void *)(ip4 + 1) > end || ip4->ihl != 5 || (ip4->frag_off & bpf_htons(0x3fff)))
            return drop(1);
        key.protocol = ip4->protocol;
        src.word[0] = ip4->saddr;
        dst.word[0] = ip4->daddr;
        l4 = (void *)(ip4 + 1);
    } else if (type == bpf_htons(ETH_P_IPV6)) {
        if ((void *)(ip6 + 1) > end)
            return drop(1);
        key.protocol = ip6->nexthdr;
        __builtin_memcpy(&src, &ip6->saddr, sizeof(src));
        __builtin_memcpy(&dst, &ip6->daddr, sizeof(dst));
        l4 = (void *)(ip6 + 1);
    } else {
        return pass();
    }
    if ((void *)(&l4->dest + 1) > end ||
        (key.protocol != IPPROTO_TCP && key.protocol != IPPROTO_UDP))
        return pass();

    __u64 delta;
    struct address to;
    bool inbound = in_port(ctx) == CLIENTS;
    if (inbound) {
        __u32 at;
        key.client = src;
        key.other = dst;
        key.client_port = l4->source;
        key.port = l4->dest;
        struct chosen *chosen = bpf_map_lookup_elem(&flows, &key);
        if (chosen) {
            at = chosen->backend;
        } else {
            struct service_key wanted = {
                .address = dst, .port = key.port, .protocol = key.protocol};
            struct service *service = bpf_map_lookup_elem(&services, &wanted);
            if (!service)
                return pass();
            __u32 slot = service->ring + hash(0, &key, sizeof(key)) % RING;
            __u32 *entry = bpf_map_lookup_elem(&rings, &slot);
            struct chosen fresh = {.backend = entry ? *entry : 0};
            at = fresh.backend;
            if (bpf_map_update_elem(&flows, &key, &fresh, BPF_ANY))
                refused(3);
        }
        struct backend *backend = bpf_map_lookup_elem(&backends, &at);
        if (!backend)
            return XDP_ABORTED;
        to = backend->address;
        key.other = to;
        struct origin origin = {.service = dst};
        copy_mac(origin.client_mac, eth->h_source);
        copy_mac_to_stack(origin.our_mac, eth->h_dest);
        if (bpf_map_update_elem(&returns, &key, &origin, BPF_ANY))
            refused(4);
        copy_mac(eth->h_source, eth->h_dest);
        copy_mac(eth->h_dest, backend->mac);
        delta = address_delta(&dst, &to);
        if (type == bpf_htons(ETH_P_IP)) {
            ip4->check = patch_csum(ip4->check, (__u64)(__u32)~dst.word[0] + to.word[0]);
            ip4->daddr = to.word[0];
        } else {
            __builtin_memcpy(&ip6->daddr, &to, sizeof(to));
        }
    } else {
        key.client = dst;
        key.other = src;
        key.client_port = l4->dest;
        key.port = l4->source;
        struct origin *origin = bpf_map_lookup_elem(&returns, &key);
        if (!origin)
            return drop(2);
        to = origin->service;
        copy_mac(eth->h_source, origin->our_mac);
        copy_mac(eth->h_dest, origin->client_mac);
        delta = address_delta(&src, &to);
        if (type == bpf_htons(ETH_P_IP)) {
            ip4->check = patch_csum(ip4->check, (__u64)(__u32)~src.word[0] + to.word[0]);
            ip4->saddr = to.word[0];
        } else {
            __builtin_memcpy(&ip6->saddr, &to, sizeof(to));
        }
    }

    if (key.protocol == IPPROTO_TCP) {
        struct tcphdr *tcp = (void *)l4;
        if ((void *)(&tcp->check + 1) <= end)
            tcp->check = patch_csum(tcp->check, delta);
    } else if ((void *)(l4 + 1) <= end && l4->check) {
        l4->check = patch_csum(l4->check, delta);
        if (!l4->check)
            l4->check = 0xffff;
    }
    return send(inbound ? SERVERS : CLIENTS);
}
