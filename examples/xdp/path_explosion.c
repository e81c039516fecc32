/* Counts every set bit of a word, and 64 counters if no bit is set. A path through the program may
 * do both, a packet never does: all but one of the 2^32 ways through the first part lead to
 * impossible paths that are slower than any possible one, and the slowest possible one is hidden
 * behind them. */
#include "xdp.h"

TABLE(counters, __u64, 128);

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
    for (__u32 i = 0; i < 32; i++)
        if (bits & 1u << i)
            count(i);
    if (bits == 0)
#pragma unroll
        for (__u32 i = 0; i < 64; i++)
            count(32 + i);
    return XDP_PASS;
}
