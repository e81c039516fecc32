/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Naive Bayes over 128 binary features and 4 classes: the class with the largest sum of logarithms.
 * Feature f is likely (0.9) in class f mod 4 and unlikely (0.2) in others, so the right class can
 * be counted by hand.
 */
/* libraries: m */
#include <math.h>

#include "nf_function.h"

enum { FEATURES = 128, CLASSES = 4 };
static double yes[CLASSES][FEATURES], no[CLASSES][FEATURES];

static void build(void)
{
    if (yes[0][0] < 0)
        return;
    for (int c = 0; c < CLASSES; c++) {
        for (int f = 0; f < FEATURES; f++) {
            double p = f % CLASSES == c ? 0.9 : 0.2;
            yes[c][f] = log(p);
            no[c][f] = log(1 - p);
        }
    }
}

static uint32_t classify(const uint32_t words[4])
{
    uint32_t best = 0;
    double most = -INFINITY;

    for (uint32_t c = 0; c < CLASSES; c++) {
        double sum = 0;
        for (int f = 0; f < FEATURES; f++)
            sum += words[f / 32] >> (f % 32) & 1 ? yes[c][f] : no[c][f];
        if (sum > most) {
            most = sum;
            best = c;
        }
    }
    return best;
}

uint32_t nf_function_run(const uint8_t *in, uint32_t length, uint8_t *out, uint32_t room)
{
    uint32_t words[4];

    if (room < 4)
        return 0;
    build();
    for (uint32_t i = 0; i < 4; i++)
        words[i] = nf_word(in, length, i);
    nf_put(out, classify(words));
    return 4;
}

int nf_function_check(void)
{
    build();
    for (uint32_t c = 0; c < CLASSES; c++) {
        uint32_t own = 0x11111111u << c;
        if (classify((uint32_t[4]){own, own, own, own}) != c ||
            classify((uint32_t[4]){own, own, own, 0}) != c)
            return 0;
    }
    return 1;
}
