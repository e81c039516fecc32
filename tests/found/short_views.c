/* Indices beyond the end of what a union's member or a cast has, where there is more of the bytes
 * behind it, or where an index of larger elements leads round to the first ones. */
#include <nicforge.h>
#include "defined.h"

struct told {
    uint32_t key;
    uint16_t code;
    uint8_t bytes[26];
    uint64_t sum;
};

struct mixed {
    union {
        uint8_t bytes[8];
        uint8_t two[2];
        uint16_t words[3];
        int8_t first;
        struct {
            uint8_t tag;
            uint8_t rest[5];
        } tagged;
    } u;
};

void net_recv(nf_pkt pkt)
{
    struct told told;
    struct mixed mixed = {};
    uint64_t sum = 0;
    if (!nf_extract(pkt, &told)) {
        nf_drop(pkt, "short");
        return;
    }
    for (int i = 0; i < 8; i++)
        mixed.u.bytes[i] = told.bytes[i];
    uint32_t at = told.key & 7, far = told.key;
    sum = sum * 31 + GET(mixed.u.two, at);
    sum = sum * 31 + GET(mixed.u.two, (uint32_t)mixed.u.first);
    sum = sum * 31 + GET(mixed.u.words, at);
    sum = sum * 31 + GET(mixed.u.words, far << 31 | at);
    sum = sum * 31 + GET(mixed.u.tagged.rest, at);
    sum = sum * 31 + GET(mixed.u.tagged.rest, ~0u - (far & 1));
    PUT(mixed.u.two, at, 7);
    PUT(mixed.u.words, far << 31 | (at & 1), 0x1234);
    PUT(mixed.u.tagged.rest, ~0u, 9);
    PUT(mixed.u.tagged.rest, at, 3);
    for (int i = 0; i < 8; i++)
        sum = sum * 31 + mixed.u.bytes[i];
    told.sum = sum;
    nf_emit(pkt, &told);
    nf_send(pkt, 0);
}
