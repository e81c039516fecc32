/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * l2_forward by hand: every frame goes back where it came from, with the Ethernet addresses
 * swapped.
 */
#include "common.h"

static inline int forward(struct rte_mbuf *m, unsigned port)
{
    if (unlikely(rte_pktmbuf_data_len(m) < sizeof(struct rte_ether_hdr)))
        return DROP;
    struct rte_ether_hdr *eth = rte_pktmbuf_mtod(m, struct rte_ether_hdr *);
    struct rte_ether_addr sender = eth->src_addr;
    eth->src_addr = eth->dst_addr;
    eth->dst_addr = sender;
    return port;
}

static bool prepare(void) { return true; }

int main(int argc, char **argv) { return serve(argc, argv, prepare, forward); }
