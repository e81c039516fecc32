/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * chain: entries that lead to each other, 32 of them.
 */
#include <nicforge.h>
NF_PORTS(2);
struct node {
    uint32_t next;
    uint16_t key;
    uint16_t value;
};
struct in {
    uint32_t start;
    uint16_t key;
} __attribute__((packed));
NF_TABLE(array, nodes, uint32_t, struct node, 256);
void net_recv(nf_pkt pkt)
{
    struct in in;
    struct node n;
    uint32_t at;
    if (!nf_extract(pkt, &in)) {
        nf_drop(pkt, "short");
        return;
    }
    at = in.start & 255;
    for (uint32_t i = 0; i < 32; i++) {
        if (!nf_lookup(&nodes, at, &n))
            break;
        if (n.key == in.key) {
            n.value++;
            nf_update(&nodes, at, n);
            break;
        }
        if (n.next == 0) {
            n.next = at + 1;
            n.key = in.key;
            nf_update(&nodes, at, n);
            break;
        }
        at = n.next;
    }
    nf_emit(pkt, &in);
    nf_send(pkt, at & 1);
}
