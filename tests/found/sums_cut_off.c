/* A sum whose upper bits are cut off before each addition: GCC 12 takes it for one that grows by
 * the same number at each turn. Found by generated program 840526. */
#include <nicforge.h>

NF_TABLE(hash, seen, uint16_t, uint32_t, 16);

struct told {
    uint32_t narrow;
    uint32_t wide;
};

void net_recv(nf_pkt pkt)
{
    struct told told;
    if (!nf_extract(pkt, &told)) {
        nf_drop(pkt, "short");
        return;
    }
    uint16_t key = 0;
    nf_update(&seen, (uint16_t)1799, told.narrow);
    for (int i = 0; i < 5; i++) {
        told.narrow = i;
        if (nf_contains(&seen, key))
            break;
        key = (uint8_t)key + 1799;
    }
    uint32_t sum = 0;
    for (int i = 0; i < 5; i++) {
        told.wide = i;
        if (nf_contains(&seen, (uint16_t)sum))
            break;
        sum = (uint16_t)((uint8_t)sum + 1799);
    }
    nf_emit(pkt, &told);
    nf_send(pkt, 0);
}
