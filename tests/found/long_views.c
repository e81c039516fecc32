/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * long_views: arrays of more than 512 bytes are seen as bytes and as other integers, at places that
 * vary and at such that do not.
 */
#include <nicforge.h>
#include "defined.h"

struct NF_PACKED head {
    uint32_t n;
    uint32_t value;
};

struct NF_PACKED answer {
    uint64_t sum;
    uint32_t word;
    uint16_t half;
    uint8_t byte;
};

static int64_t longs[65];
static struct {
    uint16_t halves[300];
    uint8_t kept;
    uint32_t words[200];
} many;

static uint32_t summed(const uint8_t *bytes, uint32_t from)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < 7; i++)
        sum = 31 * sum + bytes[from + i];
    return sum;
}

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct answer answer = {0};
    int64_t own[65] = {0};
    struct {
        uint32_t words[150];
        uint8_t bytes[6];
    } local = {0};

    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "short");
        return;
    }
    uint32_t n = head.n % 512;

    *(uint32_t *)((uint8_t *)longs + n) = head.value;
    *(uint16_t *)((uint8_t *)own + n) = (uint16_t)head.value;
    *((uint8_t *)own + 514) = (uint8_t)head.n;
    *(uint32_t *)((uint8_t *)own + 515) = head.value;
    *(uint64_t *)((uint8_t *)many.halves + n) += head.value;
    *((uint8_t *)many.words + n) ^= 0x5a;
    *(uint16_t *)((uint8_t *)local.words + n) = (uint16_t)(head.value >> 16);
    ((uint16_t *)local.words)[n / 2] += 3;

    for (uint32_t i = 0; i < 65; i++)
        answer.sum = 3 * answer.sum + (uint64_t)longs[i] + (uint64_t)own[i];
    for (uint32_t i = 0; i < 150; i++)
        answer.sum = 5 * answer.sum + local.words[i] + many.words[i] + many.halves[2 * i];
    answer.word = *(uint32_t *)((uint8_t *)own + n) + summed((uint8_t *)many.halves, n) +
                  summed((uint8_t *)own, n);
    answer.half = ((uint16_t *)longs)[n / 2];
    answer.byte = ((uint8_t *)many.words)[n + 8] + ((uint8_t *)longs)[519];
    nf_emit(pkt, &answer);
    nf_send(pkt, 0);
}
