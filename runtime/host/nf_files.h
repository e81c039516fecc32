/* SPDX-License-Identifier: 0BSD
 *
 * nf_files.h (host) - what a process reads and writes beside ports, all little-endian and without
 * padding:
 *
 * --nf-events FILE   input events instead of ports: { u64 now; u64 seed; u32 kind; u32 port; u32
 * size; u32 zero; } bytes
 * --nf-fill FILE     table entries before the run: { u32 table; u32 detail; u32 buf_size; u32
 * worker; } key, mask, value, buf (detail: prefix bits or priority; every worker's own table gets
 * every entry)
 * --nf-tables FILE   all entries after the run, in the same form
 * --nf-outputs FILE  built with NF_VERIFY=1: { u32 worker; u32 zero; u64 size; } per worker, then
 * size bytes of { u64 sequence; u64 number; u32 kind; u32 size; } bytes
 * --nf-stats FILE    counters, a line each: name, space, value
 * --nf-limit N       stop after N packets; --nf-frame N: longest frame
 * --nf-ports N       there must be N ports
 * --nf-report 1      once a second a line on standard output: packets received, sent, dropped, lost
 * --nf-far FILE      the queues to a process that has the stages of the host; --nf-host 1: this is
 * that process (dpdk)
 * --nf-in-turn 1     an event is let in when all before it are done
 * --nf-halt W:N      worker W ends behind its first N events, as if it had died: for tests of what
 * is counted then
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

/* Whether there are entries to begin with. */
static bool nf_filled;

static void nf_is_full(const struct nf_table_spec *spec)
{
    fprintf(stderr, "nicforge: table %s is full: its capacity is %u\n", spec->name, spec->capacity);
}

#include "nf_results.h"

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
    const char *events = NULL, *limit = NULL, *frame = NULL, *ports = NULL, *report = NULL,
               *halt = NULL, *role = NULL, *turn = NULL;
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
    nf_filled = nf_fill_path != NULL;
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

static bool nf_fill_tables(void)
{
    size_t size = 0;
    u8 *bytes = nf_fill_path ? nf_read_file(nf_fill_path, &size) : NULL;
    bool ok = (bytes || !nf_fill_path) && nf_fill_from(bytes, bytes + size);
    free(bytes);
    return ok;
}

/* The file that is being written. */
static FILE *nf_file;

static void nf_write_entry(const struct nf_entry_head *head, const void *key, const void *mask,
                           const u8 *value)
{
    static const u8 none[256];
    const struct nf_table_spec *spec = &nf_table_specs[head->table];
    fwrite(head, sizeof(*head), 1, nf_file);
    fwrite(key, 1, spec->key_size, nf_file);
    fwrite(mask ? mask : none, 1, spec->key_size, nf_file);
    fwrite(value, 1, spec->value_size, nf_file);
    fwrite(value + spec->len_at + 4, 1, head->buf_size, nf_file);
}

static void nf_write_count(const char *name, u64 value)
{
    fprintf(nf_file, "%s %lu\n", name, value);
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
        nf_file = file;
        nf_each_count(nf_write_count);
#ifdef NF_MORE_STATS
        NF_MORE_STATS(file);
#endif
        ok = fclose(file) == 0;
    }
    file = nf_tables_path ? nf_create(nf_tables_path) : NULL;
    if (file) {
        nf_file = file;
        for (u32 t = 0; t < nf_table_count; t++)
            for (u32 w = 0; w < nf_owners(t) && (!nf_far_path || nf_host_tables[t] == nf_far_role);
                 w++)
                nf_each_entry(t, w, nf_write_entry);
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
