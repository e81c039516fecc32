/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * misaligned: a key whose second member begins at byte 2.
 */
#include <nicforge.h>
#include <nicforge/headers.h>

NF_PORTS(2);
struct key {
    uint16_t vlan;
    nf_ip6 ip;
};
struct in {
    uint8_t eth[14];
    uint16_t vlan;
    nf_ip6 src, dst;
} __attribute__((packed));
NF_TABLE(hash, hosts, struct key, uint32_t, 1024);
void net_recv(nf_pkt pkt)
{
    struct in in;
    struct key key;
    uint32_t n;
    if (!nf_extract(pkt, &in)) {
        nf_drop(pkt, "short");
        return;
    }
    key.vlan = in.vlan & 0xfff;
    key.ip = in.src;
    if (nf_lookup(&hosts, key, &n))
        n++;
    else
        n = 1;
    nf_update(&hosts, key, n);
    key.ip = in.dst;
    if (!nf_contains(&hosts, key)) {
        nf_drop(pkt, "unknown");
        return;
    }
    nf_emit(pkt, &in);
    nf_send(pkt, 1);
}
