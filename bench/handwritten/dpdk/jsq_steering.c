/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * jsq_steering by hand: each request goes to the host core with the fewest requests outstanding,
 * its number in front of the frame.
 */
#include "common.h"

#define CORES 32
#define SERVICES 16

struct descriptor {
    uint32_t core;
    uint32_t service;
};

static uint32_t outstanding[SERVICES][CORES] __rte_cache_aligned;

static inline int forward(struct rte_mbuf *m, unsigned port)
{
    (void)port;
    if (unlikely(rte_pktmbuf_data_len(m) < sizeof(struct rte_ether_hdr)))
        return DROP;
    const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(m, struct rte_ether_hdr *);
    uint32_t service = eth->dst_addr.addr_bytes[5] & (SERVICES - 1);
    uint32_t *load = outstanding[service], best = 0;
    for (uint32_t core = 1; core < CORES; core++)
        if (load[core] < load[best])
            best = core;
    load[best]++;
    struct descriptor *front = (struct descriptor *)rte_pktmbuf_prepend(m, sizeof(*front));
    if (unlikely(!front))
        return DROP;
    front->core = best;
    front->service = service;
    return HOST;
}

static bool prepare(void) { return true; }

int main(int argc, char **argv) { return serve(argc, argv, prepare, forward); }
