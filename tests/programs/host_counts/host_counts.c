/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * host_counts: what each host sent and received, in one table. Source and destination are different
 * keys of it, so no part of a packet says which replica owns both entries: replicas share the table
 * under a lock. What is added up does not depend on who comes first, and the program says that it
 * needs no order.
 */
#include <nicforge.h>

NF_PORTS(1);

struct ends {
    uint32_t src;
    uint32_t dst;
};

struct host {
    uint64_t sent;
    uint64_t received;
    uint64_t sums;
};

NF_TABLE(hash, hosts, uint32_t, struct host, 4096);

NF_UNORDERED
void net_recv(nf_pkt pkt)
{
    struct ends ends;
    struct host from, to;

    if (!nf_extract(pkt, &ends)) {
        nf_drop(pkt, "no hosts");
        return;
    }
    uint32_t sum = nf_csum_payload(pkt, 0, 1500);
    if (!nf_lookup(&hosts, ends.src, &from) && ends.src == 0xffffffff) {
        nf_drop(pkt, "broadcast as a source");
        return;
    }
    from.sent++;
    from.sums += sum;
    nf_update(&hosts, ends.src, from);
    nf_lookup(&hosts, ends.dst, &to);
    to.received++;
    nf_update(&hosts, ends.dst, to);
    nf_reset(pkt);
    nf_send(pkt, 0);
}
