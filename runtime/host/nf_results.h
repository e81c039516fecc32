/* SPDX-License-Identifier: 0BSD
 *
 * nf_results.h (host) - input events, entries of tables before and after a run, and counters,
 * whatever carries them: files (nf_files.h) or lines (runtime/threads/nf_lines.h), which have
 * nf_filled and nf_is_full before.
 */
#ifndef NF_RESULTS_H
#define NF_RESULTS_H

#include "nf_abi.h"

/* In front of an input event's bytes; little-endian, without padding. */
struct nf_event_head {
    u64 now;
    u64 seed;
    /* NF_IN_PACKET and so on. */
    u32 kind;
    /* Of a packet; of a tick the number of its timer's event. */
    u32 port;
    u32 size;
    u32 zero;
};

/* The event that an input is; none of the program's (NF_EVENTS or more) if no handler takes it. */
static inline u32 nf_event_of(const struct nf_event_head *head)
{
    return head->kind == NF_IN_TICK      ? head->port
           : head->kind == NF_IN_MESSAGE ? NF_MESSAGE
                                         : NF_ENTRY;
}

/* In front of an entry's key, mask, value and byte string. */
struct nf_entry_head {
    u32 table;
    /* Bits of a prefix, or a priority. */
    u32 detail;
    u32 buf_size;
    u32 worker;
};

/* Workers whose tables are their own, for one table: all of them, or the first. */
static u32 nf_owners(u32 table) { return nf_sharded[table] ? NF_WORKERS : 1; }

/* Entries that one owner's part of a table must have space for. Parts of which all together hold
 * what the table may hold each begin with all entries given: what one deletes, another may put in.
 */
static u32 nf_part_capacity(u32 table)
{
    u32 capacity = nf_table_specs[table].capacity;
    return nf_one_room[table] && nf_filled && capacity <= UINT32_MAX / 2 ? 2 * capacity : capacity;
}

#ifndef NFP_CHIP_H
/* From now on parts of a table that hold together what it may hold take places from each other. */
static bool nf_share_room(void)
{
    static u32 rooms[NF_TABLES + 1];
    for (u32 t = 0; t < NF_TABLES; t++) {
        u32 filled = nf_workers[0]->tables[t]->count, capacity = nf_table_specs[t].capacity;
        if (!nf_one_room[t])
            continue;
        if (filled > capacity) {
            nf_is_full(&nf_table_specs[t]);
            return false;
        }
        rooms[t] = capacity - filled;
        for (u32 w = 0; w < NF_WORKERS; w++)
            nf_workers[w]->tables[t]->room = &rooms[t];
    }
    return true;
}
#else
static bool nf_share_room(void) { return true; }
#endif

/* Puts entries into the tables of all their owners; false if a table is full. */
static bool nf_fill_from(const u8 *at, const u8 *end)
{
    while (at < end) {
        struct nf_entry_head head;
        memcpy(&head, at, sizeof(head));
        const struct nf_table_spec *spec = &nf_table_specs[head.table];
        const u8 *key = at + sizeof(head), *mask = key + spec->key_size,
                 *value = mask + spec->key_size;
        for (u32 w = 0; w < nf_owners(head.table); w++) {
            u8 *entry = nf_table_put(nf_workers[w]->tables[head.table], key, mask, head.detail);
            if (!entry) {
                nf_is_full(spec);
                return false;
            }
            memcpy(entry, value, spec->value_size);
            if (spec->buf_capacity) {
                memcpy(entry + spec->len_at, &head.buf_size, sizeof(head.buf_size));
                memcpy(entry + spec->len_at + 4, value + spec->value_size, head.buf_size);
            }
        }
        at = value + spec->value_size + head.buf_size;
    }
    return nf_share_room();
}

/* Takes one entry of a table; mask is null where every bit counts. */
typedef void nf_entry_taker(const struct nf_entry_head *head, const void *key, const void *mask,
                            const u8 *value);

static void nf_give_entry(nf_entry_taker *take, u32 t, u32 worker, const void *key,
                          const void *mask, u32 detail, const u8 *value)
{
    const struct nf_table_spec *spec = &nf_table_specs[t];
    struct nf_entry_head head = {t, detail, 0, worker};
    if (spec->buf_capacity)
        memcpy(&head.buf_size, value + spec->len_at, sizeof(head.buf_size));
    take(&head, key, mask, value);
}

/* Gives all entries of a worker's part of a table. */
static void nf_each_entry(u32 t, u32 worker, nf_entry_taker *take)
{
    struct nf_table *table = nf_workers[worker]->tables[t];
    u32 at = 0, key_size = table->key_size;
    if (table->kind == NF_ARRAY) {
        for (u32 i = 0; i < table->capacity; i++)
            nf_give_entry(take, t, worker, &i, NULL, 0, nf_array_find(table, i));
        return;
    }
    for (struct nf_entry *entry; (entry = nf_table_next(table, &at));) {
        const u8 *key = nf_table_key(entry),
                 *mask = table->kind == NF_TERNARY ? key + key_size : NULL;
        nf_give_entry(take, t, worker, key, mask, nf_table_detail(entry),
                      nf_table_value(table, entry));
    }
}

/* Takes a counter by name. */
typedef void nf_count_taker(const char *name, u64 value);

/* Gives a counter whose name has a number for each '#'. */
static void nf_count_of(nf_count_taker *take, const char *pattern, u32 first, u32 second, u64 value)
{
    char name[64], digits[24];
    size_t at = 0;
    u32 number = first;
    for (; *pattern; pattern++) {
        if (*pattern != '#') {
            name[at++] = *pattern;
            continue;
        }
        const char *from = nf_digits(digits + sizeof(digits), number);
        number = second;
        while (*from)
            name[at++] = *from++;
    }
    name[at] = '\0';
    take(name, value);
}

/* Gives all counters. */
static void nf_each_count(nf_count_taker *take)
{
    for (u32 i = 0; i <= NF_WORKERS; i++) {
        const struct nf_worker *w = nf_workers[i];
        const struct nf_stats *stats = &w->stats;
        if (i != NF_IO)
            nf_count_of(take, "worker.#.stage", i, 0, w->stage);
        nf_count_of(take, "worker.#.events", i, 0, stats->events);
        nf_count_of(take, "worker.#.cycles", i, 0, stats->cycles);
        nf_count_of(take, "worker.#.empty_polls", i, 0, stats->empty_polls);
        nf_count_of(take, "worker.#.depth", i, 0, stats->depth);
        nf_count_of(take, "worker.#.full", i, 0, stats->full);
        nf_count_of(take, "worker.#.lost", i, 0, stats->lost + w->log.lost);
        nf_count_of(take, "worker.#.tx_failed", i, 0, stats->tx_failed);
        for (u32 reason = 0; reason < NF_REASONS; reason++)
            nf_count_of(take, "worker.#.drop.#", i, reason, stats->drops[reason]);
        for (u32 t = 0; t < nf_table_count; t++)
            if (i < nf_owners(t)) {
                nf_count_of(take, "worker.#.refused.#", i, t, nf_table_refused(w->tables[t]));
                nf_count_of(take, "worker.#.evicted.#", i, t, nf_table_evicted(w->tables[t]));
            }
    }
    for (u32 port = 0; port < NF_MAX_PORTS; port++)
        nf_count_of(take, "sent.#", port, 0, nf_sent[port]);
    take("received", nf_received);
    take("stack", nf_to_stack);
    take("host", nf_to_host);
    take("no_port", nf_no_port);
    take("tsc_hz", nf_hz());
}

#endif
