/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * rules: 64 rules in order of priority.
 */
#include <nicforge.h>
NF_PORTS(2);
struct rule {
    uint32_t from, to, mask;
    uint16_t low, high;
    uint8_t proto, action;
};
struct in {
    uint8_t eth[14];
    uint32_t src, dst;
    uint16_t port;
    uint8_t proto;
} __attribute__((packed));
NF_TABLE(array, rules, uint32_t, struct rule, 64);
NF_TABLE(array, hits, uint32_t, uint64_t, 64);
void net_recv(nf_pkt pkt)
{
    struct in in;
    struct rule r;
    uint32_t best = 64, action = 0;
    if (!nf_extract(pkt, &in)) {
        nf_drop(pkt, "short");
        return;
    }
    for (uint32_t i = 0; i < 64; i++) {
        if (!nf_lookup(&rules, i, &r))
            break;
        if (r.mask && (in.src & r.mask) != (r.from & r.mask))
            continue;
        if (r.mask && (in.dst & r.mask) != (r.to & r.mask))
            continue;
        if (r.low && (in.port < r.low || in.port > r.high))
            continue;
        if (r.proto && r.proto != in.proto)
            continue;
        if (r.action >= action) {
            action = r.action;
            best = i;
        }
    }
    if (best < 64)
        nf_add_value(&hits, best, 1);
    nf_emit(pkt, &in);
    nf_send(pkt, action & 1);
}
