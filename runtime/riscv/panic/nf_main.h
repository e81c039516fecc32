/* SPDX-License-Identifier: 0BSD
 *
 * nf_main.h (riscv, panic) - a core's life: take a message, run its event. See nf_port.h.
 */
#ifndef NF_RISCV_MAIN_H
#define NF_RISCV_MAIN_H

#include "nf_event.h"

struct nf_worker *nf_worker_at[1];

static u8 nf_staged[NF_STAGED_BYTES + 8] __attribute__((aligned(8)));
static struct nf_packet nf_frame;

__attribute__((noreturn, used)) void nf_core(void)
{
    struct nf_worker *w = nf_worker_at[0];
    for (;;) {
        /* The buffer is another one from here on. */
        NF_BARRIER();
        (void)NF_RECEIVE;
        NF_BARRIER();
        const struct nf_message *head = (const struct nf_message *)NF_RECEIVED;
        u8 *frame = NF_RECEIVED + sizeof(*head), *params = frame + nf_round(head->bytes);
        u32 event = head->event, packet_at = nf_packet_at[event];
        w->event = head->number;
        w->env.now = head->now;
        w->env.seed = head->seed;
        w->env.draws = head->draws;
        if (packet_at != UINT16_MAX) {
            struct nf_packet *pkt = &nf_frame;
            const u8 *at = params + nf_round(head->params);
            pkt->staged = nf_staged;
            pkt->staged_len = head->staged;
            pkt->cursor = head->cursor;
            pkt->in_port = head->port;
            /* The head is done with when the handler begins. */
            pkt->head = NF_BUFFER;
            pkt->data = frame;
            pkt->end = pkt->tail = frame + head->bytes;
            if (head->staged)
                memcpy(nf_staged, at, head->staged);
#ifdef NF_CONTEXT_BYTES
            memcpy(pkt->context, at + nf_round(head->staged), NF_CONTEXT_BYTES);
#endif
            memcpy(params + packet_at, &pkt, sizeof(pkt));
        }
        nf_run_event(w, event, params);
        NF_RELEASE = 1;
    }
}

#endif
