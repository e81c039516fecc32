/*
 * regex.c (oracle) - regular expressions by Hyperscan: the judge of `nf_regex`. Built once, loaded
 * beside the programs.
 */
#include <hs/hs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The match that ends first, and of those that end there the first pattern's. */
struct best {
    unsigned long long end;
    unsigned int pattern;
};

static int matched(unsigned int pattern, unsigned long long from, unsigned long long to,
                   unsigned int flags, void *context)
{
    struct best *best = context;
    (void)from, (void)flags;
    if (best->pattern == 0 || to < best->end || (to == best->end && pattern < best->pattern))
        *best = (struct best){to, pattern};
    return 0;
}

/* What a thread searched for last. */
static __thread struct {
    char *lines;
    hs_database_t *database;
    hs_scratch_t *scratch;
} last;

/* Prepares the search for patterns that stand one a line. */
static void prepare(const char *lines)
{
    const char *patterns[16];
    unsigned int flags[16] = {0}, ids[16], count = 0;
    hs_compile_error_t *error = NULL;
    free(last.lines);
    hs_free_database(last.database);
    last.lines = strdup(lines);
    char *text = strdup(lines), *left = text;
    for (char *line; count < 16 && (line = strsep(&left, "\n")) && (*line || left); count++) {
        patterns[count] = line;
        ids[count] = count + 1;
    }
    if (hs_compile_multi(patterns, flags, ids, count, HS_MODE_BLOCK, NULL, &last.database,
                         &error) ||
        hs_alloc_scratch(last.database, &last.scratch)) {
        fprintf(stderr, "Hyperscan refuses `%s`: %s\n", lines, error ? error->message : "memory");
        abort();
    }
    free(text);
}

/* Number of the pattern, of those that stand one a line, that matches first in n bytes. */
uint32_t nf_regex_judge(const char *lines, const uint8_t *bytes, uint32_t n)
{
    struct best best = {0, 0};
    if (!last.lines || strcmp(lines, last.lines))
        prepare(lines);
    if (hs_scan(last.database, (const char *)bytes, n, 0, last.scratch, matched, &best)) {
        fprintf(stderr, "Hyperscan does not search for `%s`\n", lines);
        abort();
    }
    return best.pattern;
}
