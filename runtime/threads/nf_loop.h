/* SPDX-License-Identifier: 0BSD
 *
 * nf_loop.h (threads) - what an engine does: take work, run its handler, send on what came of it.
 *
 * Order is restored by sequence numbers without tokens, as on DPDK (runtime/dpdk/nf_main.h): every
 * engine publishes its progress, a number below which it will send nothing any more. An engine that
 * wants order empties its queue into a list sorted by number and takes the first as soon as all its
 * senders have published more. A sender publishes after it put work into the queue, a receiver
 * reads progress before it empties the queue, so what was promised is there. Where stages only send
 * forward, progress never waits in a circle. Where events come back to an earlier stage (NF_ROUND)
 * an engine publishes two counts in that word instead: what it sent (the upper half) and what it
 * has done. Nothing is put in order then, and one input event is let in after the other.
 */
#ifndef NF_THREADS_LOOP_H
#define NF_THREADS_LOOP_H

#define NF_BATCH 32

/* Whether there is work that may be run now; else *through becomes a number below which nothing
 * will come any more. */
static inline bool nf_next_work(struct nf_worker *w, struct nf_work *work, u64 *through)
{
    bool ordered = nf_stages[w->stage].ordered;
    u64 promised = UINT64_MAX;
    for (u32 from = 0; from <= NF_WORKERS; from++)
        if (nf_sends(from, w->number)) {
            u64 progress = nf_progress_get(from);
            promised = progress < promised ? progress : promised;
        }
    while (w->held_count < NF_HELD && nf_queue_get(w->number, work)) {
        u32 at = w->held_count++;
        for (; ordered && at > 0 && w->held[at - 1].sequence > work->sequence; at--)
            w->held[at] = w->held[at - 1];
        w->held[at] = *work;
    }
    if (w->held_count > w->stats.depth)
        w->stats.depth = w->held_count;
    if (w->held_count == 0 || (ordered && promised <= w->held[0].sequence)) {
        *through = promised;
        return false;
    }
    *work = w->held[0];
    w->held_count--;
    for (u32 i = 0; i < w->held_count; i++)
        w->held[i] = w->held[i + 1];
    return true;
}

static inline void nf_put(struct nf_stats *stats, u32 to, const struct nf_work *work)
{
    while (!nf_queue_put(to, work)) {
        stats->full++;
        nf_idle();
    }
}

/* Where events come back: so many more were sent, before anybody can have them, and done. Both
 * halves wrap. */
static inline void nf_count(struct nf_worker *w, u32 sent, u32 done)
{
    if (!NF_ROUND)
        return;
    w->progress = (u64)((u32)(w->progress >> 32) + sent) << 32 | (u32)((u32)w->progress + done);
    nf_progress_set(w->number, w->progress);
}

static inline void nf_run_work(struct nf_worker *w, const struct nf_work *work)
{
    struct nf_context *context = nf_context_at(work->context);
    w->env.now = context->now;
    w->env.seed = context->seed;
    w->env.draws = context->draws;
    w->sequence = work->sequence;
    /* A copy: the context may be gone before the handler ends. */
    u8 params[NF_PARAM_BYTES];
    memcpy(params, context->params, sizeof(params));
    if (nf_packet_at[work->event] == UINT16_MAX)
        nf_context_free(context);
    nf_handle(&w->env, work->event, params);
    /* A handler that returned early still holds them. */
    nf_unlock(&w->env);
    while (w->local_count) {
        struct nf_local_event one = w->local[w->local_first];
        w->local_first = (w->local_first + 1) % NF_LOCAL_EVENTS;
        w->local_count--;
        nf_handle(&w->env, one.event, one.params);
        nf_unlock(&w->env);
    }
    nf_count(w, w->made_count, 0);
    for (u32 i = 0; i < w->made_count; i++) {
        nf_context_at(w->made[i].context)->draws = w->env.draws;
        nf_put(&w->stats, w->made_for[i], &w->made[i]);
    }
    nf_count(w, 0, 1);
    w->made_count = 0;
    w->stats.events++;
}

/* An engine's life. */
static inline void nf_engine(struct nf_worker *w)
{
    bool ordered = nf_stages[w->stage].ordered;
    while (!nf_stopped()) {
        u64 start = nf_cycles(), through = 0, seen = 0;
        u32 count = 0;
        bool idle = false;
        struct nf_work work;
        while (count < NF_BATCH && !idle) {
            idle = !nf_next_work(w, &work, &through);
            if (idle)
                break;
            seen = work.sequence;
            nf_run_work(w, &work);
            count++;
        }
        u64 progress = idle ? through : ordered ? seen : 0;
        if (!NF_ROUND && progress > w->progress) {
            w->progress = progress;
            nf_progress_set(w->number, progress);
        }
        if (count)
            w->stats.cycles += nf_cycles() - start;
        else
            w->stats.empty_polls++;
        if (idle)
            nf_idle();
    }
}

#endif
