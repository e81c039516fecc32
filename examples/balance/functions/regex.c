/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Many patterns at once over a payload with Hyperscan (Vectorscan has the same interface): the
 * result is a count and a hash of all matches.
 */
/* libraries: hs */
#include <hs/hs.h>
#include <stddef.h>

#include "nf_function.h"

static const char *const patterns[] = {
    "GET /[a-z0-9/]+\\.php", "\\.\\./\\.\\./", "SELECT .{1,40} FROM",
    "(?:cmd|command)\\.exe", "[0-9]{16}",      "<script[^>]{0,64}>",
    "User-Agent: [Cc]url",   "\\x90{8}",       "/etc/(?:passwd|shadow)",
    "union all select",
};
enum { PATTERNS = sizeof(patterns) / sizeof(patterns[0]) };

static hs_database_t *database;
static hs_scratch_t *scratch;

static int build(void)
{
    unsigned flags[PATTERNS], ids[PATTERNS];
    hs_compile_error_t *error = NULL;

    if (scratch)
        return 1;
    for (unsigned i = 0; i < PATTERNS; i++) {
        flags[i] = HS_FLAG_DOTALL;
        ids[i] = i;
    }
    if (hs_compile_multi(patterns, flags, ids, PATTERNS, HS_MODE_BLOCK, NULL, &database, &error) !=
        HS_SUCCESS) {
        hs_free_compile_error(error);
        return 0;
    }
    return hs_alloc_scratch(database, &scratch) == HS_SUCCESS;
}

struct matches {
    uint32_t count, hash;
};

static int seen(unsigned id, unsigned long long from, unsigned long long to, unsigned flags,
                void *context)
{
    struct matches *matches = context;

    (void)from;
    (void)flags;
    matches->count++;
    /* The order of matches that end at one place is the library's. */
    matches->hash += (id + 1) * 2654435761u + (uint32_t)to * 40503u;
    return 0;
}

uint32_t nf_function_run(const uint8_t *in, uint32_t length, uint8_t *out, uint32_t room)
{
    struct matches matches = {0, 0};

    if (room < 8 || !build())
        return 0;
    if (hs_scan(database, (const char *)in, length, 0, scratch, seen, &matches) != HS_SUCCESS)
        return 0;
    nf_put(out, matches.count);
    nf_put(out + 4, matches.hash);
    return 8;
}

int nf_function_check(void)
{
    static const char text[] = "GET /a/b.php ../../etc/passwd <script src=x>";
    uint8_t out[8];

    return nf_function_run((const uint8_t *)text, sizeof(text) - 1, out, 8) == 8 && out[0] == 4;
}
