/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * UDP echo by hand (bench/flow/echo.py): what comes to port 7 goes back, with addresses and ports
 * exchanged.
 */
#include "common.h"

#include <rte_ip.h>
#include <rte_udp.h>

struct headers {
    struct rte_ether_hdr eth;
    struct rte_ipv4_hdr ip;
    struct rte_udp_hdr udp;
} __rte_packed;

static inline int forward(struct rte_mbuf *m, unsigned port)
{
    struct headers *h = rte_pktmbuf_mtod(m, struct headers *);
    if (unlikely(
            rte_pktmbuf_data_len(m) < sizeof(*h) ||
            h->eth.ether_type != RTE_BE16(RTE_ETHER_TYPE_IPV4) || (h->ip.version_ihl & 15) != 5 ||
            h->ip.next_proto_id != IPPROTO_UDP ||
            (h->ip.fragment_offset & RTE_BE16(RTE_IPV4_HDR_MF_FLAG | RTE_IPV4_HDR_OFFSET_MASK)) ||
            h->udp.dst_port != RTE_BE16(7)))
        return DROP;
    struct rte_ether_addr sender = h->eth.src_addr;
    h->eth.src_addr = h->eth.dst_addr;
    h->eth.dst_addr = sender;
    rte_be32_t source = h->ip.src_addr;
    h->ip.src_addr = h->ip.dst_addr;
    h->ip.dst_addr = source;
    h->udp.dst_port = h->udp.src_port;
    h->udp.src_port = RTE_BE16(7);
    return port;
}

static bool prepare(void) { return true; }

int main(int argc, char **argv) { return serve(argc, argv, prepare, forward); }
