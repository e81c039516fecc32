/* SPDX-License-Identifier: Apache-2.0 OR MIT
 * Alkali's first application: swap the Ethernet addresses, send back. */
#include <nicforge.h>

NF_PORTS(1);

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    if (!nf_extract(pkt, &eth)) {
        nf_drop(pkt, "short");
        return;
    }
    nf_mac mac = eth.dst;
    eth.dst = eth.src;
    eth.src = mac;
    nf_emit(pkt, &eth);
    nf_send(pkt, 0);
}
