/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * payload: checksums over payload from places that are the same for all packets, odd or even, and
 * from places that the packet says, over all of it and over parts; and packets that lead to several
 * things: writes into the host's memory, messages to the host before and behind what becomes of the
 * packet, entries that are evicted or refused. The first byte says what is done.
 */
#include <nicforge.h>

NF_PORTS(2);

struct NF_PACKED head {
    uint8_t how;
    uint8_t kind;
    nf_be16 skipped;
    nf_be16 kept;
    nf_be16 covered;
};

struct odd {
    uint8_t b[3];
};

struct told {
    uint32_t sum;
    uint32_t other;
    uint32_t count;
    uint32_t left;
};

NF_TABLE(lru, recent, uint8_t, uint32_t, 16);
NF_TABLE(hash, first, uint8_t, uint32_t, 32);

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct odd odd;

    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    uint32_t start = 0;
    if (head.how & 1) {
        if (!nf_extract(pkt, &odd)) {
            nf_drop(pkt, "no odd head");
            return;
        }
        start = odd.b[0];
    }
    /* Where the frame ends before, it stays as it is; nobody looks. */
    if (head.how & 2)
        nf_strip(pkt, nf_ntohs(head.skipped));
    if (head.how & 4)
        nf_trim(pkt, nf_ntohs(head.kept));
    struct told told = {0, 0, 0, nf_len(pkt)};
    told.sum = nf_csum_payload(pkt, start, nf_ntohs(head.covered));
    /* The same bytes, and all others. */
    told.other = nf_csum_payload(pkt, 0, 0xffffffff);
    uint32_t count = 0;
    nf_lookup(&recent, head.kind, &count);
    count++;
    nf_update(&recent, head.kind, count);
    told.count = count;
    uint32_t sum = 0;
    if (!nf_lookup(&first, head.kind, &sum) && !nf_update(&first, head.kind, told.sum))
        told.count += 0x10000;
    if (sum == told.sum)
        nf_host_msg(told);
    if (head.how & 8)
        nf_dma_write(pkt, (uint64_t)told.sum << 32 | count, nf_ntohs(head.covered));
    if (head.how & 16) {
        nf_strip(pkt, head.kind);
        nf_dma_write(pkt, count, 100);
    }
    if (head.how & 32) {
        nf_drop(pkt, "told");
    } else {
        head.how = (uint8_t)told.sum;
        nf_emit(pkt, &head);
        if (head.kind & 1)
            nf_to_host(pkt);
        else
            nf_send(pkt, 1);
    }
    if (count & 1)
        nf_host_msg(told);
}
