/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * jsq_steering: join the shortest queue. Each request goes to the host core with the fewest
 * requests outstanding; the host says when one is done. The core's number travels in front of the
 * frame.
 */
#include <nicforge.h>

NF_PORTS(1);

#define CORES 32

struct load {
    uint32_t outstanding[CORES];
};

struct done {
    uint32_t service;
    uint32_t core;
};

struct NF_PACKED descriptor {
    uint32_t core;
    uint32_t service;
};

NF_TABLE(array, loads, uint32_t, struct load, 16);

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    if (!nf_extract(pkt, &eth)) {
        nf_drop(pkt, "shorter than an Ethernet header");
        return;
    }
    /* The service is the last four bits of the destination address. */
    uint32_t service = eth.dst.b[5] & 15;
    struct load load;
    nf_lookup(&loads, service, &load);
    uint32_t best = 0;
    uint32_t least = load.outstanding[0];
    for (uint32_t core = 1; core < CORES; core++) {
        if (load.outstanding[core] < least) {
            least = load.outstanding[core];
            best = core;
        }
    }
    load.outstanding[best & (CORES - 1)] = least + 1;
    nf_update(&loads, service, load);

    struct descriptor descriptor = {best, service};
    nf_reset(pkt);
    nf_emit(pkt, &descriptor);
    nf_to_host(pkt);
}

void host_send(struct done done)
{
    struct load load;
    uint32_t core = done.core & (CORES - 1);
    if (nf_lookup(&loads, done.service, &load) && load.outstanding[core] > 0) {
        load.outstanding[core]--;
        nf_update(&loads, done.service, load);
    }
}
