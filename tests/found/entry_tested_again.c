/* An entry that is found once and read again behind much else, on a target whose kernel has to see
 * that the pointer to it is no null pointer. */
#include <nicforge.h>

#include "defined.h"

struct value {
    uint8_t m0 : 8;
    int32_t m1;
    uint8_t m2 : 6;
} __attribute__((packed));

struct key {
    uint64_t m1;
};

static const uint8_t few[2] = {94, 144};

NF_TABLE(ternary, rules, struct key, struct value, 17);

void net_recv(nf_pkt pkt)
{
    nf_be32 none;
    struct key key;
    nf_emit(pkt, &key);
    switch (((nf_csum_add((uint16_t)(DIV(none, key.m1)),
                          ((struct value){.m1 = (int32_t)((key.m1) + (none)),
                                          .m2 = (uint8_t)(nf_len(pkt))})))) &
            7) {
    case 0: {
    } break;
    case 1: {
        none = none;
        key.m1 = GET(few, REM((uint32_t)(-29029), 2u));
    } break;
    case 2: {
        if ((key.m1) != ((0) & (none))) {
            nf_send(pkt, nf_port(pkt));
            return;
        }
    } break;
    default:
        key.m1 ^= (nf_be16)(SHR((1) - (key.m1), (0xccaf55deu) & 31));
        break;
    }
    nf_max(&rules, (struct key){}, m1, (uint8_t)(DIV(key.m1, none)));
    uint32_t which =
        nf_regex(pkt, -3,
                 "^(\\x00|[\\x80-\\xff]{2})\n^(\\x00|[\\x80-\\xff]{2})+([^\\xff]\\x00|\\x01)[\\x00-"
                 "\\x7f]?[a-z0-9]{1,3}\n[\\x00-\\x7f]{2}[a-z0-9]*(\\x00|[\\x80-\\xff]{2}){2}");
    if (nf_update(
            &rules, key,
            ((struct value){.m0 = (uint8_t)((0x4b4e5a2du) & (key.m1)),
                            .m2 = (uint8_t)(nf_hash(
                                1, ((struct value){.m0 = (uint8_t)(GET(
                                                       few, REM((uint32_t)((which) | (-4)), 2u))),
                                                   .m1 = (int32_t)(which)})))}))) {
        if (!nf_update(&rules, key,
                       ((struct value){.m0 = (uint8_t)((int8_t)(0x1722ecf6a00000ull)),
                                       .m1 = (int32_t)(+(key.m1)),
                                       .m2 = (uint8_t)((uint32_t)(nf_now() >> 10))}))) {
            nf_pass(pkt);
            return;
        }
    }
    nf_trim(pkt, (key.m1) & 31);
    struct value found;
    nf_lookup(&rules, (struct key){}, &found);
    if (!(DIV(found.m0, (uint32_t)(nf_now() >> 10)))) {
        nf_send(pkt, (~(0xdb4b56ebu)) & 1);
        return;
    }
    nf_send(pkt, (nf_csum_add((uint16_t)(key.m1), key)) & 1);
    return;
}
