/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * counted: how many bits of a packet's numbers are one.
 */
#include <nicforge.h>

NF_PORTS(2);

struct numbers {
    uint64_t wide;
    uint32_t word;
    int16_t with_sign;
    uint8_t byte;
    uint8_t low : 3, high : 5;
};

void net_recv(nf_pkt pkt)
{
    struct numbers n;
    uint8_t ones[6] = {0};
    if (!nf_extract(pkt, &n)) {
        nf_drop(pkt, "no numbers");
        return;
    }
    ones[0] = (uint8_t)__builtin_popcountll(n.wide);
    ones[1] = (uint8_t)__builtin_popcount(n.word);
    ones[2] = (uint8_t)__builtin_popcount((uint32_t)n.with_sign);
    ones[3] = (uint8_t)(__builtin_popcount(n.byte) - 4);
    ones[4] = (uint8_t)__builtin_popcount(n.low);
    ones[5] = (uint8_t)(__builtin_popcountl(n.wide ^ n.word) * __builtin_popcount(n.high));
    nf_emit(pkt, &ones);
    nf_send(pkt, 0);
}
