/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Arrays that are compared byte by byte, to the first difference or to the end; each answer is a
 * byte of the packet that leaves.
 */
#include <nicforge.h>

NF_PORTS(1);

struct asked {
    uint8_t count;
    uint8_t from;
    uint8_t a[27];
    uint8_t b[27];
};

struct answers {
    uint8_t first;
    uint8_t all;
    uint8_t both;
    uint8_t differs;
    uint8_t skewed;
    uint8_t until;
    uint8_t at;
    uint8_t wide;
};

static inline int where(struct asked asked)
{
    for (int i = 0; i < 27; i++) {
        if (asked.a[i] != asked.b[i])
            return i;
    }
    return 99;
}

void net_recv(nf_pkt pkt)
{
    struct asked asked;
    if (!nf_extract(pkt, &asked)) {
        nf_drop(pkt, "short");
        return;
    }
    struct answers answers = {0};
    uint32_t count = asked.count;

    bool equal = true;
    for (uint8_t i = 0; i < 27; i++) {
        if (asked.a[i] != asked.b[i]) {
            equal = false;
            break;
        }
    }
    answers.first = equal;

    bool all = true;
    for (uint32_t i = 0; i < 27; i++)
        all = all && asked.a[i] == asked.b[i];
    answers.all = all;

    uint32_t both = 7;
    for (uint32_t i = 0; i < 27; i++) {
        if (i >= count)
            break;
        if (asked.a[i] != asked.b[i])
            both = 3;
    }
    answers.both = both;

    uint8_t differs = 0;
    for (int i = 0; i < 27; i++)
        differs |= asked.a[i] ^ asked.b[i];
    answers.differs = differs;

    int skewed = 0;
    for (int i = 0; i < 22; i++)
        skewed |= asked.a[i + 5] ^ asked.b[i];
    answers.skewed = skewed;

    uint8_t until = 0;
    for (until = 0; until < 27; until++) {
        if (until > count)
            break;
        if (asked.a[until] != asked.b[until])
            break;
    }
    answers.until = until;
    answers.at = where(asked);

    /* With a sign, and the difference of all as a number: none of the above. */
    int wide = 0;
    for (int i = 0; i < 27; i++)
        wide += (int8_t)asked.a[i] - (int8_t)asked.b[i];
    answers.wide = wide;
    if (answers.first != answers.all) {
        nf_drop(pkt, "two ways to compare differ");
        return;
    }
    nf_emit(pkt, &answers);
    nf_send(pkt, 0);
}
