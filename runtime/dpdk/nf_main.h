/* SPDX-License-Identifier: 0BSD
 *
 * nf_main.h (dpdk) - the application around generated handlers.
 *
 * One lcore per worker (a stage's replica) and one that talks to ports; a program that is one
 * worker runs on that lcore alone, without rings. Between two lcores there is one single-producer
 * single-consumer ring for each direction in use.
 *
 * Order is restored by sequence numbers without tokens: every worker publishes its progress, a
 * number below which it will send nothing any more. A receiver that wants order takes the smallest
 * number at the head of its rings as soon as every sender whose ring is empty has published more. A
 * sender publishes after it enqueued, a receiver reads progress before it looks into the ring, so
 * what was promised is there. Where stages only send forward, progress never waits in a circle.
 *
 * Closed loop: as few input events are in flight as fit in every ring, so nothing is dropped
 * between stages.
 *
 * Where events come back to an earlier stage (NF_ROUND), such as the answers that a cache learns
 * from, nobody can say that it will send nothing any more, and nothing is put in order. Every
 * worker counts the events it sent and those it has done instead. Whoever reads what all have done,
 * and after that what all have sent, and finds the sums equal, knows that nothing was on its way in
 * between. An input event leads to at most NF_ALIVE events that are alive at once (a number of the
 * program), so an input is let in while that many fit in a ring for each event that is alive: no
 * ring is ever full, nobody waits for another, and nothing is lost. It costs two counters a worker.
 * Comparisons let in one input after the other, since what comes back changes what later ones find.
 *
 * Every packet is counted: received = sent + dropped by the program + given to the system or the
 * host + refused by a port + lost. A worker that ends early stops the input; what the others can
 * still finish leaves, and what is found in rings and bursts afterwards is counted as lost in
 * flight.
 */
#ifndef NF_DPDK_MAIN_H
#define NF_DPDK_MAIN_H

#include <rte_eal.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <unistd.h>

#define NF_RING 4096
#if NF_ROUND
/* A ring holds one less than its size. */
#define NF_IN_FLIGHT RTE_MIN(1024u, (NF_RING - 1) / NF_ALIVE)
#else
#define NF_IN_FLIGHT 1024
#endif
#define NF_ROOM 256
/* And behind it, for what programs append. */
#ifndef NF_TAIL_ROOM
#define NF_TAIL_ROOM 0
#endif

struct rte_ring *nf_rings[NF_WORKERS + 1][NF_WORKERS + 1];
struct nf_lock_line nf_locks[NF_LOCKS + 1];
struct rte_mempool *nf_event_pool;
volatile bool nf_gone[NF_WORKERS + 1];

static struct rte_mempool *nf_pool;
static struct nf_worker *nf_workers[NF_WORKERS + 1];
static volatile bool nf_stop, nf_done;
static u32 nf_ports;
static struct rte_mbuf *nf_tx[NF_MAX_PORTS][NF_BURST];
static u32 nf_tx_count[NF_MAX_PORTS];
static u64 nf_next_sequence;
static u64 nf_sent[NF_MAX_PORTS], nf_to_stack, nf_to_host, nf_no_port, nf_received;
/* Packets, and events without one, that no worker will finish any more. */
static u64 nf_stranded, nf_stranded_events;

static u64 nf_hz(void) { return rte_get_tsc_hz(); }

#define NF_MORE_STATS nf_more_stats
static void nf_more_stats(FILE *file);
#include "nf_files.h"

/* ---- Ports
 * ------------------------------------------------------------------------------------------------------
 */

static void nf_tx_flush(struct nf_worker *w, u32 port)
{
    u32 count = nf_tx_count[port], done = 0, tries = 0;
    while (done < count && tries++ < 1000) {
        done += rte_eth_tx_burst((u16)port, 0, &nf_tx[port][done], (u16)(count - done));
        if (done < count)
            sched_yield();
    }
    nf_sent[port] += done;
    w->stats.tx_failed += count - done;
    while (done < count)
        rte_pktmbuf_free(nf_tx[port][done++]);
    nf_tx_count[port] = 0;
}

/* A finished packet at the lcore that talks to ports. What goes to the operating system or the host
 * side has no port in a process of its own: it is counted, and logged in verify mode. */
static inline void nf_out(struct nf_worker *w, struct rte_mbuf *m, u32 fate, u32 port)
{
    if (likely(fate == NF_SEND && port < nf_ports)) {
        nf_tx[port][nf_tx_count[port]++] = m;
        if (nf_tx_count[port] == NF_BURST)
            nf_tx_flush(w, port);
        return;
    }
    if (NF_VERIFY && fate == NF_SEND) {
        u64 sequence = w->sequence;
        struct nf_carried *carried = rte_mbuf_to_priv(m);
        w->sequence = carried->sequence;
        nf_record(w, NF_OUT_TX, port, rte_pktmbuf_mtod(m, void *), rte_pktmbuf_data_len(m));
        w->sequence = sequence;
        if (port < NF_MAX_PORTS)
            nf_sent[port]++;
    } else if (fate == NF_SEND) {
        nf_no_port++;
    }
    nf_to_stack += fate == NF_STACK;
    nf_to_host += fate == NF_HOST;
    rte_pktmbuf_free(m);
}

static inline void nf_leave(struct nf_worker *w, struct nf_packet *pkt, u32 fate, u32 port)
{
    struct rte_mbuf *m = nf_mbuf_of(pkt);
#if NF_FUSED
    if (NF_VERIFY) {
        struct nf_carried *carried = rte_mbuf_to_priv(m);
        carried->sequence = w->sequence;
    }
    nf_out(w, m, fate, port);
#else
    struct nf_carried *carried = rte_mbuf_to_priv(m);
    carried->fate = fate;
    carried->port = port;
    carried->sequence = w->sequence;
    nf_queue_to(w, NF_IO, m);
#endif
}

static __rte_noinline void nf_make(struct nf_worker *w, u32 fate, u32 port, const void *bytes,
                                   u32 size)
{
    if (NF_VERIFY)
        nf_record(w, fate == NF_SEND ? NF_OUT_SEND : NF_OUT_HOST, port, bytes, size);
    struct rte_mbuf *m = rte_pktmbuf_alloc(nf_pool);
    void *to = m ? rte_pktmbuf_append(m, (u16)size) : NULL;
    if (!to) {
        rte_pktmbuf_free(m);
        w->stats.lost++;
        return;
    }
    memcpy(to, bytes, size);
    struct nf_packet pkt = {.data = to, .end = (u8 *)to + size, .owner = m};
    nf_leave(w, &pkt, fate, port);
}

/* ---- Room in queues
 * --------------------------------------------------------------------------------------------- */

#if NF_ROOMS
/* Events that wait for a worker, of those for which nf_room says how many may; bursts that are
 * being gathered for it wait, too. */
static u32 nf_waiting[NF_WORKERS + 1][NF_EVENTS];

/* How many may wait for a worker; 0: as many as its ring holds, and one more waits. Queues between
 * two processes have room of their own (nf_far.h). */
static inline u32 nf_room_of(const struct nf_carried *carried)
{
#if NF_SPLIT
    if (nf_far_role)
        return 0;
#endif
    return carried->fate == NF_EVENT ? nf_room[carried->event] : 0;
}
#endif

#if !NF_FUSED
#if NF_ROOMS
static inline void nf_flush_all(struct nf_worker *w);

/* Takes a place in the queue of a worker; false if there is none. */
static inline bool nf_place(u32 to, u32 event, u32 room)
{
    if (__atomic_fetch_add(&nf_waiting[to][event], 1, __ATOMIC_RELAXED) < room)
        return true;
    __atomic_fetch_sub(&nf_waiting[to][event], 1, __ATOMIC_RELAXED);
    return false;
}
#endif

/* Hands an event over, unless its queue is full and loses it, or when it has room. Nobody waits in
 * a circle: stages send forward, and queues that wait do not lead round. What was gathered waits,
 * too, so it must go. */
static inline void nf_admit(struct nf_worker *w, u32 to, struct rte_mbuf *m)
{
#if NF_ROOMS
    const struct nf_carried *carried = rte_mbuf_to_priv(m);
    u32 room = nf_room_of(carried);
    while (room && !nf_place(to, carried->event, room)) {
        if (nf_loses[carried->event] || nf_gone[to] || nf_done) {
            w->stats.overrun += nf_loses[carried->event];
            w->stats.lost += !nf_loses[carried->event];
            rte_pktmbuf_free(m);
            return;
        }
        w->stats.full++;
        nf_flush_all(w);
        sched_yield();
    }
#endif
    nf_queue_to(w, to, m);
}
#endif

/* A worker has taken an event out of its queue. */
static inline void nf_taken(const struct nf_worker *w, const struct nf_carried *carried)
{
#if NF_ROOMS
    if (nf_room_of(carried))
        __atomic_fetch_sub(&nf_waiting[w->number][carried->event], 1, __ATOMIC_RELAXED);
#else
    (void)w;
    (void)carried;
#endif
}

/* ---- One event
 * --------------------------------------------------------------------------------------------------
 */

/* Runs what handlers sent to handlers of the same stage, then sends on what they sent to other
 * stages. */
static inline void nf_finish_event(struct nf_worker *w)
{
    while (unlikely(w->local_count)) {
        struct nf_local_event one = w->local[w->local_first];
        w->local_first = (w->local_first + 1) % NF_LOCAL_EVENTS;
        w->local_count--;
        nf_dispatch(&w->env, one.event, one.params);
        nf_unlock(&w->env);
    }
#if !NF_FUSED
    for (u32 i = 0; i < w->made_count; i++) {
        struct nf_carried *carried = rte_mbuf_to_priv(w->made[i]);
        carried->draws = w->env.draws;
        nf_admit(w, w->made_for[i], w->made[i]);
    }
    w->made_count = 0;
    w->stats.events++;
#endif
}

static inline void nf_packet_from(struct nf_packet *pkt, struct rte_mbuf *m, u32 port)
{
    pkt->head = m->buf_addr;
    pkt->tail = pkt->head + m->buf_len;
    pkt->data = rte_pktmbuf_mtod(m, u8 *);
    pkt->end = pkt->data + rte_pktmbuf_data_len(m);
    pkt->staged = NF_STAGED_BYTES ? ((struct nf_carried *)rte_mbuf_to_priv(m))->staged : NULL;
    pkt->cursor = 0;
    pkt->staged_len = 0;
    pkt->in_port = port;
    pkt->owner = m;
    pkt->owner_data = pkt->data;
    pkt->owner_end = pkt->end;
}

static inline u64 nf_nanoseconds(void)
{
    static u64 hz;
    if (!hz)
        hz = rte_get_tsc_hz();
    u64 now = rte_rdtsc();
    return now / hz * 1000000000 + now % hz * 1000000000 / hz;
}

#if !NF_FUSED
/* ---- Rings
 * ------------------------------------------------------------------------------------------------------
 */

/* Fills the burst of a sender if it is used up. */
static inline bool nf_refill(struct nf_worker *w, u32 from)
{
    if (w->in_count[from])
        return true;
    struct rte_ring *ring = nf_rings[from][w->number];
    w->in_first[from] = 0;
    u32 left = 0;
    w->in_count[from] = rte_ring_sc_dequeue_burst(ring, (void **)w->in[from], NF_BURST, &left);
    if (w->in_count[from] + left > w->stats.depth)
        w->stats.depth = w->in_count[from] + left;
    return w->in_count[from] > 0;
}

static inline struct rte_mbuf *nf_take(struct nf_worker *w, u32 from)
{
    w->in_count[from]--;
    u32 at = w->in_first[from]++;
    if (w->in_count[from]) {
        struct rte_mbuf *next = w->in[from][at + 1];
        rte_prefetch0(rte_mbuf_to_priv(next));
        if (next->data_len)
            rte_prefetch0(rte_pktmbuf_mtod(next, void *));
    }
    return w->in[from][at];
}

static inline u64 nf_sequence_of(struct rte_mbuf *m)
{
    return ((struct nf_carried *)rte_mbuf_to_priv(m))->sequence;
}

/* The next input event, or null if there is none that may be taken yet. When all is empty, *through
 * becomes a number below which nothing will come any more. */
static inline struct rte_mbuf *nf_next(struct nf_worker *w, bool ordered, u64 *through)
{
    u64 least = UINT64_MAX, promised = UINT64_MAX;
    u32 best = NF_WORKERS + 1;
    bool waiting = false;
    for (u32 i = 0; i <= NF_WORKERS; i++) {
        u32 from = ordered ? i : (w->next_sender + i) % (NF_WORKERS + 1);
        if (!nf_rings[from][w->number])
            continue;
        u64 progress = __atomic_load_n(&nf_workers[from]->progress, __ATOMIC_ACQUIRE);
        if (nf_refill(w, from)) {
            u64 head = nf_sequence_of(w->in[from][w->in_first[from]]);
            if (head < least) {
                least = head;
                best = from;
            }
            if (!ordered) {
                best = from;
                w->next_sender = from;
                break;
            }
        } else if (progress < promised) {
            promised = progress;
        }
    }
    if (best > NF_WORKERS) {
        *through = promised;
        return NULL;
    }
    waiting = ordered && promised <= least;
    if (waiting) {
        *through = promised;
        return NULL;
    }
    return nf_take(w, best);
}

static inline void nf_flush_all(struct nf_worker *w)
{
    for (u32 to = 0; to <= NF_WORKERS; to++)
        if (w->out_count[to])
            nf_flush_to(w, to);
}

/* Runs an event's handler and those of the same stage that it leads to. */
static inline void nf_run_event(struct nf_worker *w, struct rte_mbuf *m)
{
    struct nf_carried *carried = rte_mbuf_to_priv(m);
    w->env.now = carried->now;
    w->env.seed = carried->seed;
    w->env.draws = carried->draws;
    w->sequence = carried->sequence;
    u32 event = carried->event;
    nf_taken(w, carried);
    /* A copy: the mbuf may be gone before the handler ends. */
    u8 params[NF_PARAM_BYTES];
    memcpy(params, carried->params, sizeof(params));
    if (nf_packet_at[event] == UINT16_MAX)
        rte_pktmbuf_free(m);
    nf_dispatch(&w->env, event, params);
    /* A handler that returned early still holds them. */
    nf_unlock(&w->env);
    nf_finish_event(w);
    nf_count_handled(w, 1);
}

#if NF_SPLIT
#include "nf_far.h"
#endif

static int nf_work(void *argument)
{
    struct nf_worker *w = argument;
    bool ordered = nf_stages[w->stage].ordered;
    u64 seen = 0;
    u64 halt = w->number == nf_halt_worker ? nf_halt_after : UINT64_MAX;
    while (!nf_done) {
        u64 start = rte_rdtsc(), through = 0;
        u32 count = 0;
        struct rte_mbuf *m = NULL;
        if (unlikely(w->stats.events >= halt)) {
            nf_gone[w->number] = true;
            break;
        }
        while (count < NF_BURST && (m = nf_next(w, ordered, &through))) {
            nf_run_event(w, m);
            seen = w->sequence;
            count++;
        }
        nf_flush_all(w);
        u64 progress = m ? (ordered ? seen : 0) : through;
        if (progress > w->progress)
            __atomic_store_n(&w->progress, progress, __ATOMIC_RELEASE);
        if (count) {
            w->stats.cycles += rte_rdtsc() - start;
        } else {
            w->stats.empty_polls++;
            sched_yield();
        }
    }
    return 0;
}

#if NF_ROUND
/* Events on their way, where they come back: all, or more if some were sent while we looked. */
static u64 nf_alive(void)
{
    u64 handled = 0, handed = 0;
    for (u32 i = 0; i <= NF_WORKERS; i++)
        handled += __atomic_load_n(&nf_workers[i]->handled, __ATOMIC_ACQUIRE);
    for (u32 i = 0; i <= NF_WORKERS; i++)
        handed += __atomic_load_n(&nf_workers[i]->handed, __ATOMIC_RELAXED);
    return handed - handled;
}
#else
/* The smallest progress of all workers. */
static u64 nf_all_through(void)
{
    u64 least = UINT64_MAX;
    for (u32 i = 0; i < NF_WORKERS; i++) {
        u64 progress = __atomic_load_n(&nf_workers[i]->progress, __ATOMIC_ACQUIRE);
        least = progress < least ? progress : least;
    }
    return least;
}
#endif

static bool nf_any_gone(void)
{
    bool any = false;
    for (u32 i = 0; i < NF_WORKERS; i++)
        any |= nf_gone[i];
    return any;
}

static void nf_strand(struct rte_mbuf *m)
{
    nf_stranded += m->pool == nf_pool;
    nf_stranded_events += m->pool != nf_pool;
    rte_pktmbuf_free(m);
}

/* Takes what is left between workers that have all ended. */
static void nf_count_stranded(void)
{
    for (u32 from = 0; from <= NF_WORKERS; from++)
        for (u32 to = 0; to <= NF_WORKERS; to++) {
            struct nf_worker *sender = nf_workers[from], *receiver = nf_workers[to];
            for (; receiver->in_count[from]; receiver->in_count[from]--)
                nf_strand(receiver->in[from][receiver->in_first[from]++]);
            void *m;
            while (nf_rings[from][to] && rte_ring_sc_dequeue(nf_rings[from][to], &m) == 0)
                nf_strand(m);
            while (sender->out_count[to])
                nf_strand(sender->out[to][--sender->out_count[to]]);
        }
}

static u32 nf_collect(struct nf_worker *io)
{
    u64 through;
    u32 count = 0;
    struct rte_mbuf *m;
    while (count < 4 * NF_BURST && (m = nf_next(io, NF_ORDERED_OUTPUT, &through))) {
        struct nf_carried *carried = rte_mbuf_to_priv(m);
        nf_out(io, m, carried->fate, carried->port);
        count++;
    }
    nf_count_handled(io, count);
    return count;
}
#endif

/* ---- The lcore that talks to ports
 * ------------------------------------------------------------------------------ */

/* An input event with its packet (or message, or nothing for a tick) in m. */
static inline void nf_input(struct nf_worker *io, struct rte_mbuf *m, u32 event, u32 port, u64 now,
                            u64 seed)
{
#if NF_FUSED
    if (NF_USES_TIME)
        io->env.now = now;
    if (NF_USES_RANDOM) {
        io->env.seed = seed;
        io->env.draws = 0;
    }
    if (NF_VERIFY)
        io->sequence = nf_next_sequence++;
    if (event == NF_ENTRY) {
        struct nf_packet pkt, *pointer = &pkt;
        nf_packet_from(&pkt, m, port);
        nf_enter(&io->env, &pointer);
        if (NF_SENDS_ITSELF)
            nf_finish_event(io);
    } else {
        nf_dispatch(&io->env, event, rte_pktmbuf_mtod(m, void *));
        nf_finish_event(io);
        rte_pktmbuf_free(m);
    }
#else
    /* A message to a program that takes none. */
    if (event >= NF_EVENTS) {
        io->stats.lost++;
        rte_pktmbuf_free(m);
        return;
    }
    struct nf_carried *carried = rte_mbuf_to_priv(m);
    carried->now = now;
    carried->seed = seed;
    carried->draws = 0;
    carried->sequence = nf_next_sequence++;
    carried->event = event;
    carried->fate = NF_EVENT;
    const u8 *data = rte_pktmbuf_mtod(m, u8 *), *end = data + rte_pktmbuf_data_len(m);
    if (event == NF_ENTRY) {
        struct nf_packet *pkt = &carried->pkt;
        nf_packet_from(pkt, m, port);
        memcpy(carried->params, &pkt, sizeof(pkt));
    } else {
        memcpy(carried->params, data, rte_pktmbuf_data_len(m));
        data = end = NULL;
    }
    const struct nf_stage_spec *stage = &nf_stages[nf_stage_of[event]];
    u32 replica = 0;
    if (stage->replicas > 1)
        replica =
            (u32)((u64)nf_steer(io, event, carried->params, data, end) * stage->replicas >> 32);
    nf_queue_to(io, stage->first + replica, m);
    io->stats.events++;
#endif
}

/* Packets that are taken from a port at once. */
static inline u16 nf_burst_in(void)
{
#if NF_ROUND
    return NF_VERIFY
               ? 1
               : (u16)RTE_MAX(1u, RTE_MIN((u32)NF_BURST, NF_IN_FLIGHT / RTE_MAX(1u, nf_ports)));
#else
    return nf_in_turn ? 1 : NF_BURST;
#endif
}

/* Gives the next burst of events from the file to their handlers; 0 at its end. */
static u32 nf_next_event(struct nf_worker *io)
{
    u32 count = 0;
    while (count < nf_burst_in() &&
           (size_t)(nf_events_end - nf_events_at) >= sizeof(struct nf_event_head)) {
        struct nf_event_head head;
        memcpy(&head, nf_events_at, sizeof(head));
        const u8 *bytes = nf_events_at + sizeof(head);
        if ((size_t)(nf_events_end - bytes) < head.size)
            return 0;
        struct rte_mbuf *m = rte_pktmbuf_alloc(nf_pool);
        if (!m)
            return count ? count : 1;
        nf_events_at = bytes + head.size;
        void *to = rte_pktmbuf_append(m, (u16)head.size);
        if (!to) {
            io->stats.lost++;
            rte_pktmbuf_free(m);
            continue;
        }
        memcpy(to, bytes, head.size);
        nf_received += head.kind == NF_IN_PACKET;
        count++;
        nf_input(io, m, nf_event_of(&head), head.port, head.now, head.seed);
    }
    return count;
}

/* Packets that came in during the last call are on their way. Gives how many events that was. */
static inline u32 nf_poll_ports(struct nf_worker *io)
{
    u32 total = 0;
    for (u32 port = 0; port < nf_ports; port++) {
        struct rte_mbuf *burst[NF_BURST];
        u32 count = rte_eth_rx_burst((u16)port, 0, burst, nf_burst_in());
        if (!count)
            continue;
        u64 now = NF_USES_TIME ? nf_nanoseconds() : 0;
        for (u32 i = 0; i < 3 && i < count; i++)
            rte_prefetch0(rte_pktmbuf_mtod(burst[i], void *));
        u64 received = nf_received;
        nf_received += count;
        for (u32 i = 0; i < count; i++) {
            if (i + 3 < count)
                rte_prefetch0(rte_pktmbuf_mtod(burst[i + 3], void *));
            if (unlikely(burst[i]->nb_segs > 1) && rte_pktmbuf_linearize(burst[i])) {
                io->stats.lost++;
                rte_pktmbuf_free(burst[i]);
                continue;
            }
            nf_input(io, burst[i], NF_ENTRY, port, now, (received + i) * 0x9e3779b97f4a7c15u);
        }
        total += count;
    }
    return total;
}

#ifdef NF_TIMERS
/* Timers that are due, once each whatever they missed. They are armed by the first call. Gives how
 * many that was. */
static u32 nf_poll_timers(struct nf_worker *io)
{
    static const u64 periods[] = NF_TIMER_PERIODS;
    static const u32 events[] = NF_TIMER_EVENTS;
    static u64 due[NF_TIMERS], fired[NF_TIMERS];
    u64 now = nf_nanoseconds();
    u32 count = 0;
    for (u32 t = 0; t < NF_TIMERS; t++) {
        if (!due[t])
            due[t] = now + periods[t];
        struct rte_mbuf *m = now < due[t] ? NULL : rte_pktmbuf_alloc(nf_pool);
        if (!m)
            continue;
        due[t] += (now - due[t]) / periods[t] * periods[t] + periods[t];
        nf_input(io, m, events[t], 0, now, ~(u64)events[t] + ++fired[t] * 0x9e3779b97f4a7c15u);
        count++;
    }
    return count;
}
#endif

static inline bool nf_has_room(void)
{
#if NF_FUSED
    return true;
#elif NF_ROUND
    return nf_alive() + (NF_VERIFY ? 0 : nf_burst_in() * nf_ports) <=
           (NF_VERIFY ? 0 : NF_IN_FLIGHT);
#else
    if (nf_in_turn)
        return nf_all_through() >= nf_next_sequence;
    return nf_next_sequence - nf_all_through() + NF_BURST * nf_ports < NF_IN_FLIGHT;
#endif
}

/* One line of what happened so far. Other workers' counters may be some events old. */
static void nf_report(void)
{
#if NF_SPLIT
    if (nf_far_path)
        nf_far_stats();
#endif
    u64 sent = 0, dropped = 0, lost = nf_no_port;
    for (u32 port = 0; port < nf_ports; port++)
        sent += nf_sent[port];
    for (u32 i = 0; i <= NF_WORKERS; i++) {
        const struct nf_stats *stats = &nf_workers[i]->stats;
        lost += stats->lost + stats->tx_failed;
        for (u32 reason = 0; reason < NF_REASONS; reason++)
            dropped += stats->drops[reason];
    }
    printf("%lu %lu %lu %lu\n", nf_received, sent, dropped, lost);
    fflush(stdout);
}

static void nf_talk(struct nf_worker *io)
{
    u64 second = rte_get_tsc_hz();
    u64 report = nf_reports ? rte_rdtsc() + second : UINT64_MAX;
#if !NF_FUSED
    u64 moved = rte_rdtsc();
#endif
    bool inputs_end = false;
    while (true) {
        u64 start = rte_rdtsc();
        if (unlikely(start >= report)) {
            nf_report();
            report += second;
        }
        u32 count = 0;
        inputs_end = inputs_end || nf_stop || (nf_limit && nf_received >= nf_limit);
        if (!inputs_end && nf_has_room()) {
            count = nf_events_at ? nf_next_event(io) : nf_poll_ports(io);
#ifdef NF_TIMERS
            count += nf_events_at ? 0 : nf_poll_timers(io);
#endif
            io->stats.events += NF_FUSED ? count : 0;
            inputs_end = nf_events_at && !count;
        }
#if !NF_FUSED
        nf_flush_all(io);
        __atomic_store_n(&io->progress, nf_next_sequence, __ATOMIC_RELEASE);
#if NF_ROUND
        count += nf_collect(io);
        bool drained = inputs_end && nf_alive() == 0;
#else
        u64 through = nf_all_through();
        count += nf_collect(io);
        bool drained = inputs_end && through >= nf_next_sequence && !count;
#endif
        if (count) {
            moved = start;
        } else if (nf_any_gone()) {
            /* What waits for the one that is gone never comes: a fifth of a second without anything
             * is the end. */
            inputs_end = true;
            drained = start - moved > second / 5;
        }
#if NF_SPLIT
        /* A host process that is gone for good. */
        drained |= inputs_end && nf_far_path && start - moved > 3 * second;
#endif
#else
        bool drained = inputs_end;
#endif
        if (count) {
            io->stats.cycles += rte_rdtsc() - start;
        } else {
            io->stats.empty_polls++;
        }
        /* Buffers that come back at once are still in the cache when the next packets are put into
         * them. */
        for (u32 port = 0; port < nf_ports; port++)
            if (nf_tx_count[port])
                nf_tx_flush(io, port);
        if (drained)
            break;
        if (!count)
            sched_yield();
    }
    nf_done = true;
    /* Nobody waits for this lcore any more. */
    nf_gone[NF_IO] = true;
}

static void nf_on_signal(int number)
{
    (void)number;
    nf_stop = true;
}

static int nf_fail(const char *what)
{
    fprintf(stderr, "nicforge-dpdk: %s: %s\n", what, rte_strerror(rte_errno));
    return 3;
}

/* Counters that only this kind of process has. */
static void nf_more_stats(FILE *file)
{
    for (u32 i = 0; i <= NF_WORKERS; i++) {
        const struct nf_stats *stats = &nf_workers[i]->stats;
        fprintf(file, "worker.%u.messages %lu\nworker.%u.dma_writes %lu\n", i, stats->messages, i,
                stats->dma_writes);
        fprintf(file, "worker.%u.logs %lu\nworker.%u.gone %u\n", i, stats->logs, i,
                nf_gone[i] && i != NF_IO);
        fprintf(file, "worker.%u.overrun %lu\n", i, stats->overrun);
    }
    for (u32 port = 0; port < nf_ports; port++) {
        struct rte_eth_stats stats = {0};
        if (rte_eth_stats_get((u16)port, &stats) == 0)
            fprintf(file, "missed.%u %lu\n", port, stats.imissed + stats.rx_nombuf);
    }
    fprintf(file, "stranded %lu\nstranded_events %lu\n", nf_stranded, nf_stranded_events);
#if NF_SPLIT
    if (nf_far_path && !nf_far_role)
        nf_far_moved(file);
#endif
}

static bool nf_start_ports(void)
{
    nf_ports = rte_eth_dev_count_avail();
    if (nf_ports > NF_MAX_PORTS)
        nf_ports = NF_MAX_PORTS;
    for (u32 port = 0; port < nf_ports; port++) {
        struct rte_eth_conf conf = {0};
        if (rte_eth_dev_configure((u16)port, 1, 1, &conf) ||
            rte_eth_rx_queue_setup((u16)port, 0, 512, rte_eth_dev_socket_id((u16)port), NULL,
                                   nf_pool) ||
            rte_eth_tx_queue_setup((u16)port, 0, 512, rte_eth_dev_socket_id((u16)port), NULL) ||
            rte_eth_dev_start((u16)port))
            return false;
        /* Ports of files and rings have no such mode. */
        (void)rte_eth_promiscuous_enable((u16)port);
    }
    return true;
}

/* Waits until every port has its link, nine seconds at most, as DPDK's own examples do. What is
 * sent before is lost. */
static void nf_await_links(void)
{
    for (u32 port = 0, waited = 0; port < nf_ports && !nf_stop;) {
        struct rte_eth_link link = {0};
        if (rte_eth_link_get_nowait((u16)port, &link) || link.link_status == RTE_ETH_LINK_UP) {
            port++;
        } else if (waited < 90) {
            rte_delay_us_sleep(100 * 1000);
            waited++;
        } else {
            fprintf(stderr, "nicforge-dpdk: port %u has no link; going on without\n", port);
            port++;
        }
    }
}

static bool nf_make_workers(void)
{
    for (u32 i = 0; i <= NF_WORKERS; i++) {
        struct nf_worker *w = rte_zmalloc(NULL, sizeof(*w), RTE_CACHE_LINE_SIZE);
        struct nf_local_event *local = calloc(NF_LOCAL_EVENTS, sizeof(*local));
        if (!w || !local)
            return false;
        w->local = local;
        w->number = i;
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
        const struct nf_table_spec *spec = &nf_table_specs[t];
        struct nf_table *shared = NULL;
        for (u32 i = 0; i <= NF_WORKERS; i++) {
            if (!shared || (nf_sharded[t] && i < NF_WORKERS))
                shared = nf_table_new(spec->kind, nf_part_capacity(t), spec->key_size,
                                      spec->entry_size, spec->buf_capacity);
            if (!shared)
                return false;
            nf_workers[i]->tables[t] = shared;
        }
    }
#if NF_FUSED
    /* The only worker's tables are those of the lcore that talks to ports. */
    memcpy(nf_workers[NF_IO]->tables, nf_workers[0]->tables, sizeof(nf_workers[0]->tables));
#else
    for (u32 from = 0; from <= NF_WORKERS; from++)
        for (u32 to = 0; to <= NF_WORKERS; to++) {
            if (!nf_sends(from, to))
                continue;
            char name[RTE_RING_NAMESIZE];
            snprintf(name, sizeof(name), "nf_%u_%u", from, to);
            nf_rings[from][to] =
                rte_ring_create(name, NF_RING, (int)rte_socket_id(), RING_F_SP_ENQ | RING_F_SC_DEQ);
            if (!nf_rings[from][to])
                return false;
        }
#endif
    return true;
}

int main(int argc, char **argv)
{
    int used = rte_eal_init(argc, argv);
    /* Nothing is ever put there without telemetry and shared configuration, and DPDK leaves it
     * behind. */
    (void)rmdir(rte_eal_get_runtime_dir());
    if (used < 0)
        return nf_fail("cannot start the environment");
    if (!nf_options(argc - used, argv + used))
        return 2;
    if (nf_ports_wanted && rte_eth_dev_count_avail() != nf_ports_wanted) {
        fprintf(stderr, "nicforge-dpdk: %u of %u ports could be opened\n",
                rte_eth_dev_count_avail(), nf_ports_wanted);
        return 3;
    }
    /* Byte strings of tables become packets, too. */
    u32 longest = nf_frame > 2048 ? nf_frame : 2048;
    for (u32 t = 0; t < nf_table_count; t++)
        longest = RTE_MAX(longest, nf_table_specs[t].buf_capacity);
    u32 data_room = RTE_PKTMBUF_HEADROOM + NF_ROOM + longest + NF_TAIL_ROOM;
    u32 private = (u32)RTE_ALIGN(sizeof(struct nf_carried), RTE_MBUF_PRIV_ALIGN);
    nf_pool = rte_pktmbuf_pool_create("nf_packets", NF_POOL, 256, (u16) private,
                                      (u16)(data_room > UINT16_MAX ? UINT16_MAX : data_room),
                                      (int)rte_socket_id());
    nf_event_pool =
        rte_pktmbuf_pool_create("nf_events", NF_POOL, 256, (u16) private, 0, (int)rte_socket_id());
    if (!nf_pool || !nf_event_pool)
        return nf_fail("cannot allocate packet buffers (is -m large enough?)");
    if (!nf_far_role && !nf_start_ports())
        return nf_fail("cannot start a port");
    if (!nf_make_workers())
        return nf_fail("cannot allocate tables and rings (is -m large enough?)");
    if (!nf_fill_tables())
        return 1;
    signal(SIGINT, nf_on_signal);
    signal(SIGTERM, nf_on_signal);
    nf_await_links();
#if NF_SPLIT
    if (nf_far_path && !nf_far_open(longest)) {
        fprintf(stderr, "nicforge-dpdk: %s: the queues between both processes cannot be mapped\n",
                nf_far_path);
        return 3;
    }
#endif
#if !NF_FUSED
    u32 lcore = rte_get_next_lcore(-1, 1, 0);
    for (u32 i = 0; i < NF_WORKERS; i++) {
        int (*work)(void *) = nf_work;
#if NF_SPLIT
        if (nf_far_path && nf_is_far(i))
            work = nf_far_role ? nf_far_work : nf_far_bridge;
        else if (nf_far_role)
            continue;
#endif
        if (lcore >= RTE_MAX_LCORE) {
            fprintf(stderr,
                    "nicforge-dpdk: %u lcores are needed; give them by --lcores, several per CPU "
                    "if need be\n",
                    NF_WORKERS + 1);
            return 2;
        }
        rte_eal_remote_launch(work, nf_workers[i], lcore);
        lcore = rte_get_next_lcore(lcore, 1, 0);
    }
#endif
#if NF_SPLIT
    if (nf_far_role)
        nf_far_wait();
    else
#endif
        nf_talk(nf_workers[NF_IO]);
    rte_eal_mp_wait_lcore();
#if !NF_FUSED
    nf_count_stranded();
#endif
#if NF_SPLIT
    if (nf_far_path && !nf_far_role)
        nf_far_end();
#endif
    bool written = nf_write_results();
    for (u32 port = 0; port < nf_ports; port++) {
        rte_eth_dev_stop((u16)port);
        rte_eth_dev_close((u16)port);
    }
    rte_eal_cleanup();
    return written ? 0 : 3;
}

#endif
