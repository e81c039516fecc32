/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * nat by hand: source address and port translation with endpoint-independent mapping.
 */
#include "common.h"

#define INSIDE 0
#define OUTSIDE 1
#define FIRST_PORT 1024u
#define PORTS 64512u
#define TRIES 8

struct settings {
    __be32 address;
    __u8 inside_mac[ETH_ALEN];
    __u8 outside_mac[ETH_ALEN];
    __u8 gateway[ETH_ALEN];
    __u8 pad[2];
};

struct endpoint {
    __be32 address;
    __be16 port;
    __u8 protocol;
    __u8 pad;
};

struct outside_port {
    __be16 port;
};

struct outside_key {
    __be16 port;
    __u8 protocol;
    __u8 pad;
};

struct host {
    __be32 address;
    __be16 port;
    __u8 mac[ETH_ALEN];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct settings);
} config SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 65536);
    __type(key, struct endpoint);
    __type(value, struct outside_port);
} mappings SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 65536);
    __type(key, struct outside_key);
    __type(value, struct host);
} reverse SEC(".maps");

COUNTERS(10, 3);

/* Finds or makes the port outside of a host inside; 0 if none is free. */
static __always_inline __be16 outside_port_of(const struct endpoint *from, const __u8 *mac)
{
    struct outside_port *known = bpf_map_lookup_elem(&mappings, from);
    if (known)
        return known->port;
    __u32 start = hash(1, from, sizeof(*from));
    for (int i = 0; i < TRIES; i++) {
        struct outside_key key = {
            .port = bpf_htons(FIRST_PORT + (start + i) % PORTS),
            .protocol = from->protocol,
        };
        if (bpf_map_lookup_elem(&reverse, &key))
            continue;
        struct host host = {.address = from->address, .port = from->port};
        copy_mac_to_stack(host.mac, mac);
        if (bpf_map_update_elem(&reverse, &key, &host, BPF_ANY)) {
            refused(2);
            return 0;
        }
        struct outside_port mapping = {.port = key.port};
        if (bpf_map_update_elem(&mappings, from, &mapping, BPF_ANY)) {
            refused(1);
            bpf_map_delete_elem(&reverse, &key);
            return 0;
        }
        return key.port;
    }
    return 0;
}

SEC("xdp")
int nf_net_recv(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data;
    void *end = (void *)(long)ctx->data_end;
    struct ethhdr *eth = data;
    struct iphdr *ip = (void *)(eth + 1);
    struct tcphdr *tcp = (void *)(ip + 1);
    struct udphdr *udp = (void *)(ip + 1);
    __u32 zero = 0;

    if ((void *)(eth + 1) > end)
        return drop(0);
    if (eth->h_proto != bpf_htons(ETH_P_IP))
        return pass();
    if ((void *)(ip + 1) > end)
        return drop(1);
    if (ip->ihl != 5 || (ip->frag_off & bpf_htons(0x3fff)))
        return drop(2);
    if (ip->ttl <= 1)
        return drop(3);

    struct settings *settings = bpf_map_lookup_elem(&config, &zero);
    if (!settings)
        return XDP_ABORTED;
    bool outward = in_port(ctx) == INSIDE;
    if (!outward && ip->daddr != settings->address)
        return drop(4);
    __u8 protocol = ip->protocol;
    if (protocol == IPPROTO_TCP) {
        if ((void *)(tcp + 1) > end)
            return drop(5);
    } else if (protocol == IPPROTO_UDP) {
        if ((void *)(udp + 1) > end)
            return drop(5);
    } else {
        return drop(6);
    }

    __be32 old_address, new_address;
    __be16 old_port, new_port;
    if (outward) {
        struct endpoint from = {.address = ip->saddr, .port = udp->source, .protocol = protocol};
        old_address = from.address;
        old_port = from.port;
        new_address = settings->address;
        new_port = outside_port_of(&from, eth->h_source);
        if (new_port == 0)
            return drop(7);
        ip->saddr = new_address;
        udp->source = new_port;
        copy_mac(eth->h_source, settings->outside_mac);
        copy_mac(eth->h_dest, settings->gateway);
    } else {
        struct outside_key key = {.port = udp->dest, .protocol = protocol};
        struct host *host = bpf_map_lookup_elem(&reverse, &key);
        if (!host)
            return drop(8);
        old_address = ip->daddr;
        old_port = key.port;
        new_address = host->address;
        new_port = host->port;
        ip->daddr = new_address;
        udp->dest = new_port;
        copy_mac(eth->h_source, settings->inside_mac);
        copy_mac(eth->h_dest, host->mac);
    }

    /* The time to live is the upper half of a word in network order. */
    __u64 delta = (__u64)(__u32)~old_address + new_address;
    ip->ttl--;
    ip->check = patch_csum(ip->check, delta + (__u16)~bpf_htons(0x0100));
    delta += (__u16)~old_port + (__u32)new_port;
    if (protocol == IPPROTO_TCP) {
        tcp->check = patch_csum(tcp->check, delta);
    } else if (udp->check) {
        udp->check = patch_csum(udp->check, delta);
        if (!udp->check)
            udp->check = 0xffff;
    }
    return send(outward ? OUTSIDE : INSIDE);
}
