/* SPDX-License-Identifier: 0BSD
 *
 * nf_hooks.h (dpdk) - workers, and where their handlers' events go. Included by nf_rt.h in a
 * generated DPDK application, which defines NF_WORKERS, NF_STAGES, NF_EVENTS, NF_REASONS and
 * NF_PARAM_BYTES before.
 *
 * A packet's event travels with its mbuf: the private area of the mbuf holds the event's number and
 * parameters, its time, random stream and sequence number. An event without a packet has an mbuf of
 * its own without data.
 */
#ifndef NF_DPDK_HOOKS_H
#define NF_DPDK_HOOKS_H

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_ring.h>
#include <rte_spinlock.h>

#include "nf_log.h"
#include "nf_stages.h"

#define NF_BURST 32
#define NF_MAX_PORTS 16
/* Events that handlers of one stage send each other for one input event. */
#define NF_LOCAL_EVENTS 256
/* The lcore that talks to ports is the receiver behind the last worker. */
#define NF_IO NF_WORKERS

enum nf_fate { NF_EVENT, NF_SEND, NF_STACK, NF_HOST };

/* Private area of an mbuf. */
struct nf_carried {
    struct nf_packet pkt;
    u64 now;
    u64 seed;
    u64 draws;
    u64 sequence;
    u32 event;
    u32 fate;
    u32 port;
    u32 spare;
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
    /* Deepest that any of the worker's input rings was seen. */
    u64 depth;
    /* Attempts to enqueue that found the ring full; they are repeated until they succeed. */
    u64 full;
    /* Events that were lost: no memory, more than NF_LOCAL_EVENTS at once, or for a worker that is
     * gone. */
    u64 lost;
    /* Events for queues that may lose, were full, and did. */
    u64 overrun;
    u64 tx_failed;
    /* For the host side: nobody takes them, so they are counted. */
    u64 messages;
    u64 dma_writes;
    u64 logs;
    u64 drops[NF_REASONS];
};

struct nf_worker {
    struct nf_env env;
    u32 number;
    u32 stage;
    /* What is sent to each receiver and not yet enqueued. */
    struct rte_mbuf *out[NF_WORKERS + 1][NF_BURST];
    u32 out_count[NF_WORKERS + 1];
    struct rte_mbuf *made[NF_LOCAL_EVENTS];
    u32 made_for[NF_LOCAL_EVENTS];
    u32 made_count;
    u32 turn;
    u64 sequence;
    struct nf_local_event *local;
    u32 local_first;
    u32 local_count;
    /* Input: a burst from each sender. */
    struct rte_mbuf *in[NF_WORKERS + 1][NF_BURST];
    u32 in_first[NF_WORKERS + 1];
    u32 in_count[NF_WORKERS + 1];
    u32 next_sender;
    struct nf_bytes log;
    struct nf_stats stats;
    struct nf_table *tables[NF_TABLES + 1];
    /* Locks that the event under way holds: at most one a table. */
    u32 locks[NF_TABLES + 1];
    u32 lock_count;
    /* All events with a smaller sequence number are done here and sent on. */
    u64 progress __rte_cache_aligned;
    /* Where events come back (NF_ROUND): those that were sent to other workers, and those that were
     * done. */
    u64 handed;
    u64 handled;
} __rte_cache_aligned;

extern struct rte_ring *nf_rings[NF_WORKERS + 1][NF_WORKERS + 1];
extern struct rte_mempool *nf_event_pool;
/* Workers that left their loop before they were told to. */
extern volatile bool nf_gone[NF_WORKERS + 1];

/* ---- The output log
 * ------------------------------------------------------------------------------------------- */

/* Writes an output down, in verify mode. */
static __rte_noinline void nf_record(struct nf_worker *w, u32 kind, u64 number, const void *bytes,
                                     u32 size)
{
    struct nf_log_head head = {w->sequence, number, kind, size};
    nf_bytes_add(&w->log, &head, sizeof(head));
    nf_bytes_add(&w->log, bytes, size);
}

/* ---- Sending on
 * -------------------------------------------------------------------------------------------------
 */

#if !NF_FUSED
/* So many events that others sent are done, or lost, and what they led to is counted. */
static inline void nf_count_handled(struct nf_worker *w, u64 count)
{
    if (NF_ROUND)
        __atomic_store_n(&w->handled, w->handled + count, __ATOMIC_RELEASE);
}

static inline void nf_flush_to(struct nf_worker *w, u32 to)
{
    u32 count = w->out_count[to], done = 0;
    struct rte_ring *ring = nf_rings[w->number][to];
    while (done < count) {
        done += rte_ring_sp_enqueue_burst(ring, (void **)&w->out[to][done], count - done, NULL);
        if (done == count)
            break;
        w->stats.full++;
        if (nf_gone[to]) {
            /* Nobody will ever empty this ring. */
            w->stats.lost += count - done;
            nf_count_handled(w, count - done);
            rte_pktmbuf_free_bulk(&w->out[to][done], count - done);
            break;
        }
        sched_yield();
    }
    w->out_count[to] = 0;
}

#if NF_SPLIT
/* This process has the stages of the host, and the way from there. */
static bool nf_far_role;
static void nf_far_send(struct nf_worker *w, u32 to, struct rte_mbuf *m);
#endif

static inline void nf_queue_to(struct nf_worker *w, u32 to, struct rte_mbuf *m)
{
#if NF_SPLIT
    if (unlikely(nf_far_role)) {
        nf_far_send(w, to, m);
        return;
    }
#endif
    if (NF_ROUND)
        __atomic_store_n(&w->handed, w->handed + 1, __ATOMIC_RELAXED);
    w->out[to][w->out_count[to]++] = m;
    if (w->out_count[to] == NF_BURST)
        nf_flush_to(w, to);
}
#endif

static inline struct rte_mbuf *nf_mbuf_of(struct nf_packet *pkt)
{
    struct rte_mbuf *m = pkt->owner;
    /* Where nothing was moved the compiler sees it, and leaves the mbuf alone. */
    if (pkt->data != pkt->owner_data || pkt->end != pkt->owner_end) {
        m->data_off = (u16)(pkt->data - (u8 *)m->buf_addr);
        m->data_len = (u16)(pkt->end - pkt->data);
        m->pkt_len = m->data_len;
    }
    return m;
}

/* The packet is finished: it goes to the port's lcore, or straight to the port where that is the
 * only one. */
static inline void nf_leave(struct nf_worker *w, struct nf_packet *pkt, u32 fate, u32 port);

NF_INLINE void nf_send(struct nf_env *env, struct nf_packet *pkt, u32 port)
{
    struct nf_worker *w = env->user;
    if (NF_VERIFY)
        nf_record(w, NF_OUT_SEND, port, pkt->data, (u32)(pkt->end - pkt->data));
    nf_leave(w, pkt, NF_SEND, port);
}

NF_INLINE void nf_stack(struct nf_env *env, struct nf_packet *pkt)
{
    struct nf_worker *w = env->user;
    if (NF_VERIFY)
        nf_record(w, NF_OUT_STACK, 0, pkt->data, (u32)(pkt->end - pkt->data));
    nf_leave(w, pkt, NF_STACK, 0);
}

NF_INLINE void nf_host(struct nf_env *env, struct nf_packet *pkt)
{
    struct nf_worker *w = env->user;
    if (NF_VERIFY)
        nf_record(w, NF_OUT_HOST, 0, pkt->data, (u32)(pkt->end - pkt->data));
    nf_leave(w, pkt, NF_HOST, 0);
}

NF_INLINE void nf_drop(struct nf_env *env, struct nf_packet *pkt, u32 reason)
{
    struct nf_worker *w = env->user;
    w->stats.drops[reason]++;
    if (NF_VERIFY)
        nf_record(w, NF_OUT_DROP, reason, "", 0);
    rte_pktmbuf_free(pkt->owner);
}

/* A byte string becomes a packet of its own. */
static __rte_noinline void nf_make(struct nf_worker *w, u32 fate, u32 port, const void *bytes,
                                   u32 size);

NF_INLINE void nf_send_bytes(struct nf_env *env, u32 port, const void *bytes, u32 size)
{
    nf_make(env->user, NF_SEND, port, bytes, size);
}

NF_INLINE void nf_host_bytes(struct nf_env *env, const void *bytes, u32 size)
{
    nf_make(env->user, NF_HOST, 0, bytes, size);
}

/* Messages, DMA writes and logs have no port here: they are counted, and in the output log. */
NF_INLINE void nf_host_msg(struct nf_env *env, const void *bytes, u32 size)
{
    ((struct nf_worker *)env->user)->stats.messages++;
    if (NF_VERIFY)
        nf_record(env->user, NF_OUT_MSG, 0, bytes, size);
}

NF_INLINE void nf_dma_write(struct nf_env *env, u64 addr, const void *bytes, u32 size)
{
    ((struct nf_worker *)env->user)->stats.dma_writes++;
    if (NF_VERIFY)
        nf_record(env->user, NF_OUT_DMA, addr, bytes, size);
}

NF_INLINE void nf_log(struct nf_env *env, u32 log, const u64 *args, u32 count)
{
    ((struct nf_worker *)env->user)->stats.logs++;
    if (NF_VERIFY)
        nf_record(env->user, NF_OUT_LOG, log, args, count * 8);
}

/* ---- Tables that replicas share
 * ---------------------------------------------------------------------------------- */

/* A cache line each: neighbours are taken by other lcores. */
struct nf_lock_line {
    rte_spinlock_t lock;
} __rte_cache_aligned;
extern struct nf_lock_line nf_locks[NF_LOCKS + 1];

NF_INLINE bool nf_lock_try(u32 number) { return rte_spinlock_trylock(&nf_locks[number].lock); }
NF_INLINE void nf_lock_free(u32 number) { rte_spinlock_unlock(&nf_locks[number].lock); }
/* Lcores may be more than CPUs here, so whoever finds a lock taken lets others run. */
NF_INLINE void nf_idle(void) { sched_yield(); }

#include "nf_locks.h"

/* ---- Events between handlers
 * ------------------------------------------------------------------------------------ */

NF_INLINE void nf_generate(struct nf_env *env, u32 event, const void *params, u32 size,
                           struct nf_packet *pkt)
{
    struct nf_worker *w = env->user;
    u32 stage = nf_stage_of[event];
    if (NF_FUSED || stage == w->stage) {
        if (w->local_count == NF_LOCAL_EVENTS) {
            w->stats.lost++;
            if (pkt)
                rte_pktmbuf_free(pkt->owner);
            return;
        }
        struct nf_local_event *to =
            &w->local[(w->local_first + w->local_count++) % NF_LOCAL_EVENTS];
        to->event = event;
        memcpy(to->params, params, size);
        return;
    }
    struct rte_mbuf *m = pkt ? pkt->owner : rte_pktmbuf_alloc(nf_event_pool);
    if (!m || w->made_count == NF_LOCAL_EVENTS) {
        w->stats.lost++;
        if (m)
            rte_pktmbuf_free(m);
        return;
    }
    struct nf_carried *carried = rte_mbuf_to_priv(m);
    memcpy(carried->params, params, size);
    if (pkt) {
        if (pkt != &carried->pkt)
            carried->pkt = *pkt;
        struct nf_packet *there = &carried->pkt;
        memcpy(carried->params + nf_packet_at[event], &there, sizeof(there));
    }
    carried->event = event;
    carried->fate = NF_EVENT;
    carried->sequence = w->sequence;
    carried->now = env->now;
    carried->seed = env->seed;
    u32 replicas = nf_stages[stage].replicas, replica = 0;
    if (replicas > 1)
        replica = (u32)((u64)nf_steer(w, event, params, NULL, NULL) * replicas >> 32);
    w->made[w->made_count] = m;
    w->made_for[w->made_count++] = nf_stages[stage].first + replica;
}

#endif
