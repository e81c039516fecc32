// test: check
#include <nicforge.h>
/* What a pointer leads to keeps its byte order; so does the second half of `a ?: b`. */
static void swap(nf_be32 *a, nf_be32 *b)
{
    nf_be32 kept = *a;
    *a = *b;
    *b = kept;
}
static nf_be16 bump(nf_be16 *id, nf_be16 otherwise)
{
    *id = nf_htons(nf_ntohs(*id) + 1);
    if (*id == NF_HTONS(7))
        *id ^= NF_HTONS(1);
    return *id ?: otherwise;
}
static void wrong(nf_be16 *id, uint16_t host)
{
    *id = host;
    *id += 1;
    host = *id;
    host = host ?: *id;
}
void net_recv(nf_pkt pkt)
{
    struct nf_ipv4 ip;
    nf_extract(pkt, &ip);
    swap(&ip.src, &ip.dst);
    bump(&ip.id, ip.csum);
    wrong(&ip.id, 3);
    nf_emit(pkt, &ip);
    nf_send(pkt, 0);
}
