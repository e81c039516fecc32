/* A read behind all frames fails, and the planner does not look for it in one. */
#include <nicforge.h>

struct pair {
    uint8_t first;
    nf_be32 second;
};

NF_TABLE(hash, seen, nf_be32, uint32_t, 64);

void net_recv(nf_pkt pkt)
{
    struct pair pair = {1, NF_HTONL(2)};
    uint32_t count = 0;
    if (!nf_load(pkt, ~0u, &pair))
        pair.first = 3;
    nf_lookup(&seen, pair.second, &count);
    count++;
    nf_update(&seen, pair.second, count);
    nf_send(pkt, (pair.first + count) & 1);
}
