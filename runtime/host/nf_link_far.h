/* SPDX-License-Identifier: 0BSD
 *
 * nf_link_far.h - the NIC's end of a queue in the host's memory (nf_link.h), over a DMA engine.
 *
 * The far end has a copy of the circle in its own memory. A producer fills entries there and a DMA
 * write takes a run of them across, data and status in one command; a consumer reads runs of
 * entries ahead and takes those of which all lines have come. Nobody waits for a command:
 * nf_link_far_poll starts what is due and looks at what is done, and is to be called again and
 * again.
 *
 * A consumer reads one entry while nothing comes, and twice as many each time that all were there,
 * up to `batch`.
 *
 * When a run is sent: at once if nothing is under way, so a lone entry does not wait; when `batch`
 * entries have gathered; or when the oldest has waited `deadline_ns`, whether or not anything comes
 * after it. So the slower the engine, the longer the runs.
 *
 * Of an entry a write takes the lines that its payload has, and a run of long entries that are
 * mostly empty is as many commands (NF_LINK_GAP). Reads ahead cannot know, and take whole entries.
 *
 * A run ends where the circle does. An entry is never under way twice: it is written again only
 * after the other end has freed it, and that it knows from a credit.
 */
#ifndef NF_LINK_FAR_H
#define NF_LINK_FAR_H

#include "nf_link.h"

/* A DMA engine, such as rte_dmadev; tests/link has a model of a bad one. */
struct nf_dma {
    /* Starts copying between the NIC's memory and the host's. *done becomes true when it has
     * arrived. False: too many are under way, nothing was started. */
    bool (*start)(struct nf_dma *dma, void *to, const void *from, uint32_t length, bool *done);
};

#define NF_LINK_COMMANDS 32
/* Bytes between what two entries have to say that one command takes along: about what a command of
 * its own costs, 40 ns at 50 Gbit/s. */
#define NF_LINK_GAP 256

struct nf_link_far {
    /* On the copy; its `shared` is the copy of the head. */
    struct nf_link link;
    struct nf_link_shared *host_shared;
    uint8_t *host_entries;
    struct nf_dma *dma;
    bool consumer;
    uint32_t batch;
    uint64_t deadline_ns;
    /* A producer asks for credits when more entries are not known to be free. */
    uint32_t owed;
    /* Of a consumer: entries that the next read is for (few while nothing comes), reads started,
     * and the last of them that found fewer.
     */
    uint32_t ahead;
    uint64_t asked, caught_up;
    /* Entries given to the engine; of a consumer: those that are here as a whole. */
    uint64_t through;
    /* Entries that the other end has freed; of a consumer: that it freed itself, and of which the
     * other end was told.
     */
    uint64_t freed;
    uint64_t told;
    /* When the oldest entry that waits was put in. */
    uint64_t since_ns;
    /* Runs under way, oldest first, and the transfer of the credit. */
    bool done[NF_LINK_COMMANDS];
    uint64_t ends[NF_LINK_COMMANDS];
    uint32_t first, running;
    bool credit_running, credit_done;
    uint64_t credit;
    /* Commands that were started, and entries and bytes in them. */
    uint64_t commands, moved, bytes;
};

/* A far end of the queue at host_memory, with zeroed memory of its own of the same size
 * (nf_link_bytes) for the copy. Both ends have to begin with a fresh queue. */
static inline bool nf_link_far_attach(struct nf_link_far *far, void *own_memory, void *host_memory,
                                      uint32_t count, uint32_t entry_bytes, bool consumer,
                                      struct nf_dma *dma)
{
    memset(far, 0, sizeof(*far));
    if (!nf_link_attach(&far->link, own_memory, count, entry_bytes, NF_LINK_LINES, false))
        return false;
    far->host_shared = (struct nf_link_shared *)host_memory;
    far->host_entries = (uint8_t *)host_memory + sizeof(struct nf_link_shared);
    far->dma = dma;
    far->consumer = consumer;
    far->batch = count / 8 ? count / 8 : 1;
    far->deadline_ns = 1000;
    far->owed = count / 2;
    far->ahead = 1;
    return true;
}

/* Entries of a run from `at` that ends before `end`, with the circle, or with `most`. */
static inline uint32_t nf_link_run(const struct nf_link_far *far, uint64_t at, uint64_t end,
                                   uint32_t most)
{
    uint64_t count = far->link.count - (at & (far->link.count - 1));
    count = end - at < count ? end - at : count;
    return (uint32_t)(count < most ? count : most);
}

static inline bool nf_link_start(struct nf_link_far *far, uint64_t at, uint32_t entries,
                                 uint32_t bytes)
{
    uint32_t slot = (far->first + far->running) % NF_LINK_COMMANDS;
    uint8_t *here = nf_link_entry(&far->link, at),
            *there = far->host_entries + (here - far->link.entries);
    if (far->running == NF_LINK_COMMANDS)
        return false;
    far->done[slot] = false;
    far->ends[slot] = at + entries;
    if (!far->dma->start(far->dma, far->consumer ? here : there, far->consumer ? there : here,
                         bytes, &far->done[slot]))
        return false;
    far->running++;
    far->commands++;
    far->moved += entries;
    far->bytes += bytes;
    return true;
}

static inline bool nf_link_credit(struct nf_link_far *far, void *to, const void *from)
{
    far->credit_done = false;
    far->credit_running = far->dma->start(far->dma, to, from, 8, &far->credit_done);
    return far->credit_running;
}

static inline bool nf_link_arrived(const bool *done)
{
    return __atomic_load_n(done, __ATOMIC_ACQUIRE);
}

/* ---- Producer
 * ---------------------------------------------------------------------------------------------- */

/* Whether the queue has room for an entry, as far as is known. */
static inline bool nf_link_far_room(const struct nf_link_far *far)
{
    return far->link.at - far->freed < far->link.count;
}

/* Puts bytes into the queue; false if it is full. */
static inline bool nf_link_far_put(struct nf_link_far *far, uint8_t channel, const void *bytes,
                                   uint32_t length, uint64_t now_ns)
{
    struct nf_link *link = &far->link;
    if (!nf_link_far_room(far)) {
        link->full++;
        return false;
    }
    uint32_t turn = nf_link_turn(link, link->at, NF_LINK_FULL);
    nf_link_spread(nf_link_entry(link, link->at), bytes, length, turn);
    if (link->at == far->through)
        far->since_ns = now_ns;
    nf_link_submit(link, channel, (uint16_t)length);
    return true;
}

/* Bytes of a command for the first entries of a run, and how many these are. */
static inline uint32_t nf_link_used(const struct nf_link_far *far, uint64_t at, uint32_t *run)
{
    uint32_t end = 0;
    for (uint32_t i = 0; i < *run; i++) {
        uint32_t begin = i * far->link.entry_bytes;
        if (begin > end + NF_LINK_GAP) {
            *run = i;
            break;
        }
        struct nf_link_head head;
        memcpy(&head, nf_link_entry(&far->link, at + i), sizeof(head));
        end = begin + nf_link_lines(head.length) * NF_LINK_LINE;
    }
    return end;
}

static inline void nf_link_far_send(struct nf_link_far *far, uint64_t now_ns)
{
    while (far->running && nf_link_arrived(&far->done[far->first])) {
        far->first = (far->first + 1) % NF_LINK_COMMANDS;
        far->running--;
    }
    uint64_t waiting = far->link.at - far->through;
    bool due = waiting >= far->batch || now_ns - far->since_ns >= far->deadline_ns || !far->running;
    while (waiting && due) {
        uint32_t run = nf_link_run(far, far->through, far->link.at, far->link.count);
        uint32_t bytes = nf_link_used(far, far->through, &run);
        if (!nf_link_start(far, far->through, run, bytes))
            break;
        far->through += run;
        waiting -= run;
        far->since_ns = now_ns;
    }
    if (far->credit_running && nf_link_arrived(&far->credit_done)) {
        far->credit_running = false;
        far->freed = far->credit;
    }
    if (!far->credit_running && far->link.at - far->freed > far->owed)
        nf_link_credit(far, &far->credit, &far->host_shared->near_done);
}

/* ---- Consumer
 * ---------------------------------------------------------------------------------------------- */

/* Takes the next entry, which stays in the copy until it is released; NULL if none is here. */
static inline uint8_t *nf_link_far_take(struct nf_link_far *far, struct nf_link_head *head)
{
    struct nf_link *link = &far->link;
    if (link->at == far->through)
        return NULL;
    uint8_t *entry = nf_link_entry(link, link->at++);
    memcpy(head, entry, sizeof(*head));
    link->held++;
    return entry;
}

static inline void nf_link_far_release(struct nf_link_far *far)
{
    far->link.held--;
    far->freed++;
}

/* Takes, copies and releases. */
static inline bool nf_link_far_get(struct nf_link_far *far, uint8_t *channel, void *bytes,
                                   uint32_t *length)
{
    struct nf_link_head head;
    const uint8_t *entry = nf_link_far_take(far, &head);
    if (!entry)
        return false;
    nf_link_gather(&far->link, entry, head.length, bytes);
    *channel = head.channel;
    *length = head.length;
    nf_link_far_release(far);
    return true;
}

static inline void nf_link_far_fetch(struct nf_link_far *far)
{
    struct nf_link_head head;
    /* One read at a time: the next one begins where the last one found nothing. */
    if (far->running && nf_link_arrived(&far->done[far->first])) {
        uint64_t end = far->ends[far->first];
        far->first = (far->first + 1) % NF_LINK_COMMANDS;
        far->running--;
        while (far->through < end) {
            uint32_t turn = nf_link_turn(&far->link, far->through, NF_LINK_FULL);
            if (!nf_link_whole(&far->link, nf_link_entry(&far->link, far->through), turn, &head))
                break;
            far->through++;
        }
        if (far->through < end)
            far->caught_up = far->asked;
        far->ahead = far->through < end            ? 1
                     : far->ahead * 2 < far->batch ? far->ahead * 2
                                                   : far->batch;
    }
    uint32_t run = nf_link_run(far, far->through, far->freed + far->link.count, far->ahead);
    if (!far->running && run && nf_link_start(far, far->through, run, run * far->link.entry_bytes))
        far->asked++;
    if (far->credit_running && nf_link_arrived(&far->credit_done)) {
        far->credit_running = false;
        far->told = far->credit;
    }
    /* A producer that waits for credits has filled the circle, so a batch will be freed. */
    if (!far->credit_running && far->freed - far->told >= far->batch) {
        far->credit = far->freed;
        nf_link_credit(far, &far->host_shared->far_done, &far->credit);
    }
}

/* Of two queues: what went up is done when the other end has freed it and what it led to is here.
 */
struct nf_link_done {
    uint64_t entries;
    /* Entries that were freed, and reads from below that had begun when that was known. */
    uint64_t credit, asked;
};

/* Looks again; all that is here of `down` must have been taken. The other end puts what an entry
 * led to down before it frees the entry, so a read that began after the credit came and found the
 * end has found all of it. */
static inline uint64_t nf_link_far_done(struct nf_link_done *done, const struct nf_link_far *up,
                                        const struct nf_link_far *down)
{
    if (done->credit > done->entries && down->caught_up > done->asked &&
        down->link.at == down->through)
        done->entries = done->credit;
    if (done->credit == done->entries && up->freed > done->credit) {
        done->credit = up->freed;
        done->asked = down->asked;
    }
    return done->entries;
}

/* Starts what is due and takes note of what is done. */
static inline void nf_link_far_poll(struct nf_link_far *far, uint64_t now_ns)
{
    if (far->consumer)
        nf_link_far_fetch(far);
    else
        nf_link_far_send(far, now_ns);
}

#endif
