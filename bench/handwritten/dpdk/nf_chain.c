/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * nf_chain by hand: a stateful firewall, a connection limiter and a load balancer. Per-flow state
 * of the three is in one rte_hash each, as separately maintained functions would have it, with the
 * values in arrays beside them. Where the program says that the least recently used connection
 * goes, this one refuses: rte_hash keeps no order of use.
 */
#include <rte_hash.h>
#include <rte_hash_crc.h>
#include <rte_ip.h>
#include <rte_tcp.h>

#include "common.h"

#define CLIENTS 0
#define SERVERS 1
#define MAX_OPEN 16
#define IDLE_NS (60ull * 1000000000ull)
#define FLOWS 16384
#define SOURCES 4096

struct flow {
    rte_be32_t src;
    rte_be32_t dst;
    rte_be16_t sport;
    rte_be16_t dport;
    uint8_t protocol;
    uint8_t pad[3];
};

struct connection {
    uint64_t last_seen;
    uint8_t fin_seen;
};

struct counters {
    uint32_t packets;
    uint64_t bytes;
};

struct service {
    uint16_t servers;
    uint16_t next;
    struct rte_ether_addr server[8];
};

static struct rte_hash *policy, *connections, *counts, *assigned, *sources, *services;
static uint8_t denied[1024];
static struct connection connection_of[2 * FLOWS];
static struct counters counts_of[2 * FLOWS];
static struct rte_ether_addr server_of[2 * FLOWS];
static uint32_t open_of[2 * SOURCES];
static struct service service_of[128];

static struct rte_hash *table(const char *name, uint32_t entries, uint32_t key_len)
{
    struct rte_hash_parameters parameters = {.name = name,
                                             .entries = entries,
                                             .key_len = key_len,
                                             .hash_func = rte_hash_crc,
                                             .socket_id = 0};
    return rte_hash_create(&parameters);
}

static void add_service(uint32_t address, uint16_t servers, uint8_t group)
{
    rte_be32_t key = rte_cpu_to_be_32(address);
    int at = rte_hash_add_key(services, &key);
    service_of[at].servers = servers;
    for (uint8_t i = 0; i < servers; i++)
        service_of[at].server[i] = (struct rte_ether_addr){{2, 0, 0, 0, group, i + 1}};
}

static bool prepare(void)
{
    policy = table("policy", 1024, sizeof(struct flow));
    connections = table("connections", FLOWS, sizeof(struct flow));
    counts = table("counts", FLOWS, sizeof(struct flow));
    assigned = table("assigned", FLOWS, sizeof(struct flow));
    sources = table("sources", SOURCES, sizeof(rte_be32_t));
    services = table("services", 64, sizeof(rte_be32_t));
    if (!policy || !connections || !counts || !assigned || !sources || !services)
        return false;
    add_service(RTE_IPV4(192, 0, 2, 10), 3, 2);
    add_service(RTE_IPV4(192, 0, 2, 20), 4, 3);
    add_service(RTE_IPV4(192, 0, 2, 30), 0, 0);
    struct flow deny = {rte_cpu_to_be_32(RTE_IPV4(10, 66, 6, 6)),
                        rte_cpu_to_be_32(RTE_IPV4(192, 0, 2, 10)),
                        rte_cpu_to_be_16(6666),
                        rte_cpu_to_be_16(80),
                        IPPROTO_TCP,
                        {0}};
    denied[rte_hash_add_key(policy, &deny)] = 1;
    return true;
}

static inline int forward(struct rte_mbuf *m, unsigned port)
{
    uint8_t *data = rte_pktmbuf_mtod(m, uint8_t *);
    uint32_t length = rte_pktmbuf_data_len(m);
    struct rte_ether_hdr *eth = (void *)data;
    struct rte_ipv4_hdr *ip = (void *)(eth + 1);
    struct rte_tcp_hdr *tcp = (void *)(ip + 1);
    if (length < sizeof(*eth) || eth->ether_type != rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4))
        return DROP;
    if (length < sizeof(*eth) + sizeof(*ip) + sizeof(*tcp) || ip->next_proto_id != IPPROTO_TCP ||
        (ip->version_ihl & 15) != 5 || (ip->fragment_offset & rte_cpu_to_be_16(0x3fff)))
        return DROP;
    bool from_client = port == CLIENTS;
    struct flow flow = {.protocol = IPPROTO_TCP};
    flow.src = from_client ? ip->src_addr : ip->dst_addr;
    flow.dst = from_client ? ip->dst_addr : ip->src_addr;
    flow.sport = from_client ? tcp->src_port : tcp->dst_port;
    flow.dport = from_client ? tcp->dst_port : tcp->src_port;
    /* One signature serves all four tables of flows. */
    hash_sig_t sig = rte_hash_crc(&flow, sizeof(flow), 0);

    int rule = rte_hash_lookup_with_hash(policy, &flow, sig);
    if (rule >= 0 && denied[rule])
        return DROP;
    int known = rte_hash_lookup_with_hash(connections, &flow, sig);
    bool fresh = known >= 0 && now_ns - connection_of[known].last_seen <= IDLE_NS;
    bool opens = from_client && (tcp->tcp_flags & 0x12) == 0x02;
    if (!fresh && !opens)
        return DROP;
    bool counted = known >= 0 && !connection_of[known].fin_seen;
    bool ends = (tcp->tcp_flags & 0x05) != 0, was_counted = counted;
    if (opens && !counted) {
        int service = rte_hash_lookup(services, &flow.dst);
        if (service < 0 || !service_of[service].servers)
            return DROP;
        int source = rte_hash_lookup(sources, &flow.src);
        if (source < 0) {
            source = rte_hash_add_key(sources, &flow.src);
            if (source >= 0)
                open_of[source] = 0;
        }
        if (source >= 0 && open_of[source] >= MAX_OPEN)
            return DROP;
        if (source >= 0)
            open_of[source]++;
    } else if (ends && counted) {
        int source = rte_hash_lookup(sources, &flow.src);
        if (source >= 0 && open_of[source])
            open_of[source]--;
    }
    if (known < 0)
        known = rte_hash_add_key_with_hash(connections, &flow, sig);
    if (known >= 0) {
        connection_of[known].last_seen = now_ns;
        if (opens && !was_counted)
            connection_of[known].fin_seen = 0;
        else if (ends && was_counted)
            connection_of[known].fin_seen = 1;
    }
    int count = rte_hash_lookup_with_hash(counts, &flow, sig);
    if (count < 0) {
        count = rte_hash_add_key_with_hash(counts, &flow, sig);
        if (count >= 0)
            counts_of[count] = (struct counters){0};
    }
    if (count >= 0) {
        counts_of[count].packets++;
        counts_of[count].bytes += rte_be_to_cpu_16(ip->total_length);
    }
    if (!from_client)
        return CLIENTS;
    int server = rte_hash_lookup_with_hash(assigned, &flow, sig);
    if (server < 0) {
        int service = rte_hash_lookup(services, &flow.dst);
        if (service < 0 || !service_of[service].servers)
            return DROP;
        server = rte_hash_add_key_with_hash(assigned, &flow, sig);
        /* The turn lies beside the service: by hand one would not look it up again. */
        struct service *of = &service_of[service];
        if (of->next >= of->servers)
            of->next = 0;
        struct rte_ether_addr chosen = of->server[of->next++ & 7];
        if (server < 0) {
            eth->dst_addr = chosen;
            return SERVERS;
        }
        server_of[server] = chosen;
    }
    eth->dst_addr = server_of[server];
    return SERVERS;
}

int main(int argc, char **argv) { return serve(argc, argv, prepare, forward); }
