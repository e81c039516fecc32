/* SPDX-License-Identifier: 0BSD
 *
 * nf_hooks.h (threads) - engines, and where their handlers' events go. Included by nf_rt.h in a
 * generated program, which defines NF_WORKERS, NF_STAGES, NF_EVENTS, NF_REASONS and NF_PARAM_BYTES
 * before.
 *
 * An engine is a replica of a stage: a thread, or a micro-engine of an NFP. Each has one queue,
 * which everybody who sends to it puts work into. Work is a number of a context: a record that
 * holds an event's number and parameters, its time, random stream and sequence number, and the
 * packet.
 */
#ifndef NF_THREADS_HOOKS_H
#define NF_THREADS_HOOKS_H

#include "nf_log.h"
#include "nf_stages.h"

/* Events that handlers of one stage send each other for one input event. */
#define NF_LOCAL_EVENTS 64
#define NF_MAX_PORTS 16
/* Work that waits in an engine until what comes before it is there. */
#define NF_HELD 4096
/* What reads input is the sender behind the last engine. */
#define NF_IO NF_WORKERS

struct nf_work {
    u64 sequence;
    u32 context;
    u32 event;
};

struct nf_context {
    struct nf_packet pkt;
    u64 now;
    u64 seed;
    u64 draws;
    /* Of the input event that the packet came with. */
    u64 sequence;
    u32 number;
    /* The packet's place among those that came in, which the NFP's network block restores when
     * packets leave. */
    u32 ticket;
    u8 params[NF_PARAM_BYTES];
    u8 staged[NF_STAGED_BYTES + 1];
};

struct nf_local_event {
    u32 event;
    u8 params[NF_PARAM_BYTES];
};

struct nf_stats {
    u64 events;
    u64 cycles;
    u64 empty_polls;
    /* Most work seen waiting in the engine. */
    u64 depth;
    /* Attempts to send to a queue that was full; they are repeated until they succeed. */
    u64 full;
    /* Events lost: no context, or more than NF_LOCAL_EVENTS at once. */
    u64 lost;
    u64 tx_failed;
    u64 sent[NF_MAX_PORTS];
    u64 to_stack;
    u64 to_host;
    u64 drops[NF_REASONS];
};

struct nf_worker {
    struct nf_env env;
    u32 number;
    u32 stage;
    u32 turn;
    u32 local_first;
    u32 local_count;
    u32 made_count;
    u32 held_count;
    u32 spare;
    u64 sequence;
    u64 progress;
    struct nf_local_event local[NF_LOCAL_EVENTS];
    struct nf_work made[NF_LOCAL_EVENTS];
    u32 made_for[NF_LOCAL_EVENTS];
    struct nf_work held[NF_HELD];
    struct nf_stats stats;
    struct nf_bytes log;
    struct nf_table *tables[NF_TABLES + 1];
    /* Locks that the event under way holds: at most one a table. */
    u32 locks[NF_TABLES + 1];
    u32 lock_count;
};

/* What the engines stand on: nf_port.h has it for threads, and for an NFP on the chip's own
 * operations. */
#include "nf_port.h"

#include "nf_locks.h"

/* Writes an output down, in verify mode. */
NF_INLINE void nf_output(struct nf_worker *w, u32 kind, u64 number, const void *bytes, u32 size)
{
#if NF_VERIFY
    struct nf_log_head head = {w->sequence, number, kind, size};
    nf_bytes_add(&w->log, &head, sizeof(head));
    nf_bytes_add(&w->log, bytes, size);
#else
    (void)w;
    (void)kind;
    (void)number;
    (void)bytes;
    (void)size;
#endif
}

NF_INLINE void nf_send(struct nf_env *env, struct nf_packet *pkt, u32 port)
{
    struct nf_worker *w = env->user;
    nf_output(w, NF_OUT_SEND, port, pkt->data, (u32)(pkt->end - pkt->data));
    w->stats.sent[port % NF_MAX_PORTS]++;
    nf_transmit(pkt->owner, port);
}

NF_INLINE void nf_stack(struct nf_env *env, struct nf_packet *pkt)
{
    struct nf_worker *w = env->user;
    nf_output(w, NF_OUT_STACK, 0, pkt->data, (u32)(pkt->end - pkt->data));
    w->stats.to_stack++;
    nf_to_host(pkt->owner, 0);
}

NF_INLINE void nf_host(struct nf_env *env, struct nf_packet *pkt)
{
    struct nf_worker *w = env->user;
    nf_output(w, NF_OUT_HOST, 0, pkt->data, (u32)(pkt->end - pkt->data));
    w->stats.to_host++;
    nf_to_host(pkt->owner, 1);
}

NF_INLINE void nf_drop(struct nf_env *env, struct nf_packet *pkt, u32 reason)
{
    struct nf_worker *w = env->user;
    w->stats.drops[reason]++;
    nf_output(w, NF_OUT_DROP, reason, "", 0);
    nf_discard(pkt->owner);
}

/* A byte string becomes a packet of its own. */
NF_INLINE void nf_send_bytes(struct nf_env *env, u32 port, const void *bytes, u32 size)
{
    struct nf_worker *w = env->user;
    nf_output(w, NF_OUT_SEND, port, bytes, size);
    w->stats.sent[port % NF_MAX_PORTS]++;
    nf_transmit_bytes(port, bytes, size);
}

NF_INLINE void nf_host_bytes(struct nf_env *env, const void *bytes, u32 size)
{
    struct nf_worker *w = env->user;
    nf_output(w, NF_OUT_HOST, 0, bytes, size);
    w->stats.to_host++;
    nf_host_write(0, bytes, size);
}

NF_INLINE void nf_host_msg(struct nf_env *env, const void *bytes, u32 size)
{
    nf_output(env->user, NF_OUT_MSG, 0, bytes, size);
    nf_host_write(0, bytes, size);
}

NF_INLINE void nf_dma_write(struct nf_env *env, u64 addr, const void *bytes, u32 size)
{
    nf_output(env->user, NF_OUT_DMA, addr, bytes, size);
    nf_host_write(addr, bytes, size);
}

/* Logs leave by the recorder only. */
NF_INLINE void nf_log(struct nf_env *env, u32 log, const u64 *args, u32 count)
{
    nf_output(env->user, NF_OUT_LOG, log, args, count * 8);
}

NF_INLINE void nf_generate(struct nf_env *env, u32 event, const void *params, u32 size,
                           struct nf_packet *pkt)
{
    struct nf_worker *w = env->user;
    u32 stage = nf_stage_of[event];
    if (stage == w->stage) {
        if (w->local_count == NF_LOCAL_EVENTS) {
            w->stats.lost++;
            if (pkt)
                nf_discard(pkt->owner);
            return;
        }
        struct nf_local_event *to =
            &w->local[(w->local_first + w->local_count++) % NF_LOCAL_EVENTS];
        to->event = event;
        memcpy(to->params, params, size);
        return;
    }
    struct nf_context *context = pkt ? pkt->owner : nf_context_new();
    if (!context || w->made_count == NF_LOCAL_EVENTS) {
        w->stats.lost++;
        if (pkt)
            nf_discard(context);
        else if (context)
            nf_context_free(context);
        return;
    }
    memcpy(context->params, params, size);
    context->now = env->now;
    context->seed = env->seed;
    u32 replicas = nf_stages[stage].replicas, replica = 0;
    if (replicas > 1)
        replica = (u32)((u64)nf_steer(w, event, params, NULL, NULL) * replicas >> 32);
    struct nf_work *work = &w->made[w->made_count];
    work->sequence = w->sequence;
    work->context = context->number;
    work->event = event;
    w->made_for[w->made_count++] = nf_stages[stage].first + replica;
}

#endif
