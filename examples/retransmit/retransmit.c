/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * retransmit: makes messages of a local sender (port 0) reliable on the way to a peer (port 1). A
 * message is kept until the peer acknowledges its number; a timer sends it again after 4, 8, 16 ms
 * and so on, up to four times, then tells the host side that it is lost.
 */
#include <nicforge.h>

#define SLOTS 64
#define LOOKED_AT 8 /* slots a tick */
#define TRIES 4
#define TIMEOUT 4000000ull
/* For local experiments (IEEE 802). */
#define MESSAGE 0x88b5
#define ACK 0x88b6

struct frame {
    struct nf_eth eth;
    nf_be32 number;
    uint8_t data[42];
} __attribute__((packed));

struct kept {
    struct frame frame;
    uint32_t tries;
    uint64_t due; /* 0: nothing is kept here */
};

struct lost {
    uint32_t number;
};

NF_TABLE(array, kept, uint32_t, struct kept, SLOTS);
NF_TABLE(array, hand, uint32_t, uint32_t, 1); /* the slot that the timer looks at next */

NF_TIMER(NF_US(250))
void repeat(void)
{
    uint32_t first;
    nf_lookup(&hand, 0, &first);
    nf_update(&hand, 0, (first + LOOKED_AT) % SLOTS);
    for (uint32_t i = 0; i < LOOKED_AT; i++) {
        struct kept k;
        if (!nf_lookup(&kept, first + i, &k) || !k.due || nf_now() < k.due)
            continue;
        if (k.tries < TRIES) {
            nf_send(nf_new(k.frame), 1);
            k.tries++;
            k.due = nf_now() + (TIMEOUT << k.tries);
        } else {
            nf_host_msg(((struct lost){nf_ntohl(k.frame.number)}));
            k.due = 0;
        }
        nf_update(&kept, first + i, k);
    }
}

void net_recv(nf_pkt pkt)
{
    struct frame frame;
    if (!nf_extract(pkt, &frame)) {
        nf_drop(pkt, "too short");
        return;
    }
    struct kept k;
    uint32_t slot = nf_ntohl(frame.number) % SLOTS;
    nf_lookup(&kept, slot, &k);
    if (nf_port(pkt) == 0 && frame.eth.type == NF_HTONS(MESSAGE)) {
        if (k.due) {
            nf_drop(pkt, "too many under way");
            return;
        }
        nf_update(&kept, slot, ((struct kept){frame, 0, nf_now() + TIMEOUT}));
        nf_reset(pkt);
        nf_send(pkt, 1);
    } else if (nf_port(pkt) == 1 && frame.eth.type == NF_HTONS(ACK)) {
        if (k.due && k.frame.number == frame.number) {
            k.due = 0;
            nf_update(&kept, slot, k);
        }
        nf_drop(pkt, "acknowledgement");
    } else {
        nf_drop(pkt, "neither message nor acknowledgement");
    }
}
