/* SPDX-License-Identifier: 0BSD
 *
 * nf_main.h (threads) - the program around engines: reads events and tables, starts a core for
 * every engine, gives it its events, and writes what came of it (nf_lines.h). Closed loop: few
 * enough input events are in flight that every queue has room. The calling core is the reader's; it
 * needs one more than there are engines.
 */
#ifndef NF_THREADS_MAIN_H
#define NF_THREADS_MAIN_H

#define NF_IN_FLIGHT (NF_ROUND ? 1 : 256)
/* Both may be less on a board with little memory, by flags of its spec. */
#ifndef NF_CONTEXTS
#define NF_CONTEXTS 4096
#endif
#ifndef NF_RING_ENTRIES
#define NF_RING_ENTRIES 8192
#endif
/* In front of a frame, for headers. */
#define NF_ROOM 256
/* And behind it, for what programs append. */
#ifndef NF_TAIL_ROOM
#define NF_TAIL_ROOM 0
#endif

static struct nf_worker *nf_workers[NF_WORKERS + 1];
static u64 nf_sent[NF_MAX_PORTS], nf_to_stack, nf_to_host_count, nf_no_port, nf_received,
    nf_next_sequence;

static u64 nf_hz(void) { return nf_board_hz(); }

#define nf_to_host nf_to_host_count
#include "nf_lines.h"
#undef nf_to_host

static bool nf_make_workers(void)
{
    for (u32 i = 0; i <= NF_WORKERS; i++) {
        struct nf_worker *w = calloc(1, sizeof(*w));
        if (!w)
            return false;
        w->number = i;
        w->stage = NF_STAGES;
        for (u32 stage = 0; stage < NF_STAGES; stage++)
            if (i >= nf_stages[stage].first &&
                i < nf_stages[stage].first + nf_stages[stage].replicas)
                w->stage = stage;
        w->env.worker = i;
        w->env.user = w;
        w->env.tables = w->tables;
        nf_workers[i] = w;
    }
    for (u32 t = 0; t < nf_table_count; t++) {
        struct nf_table *shared = NULL;
        for (u32 i = 0; i <= NF_WORKERS; i++) {
            if (!shared || (nf_sharded[t] && i < NF_WORKERS))
                shared = nf_make_table(t, nf_part_capacity(t));
            if (!shared)
                return false;
            nf_workers[i]->tables[t] = shared;
        }
    }
    return true;
}

/* Contexts with room for frames of at most longest bytes. */
static bool nf_make_contexts(u32 longest)
{
    u32 room = NF_ROOM + longest + NF_TAIL_ROOM,
        at = (u32)((sizeof(struct nf_context) + 63) & ~63u);
    if (!nf_make_rings(NF_WORKERS, NF_RING_ENTRIES) || !nf_make_records(NF_CONTEXTS, at + room))
        return false;
    for (u32 i = 0; i < NF_CONTEXTS; i++) {
        struct nf_context *context = nf_context_at(i);
        context->number = i;
        context->pkt.head = (u8 *)context + at;
        context->pkt.tail = context->pkt.head + room;
        context->pkt.staged = NF_STAGED_BYTES ? context->staged : NULL;
        context->pkt.owner = context;
    }
    return true;
}

#if NF_ROUND
/* A number below which all input events are done; they are let in one by one. What was done is read
 * before what was sent, and engines count what they sent before anybody can have done it: equal
 * sums mean that nothing was on its way.
 */
static u64 nf_all_through(void)
{
    u32 handled = (u32)nf_workers[NF_IO]->stats.lost, handed = (u32)nf_next_sequence;
    for (u32 i = 0; i < NF_WORKERS; i++)
        handled += (u32)nf_progress_get(i);
    for (u32 i = 0; i < NF_WORKERS; i++)
        handed += (u32)(nf_progress_get(i) >> 32);
    return handled == handed ? nf_next_sequence : nf_next_sequence - 1;
}
#else
/* The smallest progress of all engines. */
static u64 nf_all_through(void)
{
    u64 least = UINT64_MAX;
    for (u32 i = 0; i < NF_WORKERS; i++) {
        u64 progress = nf_progress_get(i);
        least = progress < least ? progress : least;
    }
    return least;
}
#endif

/* Notes down that a packet left by a port. */
static void nf_note_departure(struct nf_context *context, u32 port)
{
    struct nf_worker *io = nf_workers[NF_IO];
    io->sequence = context->sequence;
    nf_output(io, NF_OUT_TX, port, context->pkt.data, (u32)(context->pkt.end - context->pkt.data));
}

#ifdef NFP_CHIP_H
/* Called by the shim's network block, one packet after the other: the order in which they leave. */
void nfp_departed(unsigned packet, unsigned queue)
{
    nf_note_departure(nf_context_at(packet), queue);
}
/* The network block did. */
static void nf_collect(void) {}
#elif NF_ORDERED_OUTPUT
/* What waits at the ports for what came before it, by number. */
static struct nf_left nf_leaving[NF_CONTEXTS];
static u32 nf_leaving_count;

/* Notes down what engines gave to the ports, in the order in which it came in. Progress is read
 * before the ring: what was promised is in it. */
static void nf_collect(void)
{
    u64 through = nf_all_through();
    struct nf_left left;
    while (nf_leaving_count < NF_CONTEXTS && nf_ring_get(NF_LEFT, &left, sizeof(left))) {
        u64 sequence = nf_context_at(left.context)->sequence;
        u32 at = nf_leaving_count++;
        for (; at > 0 && nf_context_at(nf_leaving[at - 1].context)->sequence > sequence; at--)
            nf_leaving[at] = nf_leaving[at - 1];
        nf_leaving[at] = left;
    }
    u32 gone = 0;
    for (; gone < nf_leaving_count; gone++) {
        struct nf_context *context = nf_context_at(nf_leaving[gone].context);
        if (context->sequence >= through)
            break;
        nf_note_departure(context, nf_leaving[gone].port);
        nf_context_free(context);
    }
    memmove(nf_leaving, nf_leaving + gone, (nf_leaving_count - gone) * sizeof(*nf_leaving));
    nf_leaving_count -= gone;
}
#else
/* Notes down what engines gave to the ports since, in their order. */
static void nf_collect(void)
{
    struct nf_left left;
    while (nf_ring_get(NF_LEFT, &left, sizeof(left))) {
        nf_note_departure(nf_context_at(left.context), left.port);
        nf_context_free(nf_context_at(left.context));
    }
}
#endif

/* Gives one event of the input to the engine that takes it, if a context is free; false behind the
 * last. */
static bool nf_input(struct nf_worker *io)
{
    struct nf_event_head head;
    if ((size_t)(nf_events_end - nf_events_at) < sizeof(head))
        return false;
    memcpy(&head, nf_events_at, sizeof(head));
    const u8 *bytes = nf_events_at + sizeof(head);
    struct nf_context *context = nf_context_new();
    if (!context)
        return true;
    nf_events_at = bytes + head.size;
    u32 event = nf_event_of(&head);
    bool aside = head.kind != NF_IN_PACKET;
    struct nf_packet *pkt = &context->pkt;
    if (event >= NF_EVENTS ||
        head.size > (aside ? NF_PARAM_BYTES : (u32)(pkt->tail - pkt->head - NF_ROOM))) {
        io->stats.lost++;
        nf_context_free(context);
        nf_next_sequence++;
        return true;
    }
    context->now = head.now;
    context->seed = head.seed;
    context->draws = 0;
    if (aside) {
        memcpy(context->params, bytes, head.size);
    } else {
        context->ticket = (u32)nf_received++;
        context->sequence = nf_next_sequence;
        pkt->data = pkt->head + NF_ROOM;
        pkt->end = pkt->data + head.size;
        pkt->cursor = pkt->staged_len = 0;
        pkt->in_port = head.port;
        memcpy(pkt->data, bytes, head.size);
        memcpy(context->params, &pkt, sizeof(pkt));
    }
    const struct nf_stage_spec *stage = &nf_stages[nf_stage_of[event]];
    u32 replica = 0;
    if (stage->replicas > 1)
        replica = (u32)((u64)nf_steer(io, event, context->params, aside ? NULL : pkt->data,
                                      aside ? NULL : pkt->end) *
                            stage->replicas >>
                        32);
    struct nf_work work = {nf_next_sequence++, context->number, event};
    nf_put(&io->stats, stage->first + replica, &work);
    io->stats.events++;
    return true;
}

static void nf_core(unsigned number)
{
    struct nf_worker *w = nf_workers[number];
    nf_attach_tables(w, nf_sharded, nf_locked, NF_WORKERS);
    nf_stage_mains[w->stage](w);
}

/* Lets events in until all are done. */
static void nf_feed(struct nf_worker *io)
{
    for (bool more = true; more || nf_all_through() < nf_next_sequence;) {
        for (u32 i = 0; more && i < NF_BATCH &&
                        nf_next_sequence < nf_all_through() + (nf_in_turn ? 1 : NF_IN_FLIGHT);
             i++)
            more = nf_input(io);
        nf_progress_set(NF_IO, nf_next_sequence);
        nf_collect();
        nf_idle();
    }
    __atomic_store_n(&nf_all_done, true, __ATOMIC_RELEASE);
}

int main(void)
{
    if (!nf_read_lines())
        return 2;
    if (!nf_make_workers() || !nf_make_contexts(nf_frame > 2048 ? nf_frame : 2048)) {
        nf_failed("too little memory for tables and contexts");
        return 3;
    }
    if (!nf_fill_from(nf_entries.at, nf_entries.at + nf_entries.size))
        return 1;
    if (!nf_board_start(NF_WORKERS, nf_core)) {
        nf_failed("too few cores");
        return 3;
    }
    nf_feed(nf_workers[NF_IO]);
    nf_board_join();
    nf_collect();
    for (u32 i = 0; i < NF_WORKERS; i++) {
        const struct nf_stats *stats = &nf_workers[i]->stats;
        for (u32 port = 0; port < NF_MAX_PORTS; port++)
            nf_sent[port] += stats->sent[port];
        nf_to_stack += stats->to_stack;
        nf_to_host_count += stats->to_host;
    }
    nf_write_lines();
    return 0;
}

#endif
