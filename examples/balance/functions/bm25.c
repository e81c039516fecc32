/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Okapi BM25 (k1 1.2, b 0.75) of a query over documents of a made-up collection; the result is the
 * best document and its score in thousandths. Terms of a document are drawn by a fixed generator,
 * so everybody has the same collection.
 */
/* libraries: m */
#include <math.h>
#include <stdbool.h>

#include "nf_function.h"

enum { DOCUMENTS = 64, TERMS = 2048, QUERY = 8 };
static const double k1 = 1.2, b = 0.75;

static uint8_t frequency[DOCUMENTS][TERMS];
static uint32_t lengths[DOCUMENTS], containing[TERMS];
static double mean_length;

static void build(void)
{
    uint64_t state = 1;

    if (mean_length > 0)
        return;
    for (int d = 0; d < DOCUMENTS; d++) {
        lengths[d] = 100 + 5 * d;
        mean_length += (double)lengths[d] / DOCUMENTS;
        for (uint32_t i = 0; i < lengths[d]; i++) {
            state = state * 6364136223846793005ull + 1442695040888963407ull;
            uint8_t *entry = &frequency[d][(state >> 33) % TERMS];
            *entry += *entry < 255;
        }
    }
    for (int d = 0; d < DOCUMENTS; d++)
        for (int t = 0; t < TERMS; t++)
            containing[t] += frequency[d][t] > 0;
}

static double score(int document, const uint32_t *terms, int count)
{
    double sum = 0, norm = k1 * (1 - b + b * lengths[document] / mean_length);

    for (int i = 0; i < count; i++) {
        double n = containing[terms[i]], f = frequency[document][terms[i]];
        sum += log((DOCUMENTS - n + 0.5) / (n + 0.5) + 1) * f * (k1 + 1) / (f + norm);
    }
    return sum;
}

static int best_of(const uint32_t *terms, int count, double *most)
{
    int best = 0;

    *most = -1;
    for (int d = 0; d < DOCUMENTS; d++) {
        double now = score(d, terms, count);
        if (now > *most) {
            *most = now;
            best = d;
        }
    }
    return best;
}

uint32_t nf_function_run(const uint8_t *in, uint32_t length, uint8_t *out, uint32_t room)
{
    uint32_t terms[QUERY];
    double most;

    if (room < 8)
        return 0;
    build();
    for (int i = 0; i < QUERY; i++)
        terms[i] = nf_word(in, length, i) % TERMS;
    nf_put(out, best_of(terms, QUERY, &most));
    nf_put(out + 4, (uint32_t)(most * 1000));
    return 8;
}

int nf_function_check(void)
{
    double most;

    build();
    /* A term that one document has: that document is found, with the score of the formula written
     * out. */
    for (uint32_t t = 0; t < TERMS; t++) {
        if (containing[t] != 1)
            continue;
        int found = best_of(&t, 1, &most), f = frequency[found][t];
        double want = log((DOCUMENTS - 0.5) / 1.5 + 1) * f * 2.2 /
                      (f + 0.3 + 0.9 * lengths[found] / mean_length);
        if (!f || fabs(most - want) > 1e-9)
            return 0;
    }
    return 1;
}
