/* SPDX-License-Identifier: 0BSD
 *
 * nf_main.h (riscv, panic) - a core's life: take a message, run its event. See nf_port.h.
 */
#ifndef NF_RISCV_MAIN_H
#define NF_RISCV_MAIN_H

#include "nf_event.h"

struct nf_worker *nf_worker_at[1];

static u8 nf_room[NF_ROOM + NF_FRAME] __attribute__((aligned(8)));
static u8 nf_staged[NF_STAGED_BYTES + 8] __attribute__((aligned(8)));
static u8 nf_params[NF_PARAM_BYTES] __attribute__((aligned(8)));
static struct nf_packet nf_frame;

__attribute__((noreturn, used)) void nf_core(void)
{
    struct nf_worker *w = nf_worker_at[0];
    for (;;) {
        struct nf_message head;
        const u8 *at = NF_RECEIVED;
        (void)NF_RECEIVE;
        nf_copy(&head, at, sizeof(head));
        at += sizeof(head);
        nf_copy(nf_params, at, head.params);
        at += nf_round(head.params);
        u32 packet_at = nf_packet_at[head.event];
        if (packet_at != UINT16_MAX) {
            struct nf_packet *pkt = &nf_frame;
            pkt->staged = nf_staged;
            pkt->staged_len = head.staged;
            pkt->cursor = head.cursor;
            pkt->in_port = head.port;
            pkt->head = nf_room;
            pkt->tail = nf_room + sizeof(nf_room);
            pkt->data = nf_room + NF_ROOM;
            pkt->end = pkt->data + head.bytes;
            nf_copy(nf_staged, at, head.staged);
            at += nf_round(head.staged);
            nf_copy(NF_CONTEXT_AT(pkt), at, NF_CONTEXT_SIZE);
            at += nf_round(NF_CONTEXT_SIZE);
            nf_copy(pkt->data, at, head.bytes);
            memcpy(nf_params + packet_at, &pkt, sizeof(pkt));
        }
        NF_RELEASE = 1;
        w->event = head.number;
        w->env.now = head.now;
        w->env.seed = head.seed;
        w->env.draws = head.draws;
        nf_run_event(w, head.event, nf_params);
    }
}

#endif
