// A bit-field of a struct that goes from stage to stage loses the bits it has no room for.
#include <nicforge.h>

struct small {
    uint16_t low : 3;
} __attribute__((packed));

NF_TABLE(lpm, known, nf_be32, uint16_t, 8);

void net_recv(nf_pkt pkt)
{
    struct small small = {0};
    nf_be32 key = 0;
    uint16_t value;
    if (!nf_lookup(&known, key, &value)) {
        --small.low;
    }
    if ((nf_len(pkt) & 7) == 0)
        small.low = nf_csum_payload(pkt, 0, 20);
    nf_send(pkt, (small.low >> 12) & 1);
}
