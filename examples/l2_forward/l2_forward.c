/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * l2_forward: sends every frame back where it came from, with the Ethernet addresses swapped.
 */
#include <nicforge.h>

NF_PORTS(1);

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    if (!nf_extract(pkt, &eth)) {
        nf_drop(pkt, "shorter than an Ethernet header");
        return;
    }
    nf_mac sender = eth.src;
    eth.src = eth.dst;
    eth.dst = sender;
    nf_emit(pkt, &eth);
    nf_send(pkt, nf_port(pkt));
}
