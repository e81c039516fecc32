/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * nf_chain by hand: a stateful firewall, a connection limiter and a load balancer, one behind the
 * other.
 */
#include <stddef.h>

#include "common.h"

#define CLIENTS 0
#define SERVERS 1
#define MAX_OPEN 16
#define IDLE_NS (60ull * 1000000000ull)

struct flow {
    __be32 src;
    __be32 dst;
    __be16 sport;
    __be16 dport;
    __u8 protocol;
    __u8 pad[3];
};

struct verdict {
    __u8 deny;
};

struct connection {
    __u64 last_seen;
    __u8 fin_seen;
    __u8 pad[7];
};

struct counters {
    __u32 packets;
    __u32 pad;
    __u64 bytes;
};

struct server {
    __u8 mac[ETH_ALEN];
};

struct source {
    __u32 open;
};

struct turn {
    __u16 next;
};

struct service {
    __u8 gateway[ETH_ALEN];
    __u16 servers;
    struct server server[8];
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1024);
    __type(key, struct flow);
    __type(value, struct verdict);
} policy SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 36864);
    __type(key, struct flow);
    __type(value, struct connection);
} connections SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __type(key, struct flow);
    __type(value, struct counters);
} counts SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 36864);
    __type(key, struct flow);
    __type(value, struct server);
} assigned SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 4096);
    __type(key, __be32);
    __type(value, struct source);
} sources SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 64);
    __type(key, __be32);
    __type(value, struct service);
} services SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 64);
    __type(key, __be32);
    __type(value, struct turn);
} turns SEC(".maps");

COUNTERS(9, 7);

SEC("xdp")
int nf_net_recv(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data;
    void *end = (void *)(long)ctx->data_end;
    struct ethhdr *eth = data;
    struct iphdr *ip = (void *)(eth + 1);
    struct tcphdr *tcp = (void *)(ip + 1);

    if ((void *)(eth + 1) > end)
        return drop(0);
    if (eth->h_proto != bpf_htons(ETH_P_IP))
        return pass();
    if ((void *)(ip + 1) > end)
        return drop(1);
    if (ip->protocol != IPPROTO_TCP || ip->ihl != 5 || (ip->frag_off & bpf_htons(0x3fff)))
        return drop(2);
    if ((void *)(tcp + 1) > end)
        return drop(3);

    /* The flow as the client sends it, whichever way this segment goes. */
    bool from_client = in_port(ctx) == CLIENTS;
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

    /* Firewall. */
    struct verdict *verdict = bpf_map_lookup_elem(&policy, &flow);
    if (verdict && verdict->deny)
        return drop(4);
    struct connection *connection = bpf_map_lookup_elem(&connections, &flow);
    __u64 now = now_ns();
    bool fresh = connection && now - connection->last_seen <= IDLE_NS;
    bool opens = from_client && (flags & 0x12) == 0x02;
    if (!fresh && !opens)
        return drop(5);

    /* Limiter: counts connections from their SYN to the first FIN or RST. One that went idle is
     * still counted. */
    bool counted = connection && !connection->fin_seen;
    struct service *service = NULL;
    if (opens && !counted) {
        service = bpf_map_lookup_elem(&services, &flow.dst);
        if (!service || !service->servers)
            return drop(6);
        struct source *source = bpf_map_lookup_elem(&sources, &flow.src);
        if (source) {
            if (source->open >= MAX_OPEN)
                return drop(7);
            source->open++;
        } else {
            struct source first = {.open = 1};
            if (bpf_map_update_elem(&sources, &flow.src, &first, BPF_ANY))
                refused(4);
        }
        if (connection)
            connection->fin_seen = 0;
    } else if ((flags & 0x05) && counted) {
        struct source *source = bpf_map_lookup_elem(&sources, &flow.src);
        if (source && source->open)
            source->open--;
        connection->fin_seen = 1;
    }
    if (connection) {
        connection->last_seen = now;
    } else {
        struct connection opened = {.last_seen = now};
        if (bpf_map_update_elem(&connections, &flow, &opened, BPF_ANY))
            refused(1);
    }

    __u64 bytes = bpf_ntohs(ip->tot_len);
    struct counters *count = bpf_map_lookup_elem(&counts, &flow);
    if (count) {
        __sync_fetch_and_add(&count->packets, 1);
        __sync_fetch_and_add(&count->bytes, bytes);
    } else {
        struct counters first = {.packets = 1, .bytes = bytes};
        if (bpf_map_update_elem(&counts, &flow, &first, BPF_NOEXIST))
            refused(2);
    }
    if (!from_client)
        return send(CLIENTS);

    /* Load balancer. */
    struct server *server = bpf_map_lookup_elem(&assigned, &flow);
    if (!server) {
        if (!service)
            service = bpf_map_lookup_elem(&services, &flow.dst);
        if (!service || !service->servers)
            return drop(6);
        struct turn *turn = bpf_map_lookup_elem(&turns, &flow.dst);
        if (turn) {
            if (turn->next >= service->servers)
                turn->next = 0;
            server = &service->server[turn->next++ & 7];
        } else {
            struct turn first = {.next = 1};
            server = &service->server[0];
            if (bpf_map_update_elem(&turns, &flow.dst, &first, BPF_ANY))
                refused(6);
        }
        if (bpf_map_update_elem(&assigned, &flow, server, BPF_ANY))
            refused(3);
    }
    copy_mac(eth->h_dest, server->mac);
    return send(SERVERS);
}
