/* Both arms of an `if` set a variable to what another one has. */
#include <nicforge.h>

struct head {
    uint32_t a;
    uint32_t b;
    uint8_t kind;
} __attribute__((packed));

void net_recv(nf_pkt pkt)
{
    struct head h, kept;
    uint32_t sum = 7;
    if (!nf_extract(pkt, &h)) {
        nf_drop(pkt, "short");
        return;
    }
    kept = h;
    h.kind = 3;
    if (h.a & 1) {
        sum = h.b;
        h = kept;
    } else {
        h = kept;
        sum = h.b;
    }
    switch (h.kind & 3) {
    case 0:
        kept.a = sum;
        sum = h.a;
        break;
    case 1:
        sum = h.a;
        break;
    default:
        sum = h.a;
    }
    h.b ^= sum + kept.a;
    nf_emit(pkt, &h);
    nf_send(pkt, 0);
}
