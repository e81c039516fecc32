/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * long_unions: unions of more than 512 bytes, kept as one of their members or as words, in
 * local variables and members of static structs.
 */
#include <nicforge.h>

union both {
    uint8_t bytes[600];
    uint16_t halves[300];
    uint32_t words[150];
};

union aligned {
    struct {
        uint8_t kind;
        uint16_t list[600];
    } s;
    uint8_t bytes[1202];
};

union small {
    uint8_t bytes[12];
    struct {
        uint16_t a;
        uint8_t b;
    } parts[3];
};

struct NF_PACKED head {
    uint32_t n;
    uint32_t value;
};

struct NF_PACKED answer {
    uint64_t sum;
    uint32_t word;
    uint8_t byte;
};

static struct {
    uint32_t before;
    union both both;
} beside;

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct answer answer = {0};
    union aligned own = {0};
    union small small = {.parts[1] = {0x1234, 5}};

    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "short");
        return;
    }
    uint32_t n = head.n % 150;

    beside.both.words[n] = head.value;
    beside.before = (uint8_t)n;
    own.s.kind = 3;
    own.s.list[n] = (uint16_t)head.value;
    own.bytes[2 * n + 5] += 7;
    own.bytes[n + 1] = (uint8_t)head.value;
    own.s.list[n + 2] += 257;
    beside.both.halves[n] += beside.both.bytes[n + 40] + 1;
    small.bytes[n % 12] = (uint8_t)head.value;

    for (uint32_t i = 0; i < 300; i++)
        answer.sum = 3 * answer.sum + own.s.list[i];
    answer.word = own.s.kind + beside.before + beside.both.words[n] + small.parts[n % 3].a;
    answer.byte = own.bytes[n] + small.parts[2].b + own.bytes[1201];
    nf_emit(pkt, &answer);
    nf_send(pkt, 0);
}
