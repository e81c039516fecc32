/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * ring_wrap: a node of a ring. Each neighbour gets a hello every 10 ms and sends hellos too. What
 * comes in by one port leaves by the other; if no hello was heard there for 35 ms, the ring is
 * broken behind that port, and packets go back the way they came.
 */
#include <nicforge.h>

#define PORTS 2
#define SILENCE 35000000ull
/* For local experiments (IEEE 802). */
#define ETHERTYPE 0x88b5

struct hello {
    struct nf_eth eth;
    nf_be32 number;
    uint8_t port, heard;
    uint8_t pad[40];
} __attribute__((packed));

NF_TABLE(array, heard, uint32_t, uint64_t, PORTS); /* when a hello came last, by port */
NF_TABLE(array, hellos, uint32_t, uint32_t, 1);    /* how many were sent */

static inline bool alive(uint32_t port)
{
    uint64_t when;
    nf_lookup(&heard, port, &when);
    return when && nf_now() - when <= SILENCE;
}

NF_TIMER(NF_MS(10))
void greet(void)
{
    uint32_t number;
    nf_lookup(&hellos, 0, &number);
    nf_update(&hellos, 0, number + 1);
    struct hello hello = {.eth = {{{1, 0x80, 0xc2, 0, 0, 0xe}}, {{2, 0, 0, 0, 0, 1}}}};
    hello.eth.type = NF_HTONS(ETHERTYPE);
    hello.number = nf_htonl(number);
    for (uint8_t port = 0; port < PORTS; port++) {
        hello.port = port;
        hello.heard = alive(port);
        nf_send(nf_new(hello), port);
    }
}

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    uint32_t port = nf_port(pkt) & 1;
    if (nf_extract(pkt, &eth) && eth.type == NF_HTONS(ETHERTYPE)) {
        nf_update(&heard, port, nf_now());
        nf_drop(pkt, "hello");
        return;
    }
    nf_reset(pkt);
    if (alive(1 - port))
        nf_send(pkt, 1 - port);
    else if (alive(port))
        nf_send(pkt, port);
    else
        nf_drop(pkt, "alone");
}
