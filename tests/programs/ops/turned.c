/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * turned: complements, negations and byte swaps of a packet's numbers.
 */
#include <nicforge.h>

NF_PORTS(2);

struct numbers {
    uint64_t wide;
    uint32_t word;
    int16_t with_sign;
    uint8_t low : 3, high : 5;
} __attribute__((packed));

void net_recv(nf_pkt pkt)
{
    struct numbers n;
    struct numbers turned[3] = {0};
    if (!nf_extract(pkt, &n)) {
        nf_drop(pkt, "no numbers");
        return;
    }
    turned[0].wide = ~n.wide;
    turned[0].word = ~n.word;
    turned[0].with_sign = (int16_t)~n.with_sign;
    turned[0].low = (uint8_t)~n.low & 7;
    turned[1].wide = -n.wide;
    turned[1].word = -n.word;
    turned[1].with_sign = (int16_t)-n.with_sign;
    turned[1].high = (uint8_t)-n.high & 31;
    turned[2].wide = __builtin_bswap64(n.wide);
    turned[2].word = __builtin_bswap32(n.word);
    turned[2].with_sign = (int16_t)__builtin_bswap16((uint16_t)n.with_sign);
    nf_emit(pkt, &turned);
    nf_send(pkt, 0);
}
