// test: check
#include <nicforge.h>
struct value {
    bool flag;
    struct {
        uint16_t low;
    } inner;
    uint16_t words[4];
};
NF_TABLE(hash, flows, uint32_t, struct value, 16);
NF_TABLE(lru, recent, uint32_t, uint32_t, 16);
NF_TABLE(array, stats, uint32_t, uint32_t, 16);
NF_TABLE(lpm, routes, nf_be32, uint32_t, 16);

void net_recv(nf_pkt pkt)
{
    uint32_t key, number, n = nf_len(pkt);
    uint16_t narrow;
    nf_be32 address;
    struct value value;
    nf_least_value(&recent, &key, &number);
    nf_least_value(&stats, &key, &number);
    nf_least_value(&routes, &address, &number);
    nf_least(&flows, flag, &key, &value);
    nf_least(&flows, inner, &key, &value);
    nf_least(&flows, words[n & 3], &key, &value);
    nf_least(&flows, inner.low, &narrow, &value);
    nf_least(&flows, inner.low, &key, &number);
    nf_drop(pkt);
}
