/* A member of a new struct is computed from one that is not used again: both could be one variable.
 */
#include <nicforge.h>

struct part {
    uint32_t low : 23;
} __attribute__((packed));

struct word {
    uint16_t two : 2;
};

NF_TABLE(array, seen, uint32_t, struct word, 16);

void net_recv(nf_pkt pkt)
{
    struct word word;
    if (!nf_extract(pkt, &word)) {
        nf_drop(pkt, "short");
        return;
    }
    struct part part = (struct part){.low = (uint32_t)nf_hash(2, (uint8_t)word.two)};
    if (nf_ntohs(word.two))
        part.low++;
    nf_update(&seen, part.low & 15, word);
    nf_send(pkt, nf_hash(2, (struct part){.low = word.two}) & 1);
}
