/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * summed: every packet is sent behind the checksum of its payload, after the host was told the
 * same.
 */
#include <nicforge.h>

NF_PORTS(1);

struct head {
    uint8_t b[13];
};

struct told {
    uint32_t sum;
    uint32_t bytes;
};

void net_recv(nf_pkt pkt)
{
    struct head head;
    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    struct told told = {nf_csum_payload(pkt, 0, nf_len(pkt)), nf_len(pkt)};
    nf_host_msg(told);
    nf_emit(pkt, &told);
    nf_emit(pkt, &head);
    nf_send(pkt, 0);
}
