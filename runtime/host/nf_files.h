/* SPDX-License-Identifier: 0BSD
 *
 * nf_files.h (host) - what a process reads and writes beside ports, all little-endian and without padding:
 *
 * --nf-events FILE   input events instead of ports: { u64 now; u64 seed; u32 host; u32 port; u32 size; u32 zero; }
 * bytes
 * --nf-fill FILE     table entries before the run: { u32 table; u32 detail; u32 buf_size; u32 worker; } key, mask,
 * value, buf (detail: prefix bits or priority; every worker's own table gets every entry)
 * --nf-tables FILE   all entries after the run, in the same form
 * --nf-outputs FILE  built with NF_VERIFY=1: { u32 worker; u32 zero; u64 size; } per worker, then size bytes of
 *                    { u64 sequence; u64 number; u32 kind; u32 size; } bytes
 * --nf-stats FILE    counters, a line each: name, space, value
 * --nf-limit N       stop after N packets; --nf-frame N: longest frame
 * --nf-ports N       there must be N ports
 * --nf-report 1      once a second a line on standard output: packets received, sent, dropped, lost
 * --nf-far FILE      the queues to a process that has the stages of the host; --nf-host 1: this is that process (dpdk)
 * --nf-in-turn 1     an event is let in when all before it are done
 * --nf-halt W:N      worker W ends behind its first N events, as if it had died: for tests of what is counted then
 */
#ifndef NF_FILES_H
#define NF_FILES_H

static const u8 *nf_events_at, *nf_events_end;
static u64 nf_limit;
static u32 nf_frame, nf_ports_wanted, nf_halt_worker = UINT32_MAX;
static u64 nf_halt_after;
static bool nf_reports;
/* One event after the other: what finds a table full is then as in the interpreter. */
static bool nf_in_turn;
static const char *nf_far_path;
#if !defined(NF_SPLIT) || !NF_SPLIT
static bool nf_far_role;
#endif
static const char *nf_fill_path, *nf_tables_path, *nf_outputs_path, *nf_stats_path;

struct nf_event_head {
    u64 now;
    u64 seed;
    u32 host;
    u32 port;
    u32 size;
    u32 zero;
};

struct nf_entry_head {
    u32 table;
    u32 detail;
    u32 buf_size;
    u32 worker;
};

/* A whole file in memory; null if it cannot be read. */
static u8 *nf_read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    u8 *bytes = NULL;
    *size = 0;
    if (file && fseek(file, 0, SEEK_END) == 0) {
        long length = ftell(file);
        rewind(file);
        bytes = length >= 0 ? malloc((size_t)length + 1) : NULL;
        if (bytes && fread(bytes, 1, (size_t)length, file) == (size_t)length)
            *size = (size_t)length;
    }
    if (file)
        fclose(file);
    if (!bytes)
        fprintf(stderr, "nicforge: %s: cannot be read\n", path);
    return bytes;
}

static bool nf_options(int argc, char **argv)
{
    const char *events = NULL, *limit = NULL, *frame = NULL, *ports = NULL, *report = NULL, *halt = NULL, *role = NULL,
               *turn = NULL;
    struct {
        const char *name;
        const char **value;
    } options[] = {{"--nf-events", &events},         {"--nf-fill", &nf_fill_path},
                   {"--nf-tables", &nf_tables_path}, {"--nf-outputs", &nf_outputs_path},
                   {"--nf-stats", &nf_stats_path},   {"--nf-limit", &limit},
                   {"--nf-frame", &frame},           {"--nf-ports", &ports},
                   {"--nf-report", &report},         {"--nf-halt", &halt},
                   {"--nf-far", &nf_far_path},       {"--nf-host", &role},
                   {"--nf-in-turn", &turn}};
    for (int i = 1; i < argc; i += 2) {
        bool known = false;
        for (size_t o = 0; o < sizeof(options) / sizeof(options[0]); o++)
            if (strcmp(argv[i], options[o].name) == 0 && i + 1 < argc) {
                *options[o].value = argv[i + 1];
                known = true;
            }
        if (!known) {
            fprintf(stderr, "nicforge: option %s is unknown or has no value\n", argv[i]);
            return false;
        }
    }
    nf_limit = limit ? strtoull(limit, NULL, 10) : 0;
    nf_frame = frame ? (u32)strtoul(frame, NULL, 10) : 0;
    nf_ports_wanted = ports ? (u32)strtoul(ports, NULL, 10) : 0;
    nf_reports = report && strcmp(report, "0") != 0;
    nf_in_turn = turn && strcmp(turn, "0") != 0;
    nf_far_role = role && strcmp(role, "0") != 0;
    if (halt) {
        char *after = NULL;
        nf_halt_worker = (u32)strtoul(halt, &after, 10);
        nf_halt_after = *after == ':' ? strtoull(after + 1, NULL, 10) : 0;
    }
    if (events) {
        size_t size;
        nf_events_at = nf_read_file(events, &size);
        nf_events_end = nf_events_at + size;
        return nf_events_at != NULL;
    }
    return true;
}

/* Workers whose tables are their own, for one table: all of them, or the first. */
static u32 nf_owners(u32 table) { return nf_sharded[table] ? NF_WORKERS : 1; }

/* Entries that one owner's part of a table must have space for. Parts of which all together hold what the table may
 * hold each begin with all entries of the file: what one deletes, another may put in. */
static u32 nf_part_capacity(u32 table)
{
    u32 capacity = nf_table_specs[table].capacity;
    return nf_one_room[table] && nf_fill_path && capacity <= UINT32_MAX / 2 ? 2 * capacity : capacity;
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
            fprintf(stderr, "nicforge: table %s is full: its capacity is %u\n", nf_table_specs[t].name, capacity);
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

static bool nf_fill_tables(void)
{
    size_t size;
    u8 *bytes = nf_fill_path ? nf_read_file(nf_fill_path, &size) : NULL;
    if (!bytes)
        return !nf_fill_path && nf_share_room();
    bool ok = true;
    for (u8 *at = bytes; ok && at < bytes + size;) {
        struct nf_entry_head head;
        memcpy(&head, at, sizeof(head));
        const struct nf_table_spec *spec = &nf_table_specs[head.table];
        const u8 *key = at + sizeof(head), *mask = key + spec->key_size, *value = mask + spec->key_size;
        for (u32 w = 0; ok && w < nf_owners(head.table); w++) {
            u8 *entry = nf_table_put(nf_workers[w]->tables[head.table], key, mask, head.detail);
            ok = entry != NULL;
            if (!ok) {
                fprintf(stderr, "nicforge: table %s is full: its capacity is %u\n", spec->name, spec->capacity);
                break;
            }
            memcpy(entry, value, spec->value_size);
            if (spec->buf_capacity) {
                memcpy(entry + spec->len_at, &head.buf_size, sizeof(head.buf_size));
                memcpy(entry + spec->len_at + 4, value + spec->value_size, head.buf_size);
            }
        }
        at = (u8 *)(uintptr_t)value + spec->value_size + head.buf_size;
    }
    free(bytes);
    return ok && nf_share_room();
}

static void nf_write_entry(FILE *file, u32 t, u32 worker, const void *key, const void *mask, u32 detail, u8 *value)
{
    static const u8 none[256];
    const struct nf_table_spec *spec = &nf_table_specs[t];
    struct nf_entry_head head = {t, detail, 0, worker};
    if (spec->buf_capacity)
        memcpy(&head.buf_size, value + spec->len_at, sizeof(head.buf_size));
    fwrite(&head, sizeof(head), 1, file);
    fwrite(key, 1, spec->key_size, file);
    fwrite(mask ? mask : none, 1, spec->key_size, file);
    fwrite(value, 1, spec->value_size, file);
    fwrite(value + spec->len_at + 4, 1, head.buf_size, file);
}

static void nf_write_table(FILE *file, u32 t, u32 worker)
{
    struct nf_table *table = nf_workers[worker]->tables[t];
    u32 at = 0, key_size = table->key_size;
    if (table->kind == NF_ARRAY) {
        for (u32 i = 0; i < table->capacity; i++)
            nf_write_entry(file, t, worker, &i, NULL, 0, nf_array_find(table, i));
        return;
    }
    for (struct nf_entry *entry; (entry = nf_table_next(table, &at));) {
        const u8 *key = nf_table_key(entry), *mask = table->kind == NF_TERNARY ? key + key_size : NULL;
        nf_write_entry(file, t, worker, key, mask, nf_table_detail(entry), nf_table_value(table, entry));
    }
}

static void nf_write_stats(FILE *file)
{
    for (u32 i = 0; i <= NF_WORKERS; i++) {
        const struct nf_worker *w = nf_workers[i];
        const struct nf_stats *stats = &w->stats;
        fprintf(file, "worker.%u.stage %d\n", i, i == NF_IO ? -1 : (int)w->stage);
        fprintf(file, "worker.%u.events %lu\nworker.%u.cycles %lu\n", i, stats->events, i, stats->cycles);
        fprintf(file, "worker.%u.empty_polls %lu\nworker.%u.depth %lu\n", i, stats->empty_polls, i, stats->depth);
        fprintf(file, "worker.%u.full %lu\nworker.%u.lost %lu\n", i, stats->full, i, stats->lost + w->log.lost);
        fprintf(file, "worker.%u.tx_failed %lu\n", i, stats->tx_failed);
        for (u32 reason = 0; reason < NF_REASONS; reason++)
            fprintf(file, "worker.%u.drop.%u %lu\n", i, reason, stats->drops[reason]);
        for (u32 t = 0; t < nf_table_count; t++)
            if (i < nf_owners(t))
                fprintf(file, "worker.%u.refused.%u %lu\nworker.%u.evicted.%u %lu\n", i, t,
                        nf_table_refused(w->tables[t]), i, t, nf_table_evicted(w->tables[t]));
    }
    for (u32 port = 0; port < NF_MAX_PORTS; port++)
        fprintf(file, "sent.%u %lu\n", port, nf_sent[port]);
    fprintf(file, "received %lu\nstack %lu\nhost %lu\n", nf_received, nf_to_stack, nf_to_host);
    fprintf(file, "no_port %lu\ntsc_hz %lu\n", nf_no_port, nf_hz());
#ifdef NF_MORE_STATS
    NF_MORE_STATS(file);
#endif
}

static FILE *nf_create(const char *path)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        fprintf(stderr, "nicforge: %s: cannot be written\n", path);
    return file;
}

static bool nf_write_results(void)
{
    bool ok = true;
    FILE *file = nf_stats_path ? nf_create(nf_stats_path) : NULL;
    if (file) {
        nf_write_stats(file);
        ok = fclose(file) == 0;
    }
    file = nf_tables_path ? nf_create(nf_tables_path) : NULL;
    if (file) {
        for (u32 t = 0; t < nf_table_count; t++)
            for (u32 w = 0; w < nf_owners(t) && (!nf_far_path || nf_host_tables[t] == nf_far_role); w++)
                nf_write_table(file, t, w);
        ok = fclose(file) == 0 && ok;
    }
    file = nf_outputs_path ? nf_create(nf_outputs_path) : NULL;
    if (file) {
        for (u32 i = 0; i <= NF_WORKERS; i++) {
            const struct nf_bytes *log = &nf_workers[i]->log;
            u64 head[2] = {i, log->size};
            fwrite(head, sizeof(head), 1, file);
            fwrite(log->at, 1, log->size, file);
        }
        ok = fclose(file) == 0 && ok;
    }
    return ok;
}

#endif
