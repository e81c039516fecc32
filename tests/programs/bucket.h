/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * bucket.h: what several programs here keep in their tables, and a change of it that takes several
 * cycles in hardware.
 */
#include <nicforge.h>

struct bucket {
    uint32_t level;
    uint32_t last;
};

static uint32_t filled(struct bucket *bucket, uint32_t amount)
{
    uint32_t level = bucket->level + (amount - bucket->last) * 3;
    if (level > 100000)
        level = level - 100000;
    bucket->level = level;
    bucket->last = amount;
    return level;
}
