/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * l2_forward by hand: every frame goes back where it came from, with the Ethernet addresses
 * swapped.
 */
#include "common.h"

COUNTERS(1, 1);

SEC("xdp")
int nf_net_recv(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data;
    void *end = (void *)(long)ctx->data_end;
    struct ethhdr *eth = data;
    __u8 sender[ETH_ALEN] __attribute__((aligned(4)));

    if ((void *)(eth + 1) > end)
        return drop(0);
    copy_mac(sender, eth->h_source);
    copy_mac(eth->h_source, eth->h_dest);
    copy_mac(eth->h_dest, sender);
    return send_back();
}
