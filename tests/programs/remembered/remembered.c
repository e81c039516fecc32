/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remembered: every fourth kind of packet appends a word to the byte string of its flow, another
 * kind leaves by the port that a word of it says, and all count; flows are told apart by the last
 * two bytes of an IPv4 source address.
 */
#include <nicforge.h>

NF_PORTS(2);

struct NF_PACKED head {
    uint8_t how;
    uint8_t unused[27];
    nf_be16 flow;
};

NF_BUF_TABLE(hash, words, uint16_t, uint32_t, 1000, 64);

void net_recv(nf_pkt pkt)
{
    struct head head;

    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    uint16_t flow = nf_ntohs(head.flow);
    uint32_t count = 0;
    uint32_t word = 0;
    nf_lookup(&words, flow, &count);
    nf_update(&words, flow, count + 1);
    if ((head.how & 3) == 0) {
        word = count;
        if (nf_buf_len(&words, flow) > 60)
            nf_buf_clear(&words, flow);
        nf_buf_append(&words, flow, word);
    } else if ((head.how & 3) == 1) {
        nf_buf_read(&words, flow, head.how >> 2, &word);
    }
    nf_reset(pkt);
    nf_send(pkt, word & 1);
}
