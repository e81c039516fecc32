/* SPDX-License-Identifier: 0BSD
 *
 * nf_hooks.h (riscv) - workers on bare cores, and where their handlers' events go. Included by
 * nf_rt.h in a generated program, which defines NF_WORKERS, NF_STAGES, NF_EVENTS, NF_REASONS and
 * NF_PARAM_BYTES before.
 *
 * A worker is a replica of a stage: a block of memory that has one user at a time. Whoever loads
 * the image lays tables out (nf_tables.h says how they lie), writes their descriptions and the
 * pointers to them, and reads counters; nf_layout tells it where those are.
 */
#ifndef NF_RISCV_HOOKS_H
#define NF_RISCV_HOOKS_H

#include "nf_stages.h"

/* Events that handlers of one stage send each other for one input event. */
#define NF_LOCAL_EVENTS (NF_SENDS_ITSELF ? 16 : 1)

struct nf_local_event {
    u32 event;
    u8 params[NF_PARAM_BYTES] __attribute__((aligned(8)));
};

struct nf_worker {
    struct nf_env env;
    u32 number;
    /* The input event under way, and how many outputs it has had. */
    u32 event;
    u32 outputs;
    u32 turn;
    u32 local_first;
    u32 local_count;
    u32 lock_count;
    /* Events handled, and events lost: more than NF_LOCAL_EVENTS at once. */
    u32 events;
    u32 lost;
    u32 drops[NF_REASONS];
    /* Locks that the event under way holds: at most one a table. */
    u32 locks[NF_TABLES + 1];
    struct nf_table *tables[NF_TABLES + 1];
    struct nf_local_event local[NF_LOCAL_EVENTS];
};

/* The image's workers, by replica; the loader sets it. */
extern struct nf_worker *nf_worker_at[];

/* What cores stand on. */
#include "nf_port.h"

_Static_assert(sizeof(void *) == 4, "cores of 32 bits");
#define NF_MEMBER(field, at) offsetof(struct nf_table, field) == NF_TABLE_AT_##at
_Static_assert(NF_MEMBER(index, INDEX) && NF_MEMBER(entries, ENTRIES) && NF_MEMBER(free, FREE) &&
                   NF_MEMBER(zeroed, ZEROED) && NF_MEMBER(clock, CLOCK) && NF_MEMBER(uses, USES) &&
                   NF_MEMBER(of_length, OF_LENGTH) && NF_MEMBER(order, ORDER) &&
                   NF_MEMBER(ordered, ORDERED) && NF_MEMBER(refused, REFUSED) &&
                   NF_MEMBER(evicted, EVICTED) && sizeof(struct nf_table) == NF_TABLE_AT_END &&
                   sizeof(struct nf_entry) == NF_ENTRY_AT_KEY,
               "the loader writes tables as they lie here");

#include "nf_locks.h"

NF_INLINE void nf_send(struct nf_env *env, struct nf_packet *pkt, u32 port)
{
    nf_transmit(env->user, port, pkt);
}

NF_INLINE void nf_stack(struct nf_env *env, struct nf_packet *pkt)
{
    nf_tell(env->user, NF_OUT_STACK, 0, pkt->data, (u32)(pkt->end - pkt->data));
}

NF_INLINE void nf_host(struct nf_env *env, struct nf_packet *pkt)
{
    nf_tell(env->user, NF_OUT_HOST, 0, pkt->data, (u32)(pkt->end - pkt->data));
}

NF_INLINE void nf_drop(struct nf_env *env, struct nf_packet *pkt, u32 reason)
{
    struct nf_worker *w = env->user;
    (void)pkt;
    w->drops[reason]++;
    if (NF_VERIFY)
        nf_tell(w, NF_OUT_DROP, reason, NULL, 0);
}

/* A byte string becomes a packet of its own. */
NF_INLINE void nf_send_bytes(struct nf_env *env, u32 port, const void *bytes, u32 size)
{
    nf_transmit_bytes(env->user, port, bytes, size);
}

NF_INLINE void nf_host_bytes(struct nf_env *env, const void *bytes, u32 size)
{
    nf_tell(env->user, NF_OUT_HOST, 0, bytes, size);
}

NF_INLINE void nf_host_msg(struct nf_env *env, const void *bytes, u32 size)
{
    nf_tell(env->user, NF_OUT_MSG, 0, bytes, size);
}

NF_INLINE void nf_dma_write(struct nf_env *env, u64 addr, const void *bytes, u32 size)
{
    nf_tell(env->user, NF_OUT_DMA, addr, bytes, size);
}

NF_INLINE void nf_log(struct nf_env *env, u32 log, const u64 *args, u32 count)
{
    nf_tell(env->user, NF_OUT_LOG, log, args, count * 8);
}

NF_INLINE void nf_generate(struct nf_env *env, u32 event, const void *params, u32 size,
                           struct nf_packet *pkt)
{
    struct nf_worker *w = env->user;
    if (nf_stage_of[event] != NF_STAGE) {
        nf_hand_on(w, event, params, size, pkt);
        return;
    }
    if (w->local_count == NF_LOCAL_EVENTS) {
        w->lost++;
        return;
    }
    struct nf_local_event *to = &w->local[(w->local_first + w->local_count++) % NF_LOCAL_EVENTS];
    to->event = event;
    memcpy(to->params, params, size);
}

#endif
