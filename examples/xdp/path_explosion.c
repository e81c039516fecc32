/* Counts the bits of a word twice: set bits first, clear bits then. A path through the program may count both for every bit,
 * a packet never does: 2^32 of the slowest paths are impossible, and the slowest possible one is hidden behind them. */
#include "xdp.h"

TABLE(counters, __u64, 64);

INLINE void count(__u32 index)
{
    __u64 *counter = bpf_map_lookup_elem(&counters, &index);
    if (counter)
        __sync_fetch_and_add(counter, 1);
}

SEC("xdp")
int path_explosion(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    __u32 *word = take(&p, 14);
    if (!word)
        return XDP_DROP;
    __u32 bits = *word;
#pragma unroll
    for (__u32 i = 0; i < 32; i++)
        if (bits & 1u << i)
            count(i);
    /* The compiler must not see that it is the same word. */
    asm volatile("" : "+r"(bits));
#pragma unroll
    for (__u32 i = 0; i < 32; i++)
        if (!(bits & 1u << i)) {
            count(i);
            count(32 + i);
        }
    return XDP_PASS;
}
