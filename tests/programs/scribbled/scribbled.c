/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * scribbled: bytes are overwritten at places that the packet says, without a bound, small and
 * large, over one another and over bytes in front; read again, added up, appended to a byte string,
 * written into the host's memory, and sent. The first byte says what is done.
 */
#include <nicforge.h>

NF_PORTS(2);

struct NF_PACKED head {
    uint8_t how;
    uint8_t more;
    nf_be16 first;
    nf_be32 second;
    uint8_t key;
};

struct big {
    uint8_t b[20];
};

struct told {
    uint32_t again;
    uint32_t sum;
    uint8_t found;
};

NF_BUF_TABLE(hash, kept, uint8_t, uint8_t, 16, 600);

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct big big;
    struct told told = {0, 0, 0};
    uint32_t word = 0xa1b2c3d4;
    uint16_t half = 0x5566;

    if (!nf_load(pkt, 0, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    uint32_t first = nf_ntohs(head.first), second = nf_ntohl(head.second);
    if (head.how & 1)
        told.found |= nf_store(pkt, first, &word);
    if (head.how & 2) {
        told.found |= nf_load(pkt, 30, &big) << 1;
        told.found |= nf_store(pkt, second, &big) << 2;
    } else {
        told.found |= nf_store(pkt, second, &half) << 3;
    }
    if (head.how & 4)
        told.found |= nf_store(pkt, 17, &word) << 4;
    if (head.how & 8)
        told.found |= nf_store(pkt, first + 3, &half) << 5;
    told.found |= nf_load(pkt, first + 1, &told.again) << 6;
    if (head.how & 16)
        told.sum = nf_csum_payload(pkt, 5, second);
    if (head.how & 32) {
        nf_extract(pkt, &head);
        told.sum = nf_csum_payload(pkt, told.sum, 5000);
        told.found |= nf_load(pkt, 8, &half) << 7;
        told.again ^= half;
    }
    if (head.how & 64) {
        nf_update(&kept, head.key, 1);
        if (!nf_buf_append_pkt(&kept, head.key, pkt, second))
            nf_buf_send(&kept, head.key, 1);
    }
    if (head.how & 128)
        nf_dma_write(pkt, second, 300);
    nf_emit(pkt, &told);
    nf_send(pkt, head.more & 1);
}
