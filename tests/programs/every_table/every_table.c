/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * every_table: all kinds of tables and byte strings, logs, time, randomness and checksums in one
 * program.
 */
#include <nicforge.h>
NF_PORTS(1);
struct key {
    nf_be32 src;
    nf_be16 port;
    uint8_t protocol;
};
struct act {
    uint32_t allow;
    uint64_t big;
};
NF_TABLE(ternary, acl, struct key, struct act, 64);
NF_TABLE(lpm, nets, nf_ip6, uint32_t, 64);
struct big {
    uint32_t n;
};
NF_BUF_TABLE(lru, bufs, uint32_t, struct big, 8, 300);
void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    struct ports {
        nf_be16 s;
        nf_be16 d;
    } ports;
    if (!nf_extract(pkt, &eth) || !nf_extract(pkt, &ip) || !nf_extract(pkt, &ports)) {
        nf_drop(pkt, "short");
        return;
    }
    struct key k = {ip.src, ports.d, ip.protocol};
    struct act a;
    bool hit = nf_lookup(&acl, k, &a);
    nf_ip6 six = {{ip.src, ip.dst, 0, 0}};
    uint32_t net;
    bool in = nf_lookup(&nets, six, &net);
    nf_log("hit {} allow {} big {} net {} in {}", hit, a.allow, a.big, net, in);
    struct big b;
    nf_lookup(&bufs, net & 3, &b);
    b.n++;
    nf_update(&bufs, net & 3, b);
    nf_buf_append(&bufs, net & 3, ports);
    nf_buf_append_pkt(&bufs, net & 3, pkt, 40);
    if (nf_buf_len(&bufs, net & 3) > 250)
        nf_buf_to_host(&bufs, net & 3);
    uint16_t w;
    if (nf_buf_read(&bufs, net & 3, 2, &w))
        nf_log("w {}", w);
    uint32_t sum = nf_csum_payload(pkt, 0, 1500);
    nf_log("sum {} r {} t {}", sum, nf_random(), nf_now());
    if (!a.allow) {
        nf_drop(pkt, "acl");
        return;
    }
    nf_reset(pkt);
    nf_send(pkt, 0);
}
