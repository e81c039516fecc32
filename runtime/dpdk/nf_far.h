/* SPDX-License-Identifier: 0BSD
 *
 * nf_far.h (dpdk) - an application as two processes: stages that are pinned to the host run in one
 * of their own. A part of nf_main.h.
 *
 * Both are the same executable. Each worker of a host stage has two queues in the host's memory, a
 * file that both map: up to it and down from it. The host's process is at their near ends
 * (nf_link.h), the NIC's at the far ones (nf_link_far.h): it touches the file by DMA only
 * (nf_dma.h), in runs of entries, and a run leaves by its deadline whether or not more comes. In
 * the NIC's process a far worker's lcore only hands over: what its rings bring goes up, what comes
 * down goes to the receiver's ring. So order, progress and the closed loop are as with any other
 * worker: what was handed over is done when the other end has freed its entry and what it led to is
 * down. nf_link_far_done says when.
 *
 * A host process that dies is started again by whoever started it. It finds the queues as they are;
 * what it had taken is counted as lost, and its tables begin anew. Counters lie in the file, so
 * they go on; what an event counted just before its process died is counted twice then.
 */
#ifndef NF_DPDK_FAR_H
#define NF_DPDK_FAR_H

#include "nf_dma.h"
#include "nf_link_words.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define NF_FAR_ENTRIES 1024u
/* Entries of one transfer. */
#define NF_FAR_BATCH 32u
#define NF_FAR_READY 0x6e69636672676531u

struct nf_far_shared {
    u64 ready;
    u64 done;
    struct nf_stats stats[NF_WORKERS];
};

/* What crosses: this, an event's parameters and what its packet has in its context without their
 * zeros, headers that wait in front of the packet, the packet. */
struct nf_far_message {
    u64 now, seed, draws, sequence;
    u32 event, fate, port, to;
    /* Bytes of the packet, and whether there is one. */
    u32 size, packet;
    /* Of its nf_packet. */
    u32 cursor, staged, in_port, spare;
};

/* Most bytes of a message without its packet. */
#define NF_FAR_MOST                                                                                \
    ((u32)sizeof(struct nf_far_message) + nf_words_most(NF_PARAM_BYTES) +                          \
     nf_words_most(NF_FAR_CONTEXT) + NF_STAGED_BYTES)
#ifdef NF_CONTEXT_BYTES
#define NF_FAR_CONTEXT NF_CONTEXT_BYTES
#define nf_far_context(carried) ((carried)->pkt.context)
#else
#define NF_FAR_CONTEXT 0u
#define nf_far_context(carried) NULL
#endif

/* Queues of a worker: those of the host's process, or of the NIC's. */
struct nf_far_ends {
    struct nf_link near_up, near_down;
    struct nf_link_far up, down;
    /* Of the NIC's process: numbers of what was handed over, and how much of it is done. */
    u64 sequences[NF_FAR_ENTRIES];
    struct nf_link_done done;
    /* A message that is copied. */
    u8 *scratch;
};

static struct nf_far_shared *nf_far_shared;
static struct nf_far_ends nf_far_ends[NF_WORKERS];

static inline bool nf_is_far(u32 worker)
{
    return worker != NF_IO && nf_host_stages[nf_workers[worker]->stage];
}

static bool nf_far_near(struct nf_far_ends *ends, u8 *at, size_t link, u32 entry)
{
    return nf_link_attach(&ends->near_up, at, NF_FAR_ENTRIES, entry, NF_LINK_LINES, true) &&
           nf_link_attach(&ends->near_down, at + link, NF_FAR_ENTRIES, entry, NF_LINK_LINES, false);
}

static bool nf_far_far(struct nf_far_ends *ends, u8 *at, size_t link, u32 entry)
{
    u8 *own = mmap(NULL, 2 * link, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct nf_dma *dma = &nf_dma_engine.dma;
    if (own == MAP_FAILED ||
        !nf_link_far_attach(&ends->up, own, at, NF_FAR_ENTRIES, entry, false, dma) ||
        !nf_link_far_attach(&ends->down, own + link, at + link, NF_FAR_ENTRIES, entry, true, dma))
        return false;
    ends->up.batch = ends->down.batch = NF_FAR_BATCH;
    /* Credits say what is done, too. */
    ends->up.owed = 0;
    return true;
}

/* Maps the file and takes this process's ends of all queues. The NIC's process makes it, the host's
 * waits for it. */
static bool nf_far_open(u32 longest)
{
    u32 entry = NF_LINK_LINE * nf_link_lines(NF_FAR_MOST + longest + NF_ROOM);
    entry = entry > 65536 ? 65536 : entry;
    size_t head = RTE_ALIGN(sizeof(struct nf_far_shared), 64);
    size_t link = RTE_ALIGN(nf_link_bytes(NF_FAR_ENTRIES, entry, NF_LINK_LINES), 64);
    size_t size = head + 2 * NF_WORKERS * link;
    int fd = open(nf_far_path, nf_far_role ? O_RDWR : O_RDWR | O_CREAT, 0600);
    for (int tries = 0; nf_far_role && tries < 10000; tries++) {
        struct stat found;
        if (fd >= 0 && fstat(fd, &found) == 0 && (size_t)found.st_size == size)
            break;
        usleep(1000);
        fd = fd < 0 ? open(nf_far_path, O_RDWR) : fd;
    }
    if (fd < 0 || (!nf_far_role && ftruncate(fd, (off_t)size)))
        return false;
    u8 *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED)
        return false;
    nf_far_shared = (struct nf_far_shared *)memory;
    while (nf_far_role && !nf_stop &&
           __atomic_load_n(&nf_far_shared->ready, __ATOMIC_ACQUIRE) != NF_FAR_READY)
        usleep(1000);
    if (!nf_far_role && !nf_dma_open(&nf_dma_engine))
        return false;
    for (u32 i = 0; i < NF_WORKERS; i++) {
        struct nf_far_ends *ends = &nf_far_ends[i];
        u8 *at = memory + head + 2 * i * link;
        ends->scratch = malloc(65536);
        if (!ends->scratch ||
            !(nf_far_role ? nf_far_near(ends, at, link, entry) : nf_far_far(ends, at, link, entry)))
            return false;
        if (nf_far_role) {
            nf_workers[i]->stats = nf_far_shared->stats[i];
            nf_workers[i]->stats.lost += ends->near_up.lost;
            nf_far_shared->stats[i].lost += ends->near_up.lost;
        }
    }
    __atomic_store_n(&nf_far_shared->ready, NF_FAR_READY, __ATOMIC_RELEASE);
    return true;
}

/* Writes an event for worker `to` down as a message; its bytes, or 0 if they are more than `room`.
 * The mbuf goes. */
static u32 nf_far_message(struct nf_worker *w, u8 *bytes, u32 room, u32 to, struct rte_mbuf *m)
{
    struct nf_carried *carried = rte_mbuf_to_priv(m);
    bool event = carried->fate == NF_EVENT, packet = m->pool == nf_pool;
    struct nf_far_message message = {carried->now,
                                     carried->seed,
                                     carried->draws,
                                     carried->sequence,
                                     carried->event,
                                     carried->fate,
                                     carried->port,
                                     to,
                                     0,
                                     packet,
                                     0,
                                     0,
                                     0,
                                     0};
    const u8 *data = rte_pktmbuf_mtod(m, const u8 *);
    message.size = packet ? rte_pktmbuf_data_len(m) : 0;
    if (event && packet) {
        data = carried->pkt.data;
        message.size = (u32)(carried->pkt.end - carried->pkt.data);
        message.cursor = carried->pkt.cursor;
        message.staged = carried->pkt.staged_len;
        message.in_port = carried->pkt.in_port;
        /* Where the packet is among the parameters is a place of this process. */
        memset(carried->params + nf_packet_at[carried->event], 0, sizeof(struct nf_packet *));
    }
    if (NF_FAR_MOST + message.size > room) {
        w->stats.lost++;
        rte_pktmbuf_free(m);
        return 0;
    }
    u8 *at = bytes + sizeof(message);
    memcpy(bytes, &message, sizeof(message));
    if (event)
        at += nf_words_put(at, carried->params, nf_event_bytes[carried->event]);
    if (event && packet) {
        at += nf_words_put(at, nf_far_context(carried), NF_FAR_CONTEXT);
        memcpy(at, carried->staged, message.staged);
        at += message.staged;
    }
    memcpy(at, data, message.size);
    rte_pktmbuf_free(m);
    return (u32)(at - bytes) + message.size;
}

/* Makes an event of a message; null if there is no memory, or it is none. */
static struct rte_mbuf *nf_far_get(const u8 *bytes, u32 length, u32 *to)
{
    struct nf_far_message message;
    memcpy(&message, bytes, sizeof(message));
    struct rte_mbuf *m = rte_pktmbuf_alloc(message.packet ? nf_pool : nf_event_pool);
    if (!m)
        return NULL;
    struct nf_carried *carried = rte_mbuf_to_priv(m);
    bool event = message.fate == NF_EVENT;
    u32 at = sizeof(message);
    carried->now = message.now;
    carried->seed = message.seed;
    carried->draws = message.draws;
    carried->sequence = message.sequence;
    carried->event = message.event;
    carried->fate = message.fate;
    carried->port = message.port;
    *to = message.to;
    if (event)
        at += nf_words_get(carried->params, nf_event_bytes[message.event], bytes + at, length - at);
    if (event && message.packet) {
        at += nf_words_get(nf_far_context(carried), NF_FAR_CONTEXT, bytes + at, length - at);
        memcpy(carried->staged, bytes + at, message.staged);
        at += message.staged;
    }
    if (at > length || message.size > length - at) {
        rte_pktmbuf_free(m);
        return NULL;
    }
    if (!message.packet)
        return m;
    /* Room in front for headers that the handler puts there. */
    rte_pktmbuf_reset(m);
    void *data = rte_pktmbuf_append(m, (u16)message.size);
    if (!data) {
        rte_pktmbuf_free(m);
        return NULL;
    }
    memcpy(data, bytes + at, message.size);
    if (!event)
        return m;
    struct nf_packet *pkt = &carried->pkt;
    nf_packet_from(pkt, m, message.in_port);
    pkt->cursor = message.cursor;
    pkt->staged_len = message.staged;
    memcpy(carried->params + nf_packet_at[carried->event], &pkt, sizeof(pkt));
    return m;
}

/* What a worker of the host's process sends goes down, whoever gets it. */
static void nf_far_send(struct nf_worker *w, u32 to, struct rte_mbuf *m)
{
    struct nf_far_ends *ends = &nf_far_ends[w->number];
    while (!nf_link_reserve(&ends->near_down)) {
        w->stats.full++;
        if (nf_done) {
            w->stats.lost++;
            rte_pktmbuf_free(m);
            return;
        }
        sched_yield();
    }
    /* The scratch holds what is handled now, whose bytes were copied into an mbuf. */
    u32 size = nf_far_message(w, ends->scratch, nf_link_room(&ends->near_down), to, m);
    if (size)
        nf_link_put(&ends->near_down, 0, ends->scratch, size);
}

/* Takes what came down and gives it to its receivers; how much it was. */
static u32 nf_far_down(struct nf_worker *w, struct nf_far_ends *ends)
{
    u32 count = 0, to = 0, length;
    u8 channel;
    while (count < NF_FAR_ENTRIES &&
           nf_link_far_get(&ends->down, &channel, ends->scratch, &length)) {
        struct rte_mbuf *m = nf_far_get(ends->scratch, length, &to);
        if (m && to <= NF_WORKERS && nf_rings[w->number][to])
            nf_admit(w, to, m);
        else
            w->stats.lost++;
        count++;
    }
    nf_flush_all(w);
    return count;
}

/* In the NIC's process: hands over. */
static int nf_far_bridge(void *argument)
{
    struct nf_worker *w = argument;
    struct nf_far_ends *ends = &nf_far_ends[w->number];
    struct nf_link_far *up = &ends->up;
    bool ordered = nf_stages[w->stage].ordered;
    u64 counted = 0;
    while (!nf_done) {
        u64 through = 0;
        nf_dma_poll(&nf_dma_engine);
        nf_link_far_poll(&ends->down, 0);
        u32 count = nf_far_down(w, ends);
        u64 freed = nf_link_far_done(&ends->done, up, &ends->down);
        nf_count_handled(w, freed - counted);
        counted = freed;
        struct rte_mbuf *m = NULL;
        bool room = false;
        u64 now = nf_dma_now();
        for (u32 i = 0; i < NF_BURST; i++) {
            room = nf_link_far_room(up);
            m = room ? nf_next(w, ordered, &through) : NULL;
            if (!m)
                break;
            u64 sequence = nf_sequence_of(m);
            nf_taken(w, rte_mbuf_to_priv(m));
            u32 size = nf_far_message(w, ends->scratch, nf_link_room(&up->link), w->number, m);
            count++;
            if (!size) {
                nf_count_handled(w, 1);
                continue;
            }
            ends->sequences[up->link.at % NF_FAR_ENTRIES] = sequence;
            nf_link_far_put(up, 0, ends->scratch, size, now);
        }
        nf_link_far_poll(up, now);
        u64 progress = 0;
        if (freed < up->link.at)
            progress = ordered ? ends->sequences[freed % NF_FAR_ENTRIES] : 0;
        else if (room && !m)
            progress = through;
        if (progress > w->progress)
            __atomic_store_n(&w->progress, progress, __ATOMIC_RELEASE);
        if (!count)
            sched_yield();
    }
    return 0;
}

/* In the host's process: runs handlers. */
static int nf_far_work(void *argument)
{
    struct nf_worker *w = argument;
    struct nf_far_ends *ends = &nf_far_ends[w->number];
    struct nf_link *up = &ends->near_up;
    while (!nf_done) {
        u64 start = rte_rdtsc();
        u32 count = 0, to = 0;
        struct nf_link_head head;
        const u8 *entry;
        for (; count < NF_BURST && (entry = nf_link_take(up, &head)); count++) {
            nf_link_gather(up, entry, head.length, ends->scratch);
            struct rte_mbuf *m = nf_far_get(ends->scratch, head.length, &to);
            if (m)
                nf_run_event(w, m);
            else
                w->stats.lost++;
            nf_far_shared->stats[w->number] = w->stats;
            nf_link_release(up);
        }
        if (count)
            w->stats.cycles += rte_rdtsc() - start;
        else
            sched_yield();
    }
    return 0;
}

/* Waits in the host's process for the end of the NIC's. */
static void nf_far_wait(void)
{
    while (!nf_stop && !__atomic_load_n(&nf_far_shared->done, __ATOMIC_ACQUIRE))
        usleep(1000);
    nf_done = true;
}

/* Takes over in the NIC's process what the host's counted. */
static void nf_far_stats(void)
{
    for (u32 i = 0; i < NF_WORKERS; i++)
        if (nf_is_far(i)) {
            u64 lost = nf_workers[i]->stats.lost;
            nf_workers[i]->stats = nf_far_shared->stats[i];
            nf_workers[i]->stats.lost += lost;
        }
}

/* What crossed, in how many transfers. */
static void nf_far_moved(FILE *file)
{
    u64 moved = 0, commands = 0, bytes = 0;
    for (u32 i = 0; i < NF_WORKERS; i++)
        if (nf_is_far(i)) {
            moved += nf_far_ends[i].up.moved;
            commands += nf_far_ends[i].up.commands;
            bytes += nf_far_ends[i].up.bytes;
        }
    fprintf(file, "link_moved %lu\nlink_commands %lu\nlink_bytes %lu\nlink_device %u\n", moved,
            commands, bytes, nf_dma_engine.device >= 0);
}

/* The run is over: what is still handed over and not done is stranded. */
static void nf_far_end(void)
{
    nf_far_stats();
    for (u32 i = 0; i < NF_WORKERS; i++)
        nf_stranded += nf_is_far(i) ? nf_far_ends[i].up.link.at - nf_far_ends[i].done.entries : 0;
    nf_dma_close(&nf_dma_engine);
    __atomic_store_n(&nf_far_shared->done, 1, __ATOMIC_RELEASE);
}

#endif
