/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The class of a point in the plane by its 4 nearest of 16 known points of 5 classes; ties go to
 * the class of the nearest.
 */
#include "nf_function.h"

enum { POINTS = 16, CLASSES = 5, K = 4 };

static const struct {
    int32_t x, y;
    uint32_t class;
} points[POINTS] = {
    {0, 0, 0},     {10, 5, 0},    {5, 10, 0},    {900, 900, 1}, {910, 905, 1}, {905, 910, 1},
    {0, 900, 2},   {10, 905, 2},  {5, 910, 2},   {900, 0, 3},   {905, 10, 3},  {910, 5, 3},
    {450, 450, 4}, {455, 460, 4}, {460, 455, 4}, {445, 445, 4},
};

static uint32_t classify(int32_t x, int32_t y)
{
    int64_t distance[POINTS];
    int order[POINTS];
    uint32_t votes[CLASSES] = {0}, best;

    for (int i = 0; i < POINTS; i++) {
        int64_t dx = points[i].x - x, dy = points[i].y - y;
        int at = i;
        distance[i] = dx * dx + dy * dy;
        /* The whole order, as the function that this follows computes it. */
        for (; at > 0 && distance[order[at - 1]] > distance[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    best = points[order[0]].class;
    for (int i = 0; i < K; i++)
        votes[points[order[i]].class]++;
    for (uint32_t c = 0; c < CLASSES; c++)
        if (votes[c] > votes[best])
            best = c;
    return best;
}

uint32_t nf_function_run(const uint8_t *in, uint32_t length, uint8_t *out, uint32_t room)
{
    if (room < 4)
        return 0;
    nf_put(out, classify((int32_t)(nf_word(in, length, 0) % 1000),
                         (int32_t)(nf_word(in, length, 1) % 1000)));
    return 4;
}

int nf_function_check(void)
{
    for (int i = 0; i < POINTS; i++)
        if (classify(points[i].x, points[i].y) != points[i].class)
            return 0;
    return classify(100, 90) == 0 && classify(800, 100) == 3 && classify(400, 500) == 4;
}
