/* SPDX-License-Identifier: 0BSD
 *
 * nf_far.h (dpdk) - an application as two processes: stages that are pinned to the host run in one of their own. A part of
 * nf_main.h.
 *
 * Both are the same executable. Each worker of a host stage has two queues in a file that both map (nf_link.h, plain form): up to it and
 * down from it. In the NIC's process its lcore only hands over: what its rings bring goes up, what comes down goes to the receiver's ring. So
 * order, progress and the closed loop are as with any other worker: what was handed over is done when the other end has freed its entry, and
 * what it led to is down before that.
 *
 * A host process that dies is started again by whoever started it. It finds the queues as they are; what it had taken is counted as lost, and
 * its tables begin anew. Counters lie in the file, so they go on; what an event counted just before its process died is counted twice then.
 */
#ifndef NF_DPDK_FAR_H
#define NF_DPDK_FAR_H

#include "nf_link.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define NF_FAR_ENTRIES 1024u
#define NF_FAR_READY 0x6e69636672676531u

struct nf_far_shared {
    u64 ready;
    u64 done;
    struct nf_stats stats[NF_WORKERS];
};

struct nf_far_message {
    struct nf_carried carried;
    u32 to;
    u32 size;
    u32 packet;
    u32 spare;
};

struct nf_far_ends {
    struct nf_link up;
    struct nf_link down;
    /* Of the NIC's end: numbers of what was handed over, and how many of those entries are free again. */
    u64 sequences[NF_FAR_ENTRIES];
    u64 freed;
};

static struct nf_far_shared *nf_far_shared;
static struct nf_far_ends nf_far_ends[NF_WORKERS];

static inline bool nf_is_far(u32 worker) { return worker != NF_IO && nf_host_stages[nf_workers[worker]->stage]; }

/* Maps the file and takes this process's ends of all queues. The NIC's process makes it, the host's waits for it. */
static bool nf_far_open(u32 longest)
{
    u32 entry = (u32)RTE_ALIGN(8 + sizeof(struct nf_far_message) + longest + NF_ROOM, 64);
    entry = entry > 65536 ? 65536 : entry;
    size_t head = RTE_ALIGN(sizeof(struct nf_far_shared), 64);
    size_t link = RTE_ALIGN(nf_link_bytes(NF_FAR_ENTRIES, entry, NF_LINK_PLAIN), 64);
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
    while (nf_far_role && !nf_stop && __atomic_load_n(&nf_far_shared->ready, __ATOMIC_ACQUIRE) != NF_FAR_READY)
        usleep(1000);
    for (u32 i = 0; i < NF_WORKERS; i++) {
        struct nf_far_ends *ends = &nf_far_ends[i];
        u8 *at = memory + head + 2 * i * link;
        if (!nf_link_attach(&ends->up, at, NF_FAR_ENTRIES, entry, NF_LINK_PLAIN, nf_far_role) ||
            !nf_link_attach(&ends->down, at + link, NF_FAR_ENTRIES, entry, NF_LINK_PLAIN, !nf_far_role))
            return false;
        if (nf_far_role) {
            nf_workers[i]->stats = nf_far_shared->stats[i];
            nf_workers[i]->stats.lost += ends->up.lost;
            nf_far_shared->stats[i].lost += ends->up.lost;
        }
    }
    __atomic_store_n(&nf_far_shared->ready, NF_FAR_READY, __ATOMIC_RELEASE);
    return true;
}

/* Copies an event for worker `to` into a free entry; the mbuf goes. */
static void nf_far_put(struct nf_worker *w, struct nf_link *link, u32 to, struct rte_mbuf *m)
{
    struct nf_far_message *message = (struct nf_far_message *)(nf_link_entry(link, link->at) + 8);
    u32 size = m->pool == nf_pool ? rte_pktmbuf_data_len(m) : 0;
    if (sizeof(*message) + size > nf_link_room(link)) {
        w->stats.lost++;
        rte_pktmbuf_free(m);
        return;
    }
    struct nf_carried *carried = rte_mbuf_to_priv(m);
    message->carried = *carried;
    message->to = to;
    message->packet = m->pool == nf_pool;
    /* Where the packet is among the parameters is a place of this process. */
    const u8 *data = rte_pktmbuf_mtod(m, const u8 *);
    if (carried->fate == NF_EVENT && message->packet) {
        data = carried->pkt.data;
        size = (u32)(carried->pkt.end - carried->pkt.data);
    }
    message->size = size;
    memcpy(message + 1, data, size);
    nf_link_submit(link, 0, (uint16_t)(sizeof(*message) + size));
    rte_pktmbuf_free(m);
}

/* Makes an event of an entry that was taken; null if there is no memory. */
static struct rte_mbuf *nf_far_get(const u8 *entry, u32 *to)
{
    const struct nf_far_message *message = (const struct nf_far_message *)(entry + 8);
    struct rte_mbuf *m = rte_pktmbuf_alloc(message->packet ? nf_pool : nf_event_pool);
    if (!m)
        return NULL;
    struct nf_carried *carried = rte_mbuf_to_priv(m);
    *carried = message->carried;
    *to = message->to;
    if (!message->packet)
        return m;
    /* Room in front for headers that the handler puts there. */
    rte_pktmbuf_reset(m);
    void *bytes = rte_pktmbuf_append(m, (u16)message->size);
    if (!bytes) {
        rte_pktmbuf_free(m);
        return NULL;
    }
    memcpy(bytes, message + 1, message->size);
    if (carried->fate != NF_EVENT)
        return m;
    struct nf_packet *pkt = &carried->pkt;
    u32 cursor = pkt->cursor, staged = pkt->staged_len;
    nf_packet_from(pkt, m, pkt->in_port);
    pkt->cursor = cursor;
    pkt->staged_len = staged;
    memcpy(carried->params + nf_packet_at[carried->event], &pkt, sizeof(pkt));
    return m;
}

/* What a worker of the host's process sends goes down, whoever gets it. */
static void nf_far_send(struct nf_worker *w, u32 to, struct rte_mbuf *m)
{
    struct nf_link *down = &nf_far_ends[w->number].down;
    while (!nf_link_reserve(down)) {
        w->stats.full++;
        if (nf_done) {
            w->stats.lost++;
            rte_pktmbuf_free(m);
            return;
        }
        sched_yield();
    }
    nf_far_put(w, down, to, m);
}

/* In the NIC's process: hands over. */
static int nf_far_bridge(void *argument)
{
    struct nf_worker *w = argument;
    struct nf_far_ends *ends = &nf_far_ends[w->number];
    bool ordered = nf_stages[w->stage].ordered;
    while (!nf_done) {
        u64 through = 0;
        u32 count = 0, to = 0;
        struct nf_link *up = &ends->up;
        /* What is free now is done, and what it led to is down. */
        while (ends->freed < up->at && nf_link_load(nf_link_entry(up, ends->freed)) ==
                                           nf_link_turn(up, ends->freed + NF_FAR_ENTRIES, NF_LINK_FREE))
            ends->freed++;
        struct nf_link_head head;
        const u8 *entry;
        for (; count < NF_FAR_ENTRIES && (entry = nf_link_take(&ends->down, &head)); count++) {
            struct rte_mbuf *m = nf_far_get(entry, &to);
            nf_link_release(&ends->down);
            if (m && to <= NF_WORKERS && nf_rings[w->number][to])
                nf_queue_to(w, to, m);
            else
                w->stats.lost++;
        }
        nf_flush_all(w);
        struct rte_mbuf *m = NULL;
        bool room = false;
        for (u32 i = 0; i < NF_BURST && (room = nf_link_reserve(up)) && (m = nf_next(w, ordered, &through)); i++) {
            ends->sequences[up->at % NF_FAR_ENTRIES] = nf_sequence_of(m);
            nf_far_put(w, up, w->number, m);
            count++;
        }
        u64 progress = 0;
        if (ends->freed < up->at)
            progress = ordered ? ends->sequences[ends->freed % NF_FAR_ENTRIES] : 0;
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
    struct nf_link *up = &nf_far_ends[w->number].up;
    while (!nf_done) {
        u64 start = rte_rdtsc();
        u32 count = 0, to = 0;
        struct nf_link_head head;
        const u8 *entry;
        for (; count < NF_BURST && (entry = nf_link_take(up, &head)); count++) {
            struct rte_mbuf *m = nf_far_get(entry, &to);
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

/* The run is over: what is still handed over and not done is stranded. */
static void nf_far_end(void)
{
    nf_far_stats();
    for (u32 i = 0; i < NF_WORKERS; i++)
        nf_stranded += nf_is_far(i) ? nf_far_ends[i].up.at - nf_far_ends[i].freed : 0;
    __atomic_store_n(&nf_far_shared->done, 1, __ATOMIC_RELEASE);
}

#endif
