/* Prefixes of a key of one byte. */
#include <nicforge.h>

struct key {
    uint8_t first;
};

NF_TABLE(lpm, routes, struct key, uint8_t, 5);

void net_recv(nf_pkt pkt)
{
    struct key key;
    uint8_t hop;
    if (nf_extract(pkt, &key) && nf_lookup(&routes, key, &hop)) {
        nf_send(pkt, hop & 1);
        return;
    }
    nf_drop(pkt, "no route");
}
