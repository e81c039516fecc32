/* SPDX-License-Identifier: 0BSD
 *
 * nf_stages.h (common) - what a generated program of several workers says of its stages. Included
 * by the nf_hooks.h of such programs, which define NF_WORKERS, NF_STAGES and NF_EVENTS before.
 */
#ifndef NF_STAGES_H
#define NF_STAGES_H

/* 1 writes every output down with its event's number, for verify. */
#ifndef NF_VERIFY
#define NF_VERIFY 0
#endif

struct nf_worker;

struct nf_stage_spec {
    u32 first;
    u32 replicas;
    /* Events come in the order of their sequence numbers, whoever sent them. */
    bool ordered;
};

extern const struct nf_stage_spec nf_stages[NF_STAGES];
extern const u8 nf_stage_of[NF_EVENTS];
/* Where the pointer to the packet stands in an event's parameters; UINT16_MAX without one. */
extern const u16 nf_packet_at[NF_EVENTS];
static inline u32 nf_steer(struct nf_worker *w, u32 event, const void *params, const u8 *data,
                           const u8 *end);

#endif
