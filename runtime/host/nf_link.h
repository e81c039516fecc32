/* SPDX-License-Identifier: 0BSD
 *
 * nf_link.h - queues between NIC and host in memory of the host.
 *
 * A queue is a circle of entries of a fixed size. Who an entry belongs to is said in the entry
 * itself, so one transfer moves data and status:
 *
 *     turn = 4 * laps + state      laps: how often the entry has been through all states (zeroed
 * memory is lap 0) 0 free -> 1 full -> 2 taken -> 0 free, next lap (who copies an entry out at once
 * leaves 2 out)
 *
 * Positions are private to each end. They need not be saved: a producer's is the number of times
 * entries have been filled, a consumer's the number of times they have been freed, both sums over
 * all turns (nf_link_attach). So an end that dies can be started again: what was taken and not
 * released is counted as lost and freed; nothing else is lost, nothing comes twice.
 *
 * Every 64-byte line of an entry begins with the turn it was written in. An end that is reached by
 * DMA or reads by it may see the lines of an entry in any order; an entry is there when all its
 * lines are. That needs lines that are not torn themselves: 64 aligned bytes of PCIe writes to
 * memory on x86 and Arm servers. Threads and processes that share memory see whole entries anyway,
 * so their ends do without (NF_LINK_PLAIN): then only the first line has a turn, and payload is
 * contiguous and can be used in place.
 *
 * The far end (nf_link_far.h) has a copy of the circle and moves runs of entries by DMA. What goes
 * back are credits: each end writes the number of entries it has freed to one word of the queue's
 * head, and a far consumer frees none in place.
 *
 * One producer and one consumer per queue: a core that shares no queue needs no lock. Many
 * producers are as many queues (instances). Channels are logical: a number with each entry; order
 * is kept over all channels of a queue.
 */
#ifndef NF_LINK_H
#define NF_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define NF_LINK_LINE 64
/* Of an entry's payload: in the first line, and in each other. */
#define NF_LINK_FIRST (NF_LINK_LINE - 8)
#define NF_LINK_OTHER (NF_LINK_LINE - 4)

/* Bytes that a consumer asks for ahead; 256 and 384 gain less (bench --bin link). */
#define NF_LINK_AHEAD 512

enum nf_link_state { NF_LINK_FREE, NF_LINK_FULL, NF_LINK_TAKEN };

/* The other end is far and lines are marked, or entries are contiguous. */
enum nf_link_form { NF_LINK_LINES, NF_LINK_PLAIN };

/* The first bytes of an entry. */
struct nf_link_head {
    uint32_t turn;
    uint16_t length;
    uint8_t channel;
    uint8_t spare;
};

/* In front of the entries, a line for each writer. */
struct nf_link_shared {
    /* Entries that a near consumer has freed: credits for a far producer. */
    uint64_t near_done;
    uint8_t spare_0[NF_LINK_LINE - 8];
    /* Entries that a far consumer has freed, written by DMA: credits for a near producer. */
    uint64_t far_done;
    uint8_t spare_1[NF_LINK_LINE - 8];
};

/* One end. */
struct nf_link {
    struct nf_link_shared *shared;
    uint8_t *entries;
    /* A power of two, and bytes of each: 16 to 64 KiB, a multiple of 64, or of 8 where the form is
     * plain. */
    uint32_t count;
    uint32_t entry_bytes;
    /* 1 << shift == count: turns are found without a division. */
    uint32_t shift;
    enum nf_link_form form;
    /* Next entry to fill, or to take; entries taken before it that are not released. */
    uint64_t at;
    uint32_t held;
    /* Seen since it was attached: no room, or entries of an end that died. */
    uint64_t full;
    uint64_t lost;
};

/* Longest payload of an entry. */
static inline uint32_t nf_link_room(const struct nf_link *link)
{
    uint32_t lines = link->entry_bytes / NF_LINK_LINE;
    return link->form == NF_LINK_PLAIN ? link->entry_bytes - 8
                                       : NF_LINK_FIRST + (lines - 1) * NF_LINK_OTHER;
}

/* Bytes of memory, aligned to 64 and zeroed before its first use, that a queue needs; 0 if there
 * can be none like it.
 */
static inline size_t nf_link_bytes(uint32_t count, uint32_t entry_bytes, enum nf_link_form form)
{
    uint32_t step = form == NF_LINK_PLAIN ? 8 : NF_LINK_LINE;
    if (count < 2 || (count & (count - 1)) || entry_bytes < 16 || entry_bytes % step ||
        entry_bytes > 65536)
        return 0;
    return sizeof(struct nf_link_shared) + (size_t)count * entry_bytes;
}

static inline uint8_t *nf_link_entry(const struct nf_link *link, uint64_t at)
{
    return link->entries + (size_t)(at & (link->count - 1)) * link->entry_bytes;
}

/* What an entry's turn is in the lap of position `at`, in a state. */
static inline uint32_t nf_link_turn(const struct nf_link *link, uint64_t at,
                                    enum nf_link_state state)
{
    return (uint32_t)(at >> link->shift) * 4 + state;
}

static inline uint32_t nf_link_load(const void *turn)
{
    return __atomic_load_n((const uint32_t *)turn, __ATOMIC_ACQUIRE);
}
static inline void nf_link_store(void *turn, uint32_t value)
{
    __atomic_store_n((uint32_t *)turn, value, __ATOMIC_RELEASE);
}

/* An end on memory of nf_link_bytes, new or used before. The positions come from the entries; a
 * consumer frees what the one before it had taken, and counts it in `lost`. False if there can be
 * no such queue. */
static inline bool nf_link_attach(struct nf_link *link, void *memory, uint32_t count,
                                  uint32_t entry_bytes, enum nf_link_form form, bool consumer)
{
    if (!nf_link_bytes(count, entry_bytes, form))
        return false;
    *link = (struct nf_link){.shared = (struct nf_link_shared *)memory,
                             .count = count,
                             .entry_bytes = entry_bytes,
                             .form = form};
    link->shift = (uint32_t)__builtin_ctz(count);
    link->entries = (uint8_t *)memory + sizeof(struct nf_link_shared);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *entry = nf_link_entry(link, i);
        uint32_t turn = nf_link_load(entry);
        if (consumer && turn % 4 == NF_LINK_TAKEN) {
            turn = turn / 4 * 4 + 4;
            nf_link_store(entry, turn);
            link->lost++;
        }
        link->at += turn / 4 + (!consumer && turn % 4 != NF_LINK_FREE);
    }
    if (consumer)
        __atomic_store_n(&link->shared->near_done, link->at, __ATOMIC_RELEASE);
    return true;
}

/* ---- Producer
 * ---------------------------------------------------------------------------------------------- */

/* The next entry, if it is free; its payload is in place only where the form is plain. */
static inline uint8_t *nf_link_reserve(struct nf_link *link)
{
    uint8_t *entry = nf_link_entry(link, link->at);
    bool free =
        link->form == NF_LINK_PLAIN
            ? nf_link_load(entry) == nf_link_turn(link, link->at, NF_LINK_FREE)
            : link->at - __atomic_load_n(&link->shared->far_done, __ATOMIC_ACQUIRE) < link->count;
    if (free)
        return entry;
    link->full++;
    return NULL;
}

/* Copies payload behind the turns of an entry's lines, and the turns of all lines but the first. */
static inline void nf_link_spread(uint8_t *entry, const void *bytes, uint32_t length, uint32_t turn)
{
    const uint8_t *from = (const uint8_t *)bytes;
    uint32_t part = length < NF_LINK_FIRST ? length : NF_LINK_FIRST;
    memcpy(entry + 8, from, part);
    for (uint32_t done = part; done < length; done += part) {
        entry += NF_LINK_LINE;
        part = length - done < NF_LINK_OTHER ? length - done : NF_LINK_OTHER;
        memcpy(entry + 4, from + done, part);
        /* Read by DMA, it must not be seen before the line's bytes. */
        nf_link_store(entry, turn);
    }
}

/* Hands over the entry that was reserved, whose payload is in place. */
static inline void nf_link_submit(struct nf_link *link, uint8_t channel, uint16_t length)
{
    uint8_t *entry = nf_link_entry(link, link->at);
    struct nf_link_head head = {nf_link_turn(link, link->at, NF_LINK_FULL), length, channel, 0};
    uint64_t word;
    memcpy(&word, &head, 8);
    link->at++;
    __atomic_store_n((uint64_t *)entry, word, __ATOMIC_RELEASE);
}

/* Puts bytes into the queue; false if it is full. At most nf_link_room. */
static inline bool nf_link_put(struct nf_link *link, uint8_t channel, const void *bytes,
                               uint32_t length)
{
    uint8_t *entry = nf_link_reserve(link);
    if (!entry)
        return false;
    if (link->form == NF_LINK_PLAIN)
        memcpy(entry + 8, bytes, length);
    else
        nf_link_spread(entry, bytes, length, nf_link_turn(link, link->at, NF_LINK_FULL));
    nf_link_submit(link, channel, (uint16_t)length);
    return true;
}

/* ---- Consumer
 * ---------------------------------------------------------------------------------------------- */

/* Lines that an entry's payload takes. */
static inline uint32_t nf_link_lines(uint32_t length)
{
    return length <= NF_LINK_FIRST
               ? 1
               : 1 + (length - NF_LINK_FIRST + NF_LINK_OTHER - 1) / NF_LINK_OTHER;
}

/* Whether an entry's lines are all of this turn. A head that is no head of this queue gives false.
 */
static inline bool nf_link_whole(const struct nf_link *link, const uint8_t *entry, uint32_t turn,
                                 struct nf_link_head *head)
{
    uint64_t word = __atomic_load_n((const uint64_t *)entry, __ATOMIC_ACQUIRE);
    memcpy(head, &word, 8);
    if (head->turn != turn || head->length > nf_link_room(link))
        return false;
    uint32_t lines = link->form == NF_LINK_PLAIN ? 1 : nf_link_lines(head->length);
    for (uint32_t i = 1; i < lines; i++)
        if (nf_link_load(entry + i * NF_LINK_LINE) != turn)
            return false;
    return true;
}

/* Takes the next entry: it stays in place until it is released. NULL if none is there. Several may
 * be taken. */
static inline uint8_t *nf_link_take(struct nf_link *link, struct nf_link_head *head)
{
    uint8_t *entry = nf_link_entry(link, link->at);
    if (link->held == link->count ||
        !nf_link_whole(link, entry, nf_link_turn(link, link->at, NF_LINK_FULL), head))
        return NULL;
    nf_link_store(entry, nf_link_turn(link, link->at, NF_LINK_TAKEN));
    link->at++;
    link->held++;
    return entry;
}

/* Gives the oldest entry that was taken back. */
static inline void nf_link_release(struct nf_link *link)
{
    uint64_t oldest = link->at - link->held;
    nf_link_store(nf_link_entry(link, oldest),
                  nf_link_turn(link, oldest + link->count, NF_LINK_FREE));
    link->held--;
    if (link->form == NF_LINK_LINES)
        __atomic_store_n(&link->shared->near_done, oldest + 1, __ATOMIC_RELEASE);
}

/* Copies the payload of an entry that was taken. */
static inline void nf_link_gather(const struct nf_link *link, const uint8_t *entry, uint32_t length,
                                  void *bytes)
{
    uint8_t *to = (uint8_t *)bytes;
    if (link->form == NF_LINK_PLAIN) {
        memcpy(to, entry + 8, length);
        return;
    }
    uint32_t part = length < NF_LINK_FIRST ? length : NF_LINK_FIRST;
    memcpy(to, entry + 8, part);
    for (uint32_t done = part; done < length; done += part) {
        entry += NF_LINK_LINE;
        part = length - done < NF_LINK_OTHER ? length - done : NF_LINK_OTHER;
        memcpy(to + done, entry + 4, part);
    }
}

/* Takes, copies and releases the next entry, where none is taken: the payload's length and channel,
 * or false if nothing is there. It is free again only when it was copied, so it need not be marked
 * as taken before: if this end dies in between, nobody had the entry, and the next one gets it. */
static inline bool nf_link_get(struct nf_link *link, uint8_t *channel, void *bytes,
                               uint32_t *length)
{
    struct nf_link_head head;
    uint64_t at = link->at;
    uint8_t *entry = nf_link_entry(link, at);
    uint32_t turn = nf_link_turn(link, at, NF_LINK_FULL);
    if (link->held || !nf_link_whole(link, entry, turn, &head))
        return false;
    /* Entries to come, to be freed: a line that is only read at first has to be asked for twice. */
    __builtin_prefetch((const void *)((uintptr_t)entry + NF_LINK_AHEAD), 1);
    nf_link_gather(link, entry, head.length, bytes);
    *channel = head.channel;
    *length = head.length;
    link->at = at + 1;
    /* Free, in the next lap. */
    nf_link_store(entry, turn - NF_LINK_FULL + 4);
    if (link->form == NF_LINK_LINES)
        __atomic_store_n(&link->shared->near_done, at + 1, __ATOMIC_RELEASE);
    return true;
}

#endif
