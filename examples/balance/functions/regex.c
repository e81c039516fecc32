/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * regex.c - which of some hundred rules match a payload, by Hyperscan (Vectorscan on Arm has the same interface).
 * Answered by how many and by their numbers, ascending, as far as they fit.
 *
 * Rules are the lines of a file: an example of what matches, a tabulator, the expression. rules/literals.txt is easy to
 * scan for, rules/expressions.txt is not.
 */
#include <hs/hs.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "function.h"

#define RULES_MOST 512

struct rules {
    hs_database_t *database;
    unsigned count;
    char *example[RULES_MOST];
};

/* Every thread scans with memory of its own. */
static _Thread_local hs_scratch_t *scratch;

static bool read_rules(struct rules *rules, const char *path, char *expression[])
{
    FILE *file = fopen(path, "r");
    char line[1024];
    if (!file) {
        perror(path);
        return false;
    }
    while (fgets(line, sizeof line, file) && rules->count < RULES_MOST) {
        char *tab = strchr(line, '\t');
        line[strcspn(line, "\n")] = 0;
        if (!tab) {
            fprintf(stderr, "%s:%u: an example, a tabulator, an expression\n", path, rules->count + 1);
            fclose(file);
            return false;
        }
        *tab = 0;
        rules->example[rules->count] = strdup(line);
        expression[rules->count++] = strdup(tab + 1);
    }
    fclose(file);
    return rules->count > 0;
}

static void *regex_make(const char *config, struct arena *arena)
{
    (void)arena;
    static char *expression[RULES_MOST];
    unsigned flags[RULES_MOST], ids[RULES_MOST];
    char path[PATH_MAX];
    /* Beside the program, unless a path is said. */
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 64);
    path[size > 0 ? size : 0] = 0;
    char *slash = strrchr(path, '/');
    const char *name = !config ? "literals" : config;
    if (slash && !strchr(name, '/'))
        snprintf(slash, sizeof path - (size_t)(slash - path), "/rules/%s.txt", name);
    else
        snprintf(path, sizeof path, "%s", name);
    struct rules *rules = calloc(1, sizeof *rules);
    if (!rules || !read_rules(rules, path, expression))
        return NULL;
    for (unsigned at = 0; at < rules->count; at++) {
        flags[at] = HS_FLAG_SINGLEMATCH;
        ids[at] = at;
    }
    hs_compile_error_t *error = NULL;
    if (hs_compile_multi((const char *const *)expression, flags, ids, rules->count, HS_MODE_BLOCK, NULL,
                         &rules->database, &error) != HS_SUCCESS) {
        fprintf(stderr, "%s:%d: %s\n", path, error->expression + 1, error->message);
        return NULL;
    }
    return rules;
}

struct found {
    bool of[RULES_MOST];
};

static int on_match(unsigned id, unsigned long long from, unsigned long long to, unsigned flags, void *context)
{
    (void)from;
    (void)to;
    (void)flags;
    ((struct found *)context)->of[id] = true;
    return 0;
}

static ssize_t regex_serve(void *state, uint8_t *packet, size_t size, uint8_t *result, size_t room)
{
    const struct rules *rules = state;
    struct found found = {{0}};
    uint16_t count = 0;
    size_t at = 2;
    if (room < 2 || (!scratch && hs_alloc_scratch(rules->database, &scratch) != HS_SUCCESS))
        return -1;
    if (hs_scan(rules->database, (const char *)packet, (unsigned)size, 0, scratch, on_match, &found) != HS_SUCCESS)
        return -1;
    for (unsigned id = 0; id < rules->count; id++) {
        if (!found.of[id])
            continue;
        count++;
        if (at + 2 <= room) {
            store16(result + at, (uint16_t)id);
            at += 2;
        }
    }
    store16(result, count);
    return (ssize_t)at;
}

/* Words, among them up to three examples. */
static size_t regex_packet(const void *state, uint64_t number, uint8_t *packet)
{
    const struct rules *rules = state;
    static const char *const words[] = {"GET ", "/index", ".html ", "Host: ", "user",
                                        "=",    "value",  "&",      "text ",  "0123"};
    uint64_t word = mix(number ^ 0x72656d);
    size_t at = 0, plant = PACKET_BYTES / 4, left = word % 4;
    while (at < PACKET_BYTES) {
        const char *next = words[(word = mix(word)) % 10];
        if (left && at > plant) {
            next = rules->example[(word >> 8) % rules->count];
            plant += PACKET_BYTES / 4;
            left--;
        }
        size_t length = strlen(next), fits = PACKET_BYTES - at < length ? PACKET_BYTES - at : length;
        memcpy(packet + at, next, fits);
        at += fits;
    }
    return at;
}

const struct function regex = {
    .name = "regex",
    .what = "rules that match, by Hyperscan (literals, expressions, or a file)",
    .make = regex_make,
    .serve = regex_serve,
    .packet = regex_packet,
};
