/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fair_queue: shares the slow link behind port 1 among tenants, one a VLAN, by their weights.
 * Frames from port 0 wait; by a timer the one whose turn is first leaves (self-clocked fair
 * queueing, Golestani 1994). Everything else passes at once.
 */
#include <nicforge.h>

#define SLOW 1
#define LONGEST 1522
/* Units of a frame's length by a tenant's weight, and how far a tenant may be ahead. */
#define UNITS 1024u
#define AHEAD (24ull * LONGEST * UNITS)

struct tenant {
    uint32_t weight;
    uint64_t finish;
};

/* The turn that was served last, and the number of the next frame. */
struct server {
    uint64_t turn;
    uint32_t next;
};

/* By VLAN; the control plane adds them. */
NF_TABLE(hash, tenants, uint16_t, struct tenant, 64);
NF_TABLE(array, servers, uint32_t, struct server, 1);
/* Frames by number, with their turn. */
NF_BUF_TABLE(hash, waiting, uint32_t, uint64_t, 256, LONGEST);

NF_TIMER(NF_US(12))
void serve(void)
{
    uint32_t number;
    struct server server;
    nf_lookup(&servers, 0, &server);
    if (!nf_least_value(&waiting, &number, &server.turn))
        return;
    nf_buf_send(&waiting, number, SLOW);
    nf_delete(&waiting, number);
    nf_update(&servers, 0, server);
}

static inline bool wait(nf_pkt pkt, uint16_t vlan, struct tenant tenant)
{
    struct server server;
    nf_lookup(&servers, 0, &server);
    uint64_t start = tenant.finish > server.turn ? tenant.finish : server.turn;
    tenant.finish = start + nf_len(pkt) * UNITS / tenant.weight;
    if (nf_len(pkt) > LONGEST || start > server.turn + AHEAD / tenant.weight ||
        !nf_update(&waiting, server.next, tenant.finish))
        return false;
    nf_buf_append_pkt(&waiting, server.next, pkt, LONGEST);
    server.next++;
    nf_update(&servers, 0, server);
    return nf_update(&tenants, vlan, tenant);
}

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_vlan vlan;
    struct tenant tenant;
    bool tagged = nf_port(pkt) != SLOW && nf_extract(pkt, &eth) &&
                  eth.type == NF_HTONS(NF_ETH_VLAN) && nf_extract(pkt, &vlan);
    uint16_t number = tagged ? nf_ntohs(vlan.tci) & 0xfff : 0;
    nf_reset(pkt);
    if (!tagged)
        nf_send(pkt, 1 - (nf_port(pkt) & 1));
    else if (!nf_lookup(&tenants, number, &tenant))
        nf_drop(pkt, "no tenant");
    else if (wait(pkt, number, tenant))
        nf_drop(pkt, "waits");
    else
        nf_drop(pkt, "no room");
}
