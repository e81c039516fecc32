/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * vlanq: a packed key of parts that were parsed apart.
 */
#include <nicforge.h>
NF_PORTS(4);
struct mac {
    uint8_t b[6];
};
struct eth {
    struct mac dst, src;
    nf_be16 type;
};
struct tag {
    nf_be16 tci, type;
};
struct key {
    uint8_t port;
    struct mac mac;
    uint16_t vlan;
    struct tag tags[3];
    uint64_t more;
} __attribute__((packed));
struct in {
    struct eth eth;
    struct tag tags[3];
    uint64_t more;
} __attribute__((packed));
NF_TABLE(hash, stations, struct key, struct in, 512);
void net_recv(nf_pkt pkt)
{
    struct in in, old;
    struct key k;
    if (!nf_extract(pkt, &in)) {
        nf_drop(pkt, "short");
        return;
    }
    k.port = nf_port(pkt);
    k.mac = in.eth.src;
    k.vlan = nf_ntohs(in.tags[0].tci);
    for (uint32_t i = 0; i < 3; i++)
        k.tags[i] = in.tags[2 - i];
    k.more = in.more;
    if (nf_lookup(&stations, k, &old)) {
        in.eth.dst = old.eth.src;
        old.more++;
        nf_update(&stations, k, old);
    } else
        nf_update(&stations, k, in);
    nf_emit(pkt, &in);
    nf_send(pkt, k.vlan & 3);
}
