/* Functions of C that the subset could not write: one without state that any thread may call, one
 * with state, one that changes what it is given, and a library's checksum. All behind a queue to
 * the host. */
#include <nicforge.h>

struct item {
    nf_be32 source;
    uint16_t length;
    uint8_t ttl;
    uint8_t rest;
    uint8_t text[16];
};

NF_TABLE(hash, sums, nf_be32, uint64_t, 1024);
NF_TABLE(array, seen, uint32_t, uint64_t, 4);

/* functions.c */
extern uint32_t weigh(const struct item *item, uint16_t factor) __attribute__((const));
extern int64_t count_calls(int32_t step);
extern void spell(struct item *item, const uint8_t *digits, uint32_t length);
extern bool is_odd(uint64_t number) __attribute__((const));
/* libz */
extern uint64_t crc32(uint64_t sum, const void *bytes, uint32_t length) __attribute__((pure));

void work(nf_pkt pkt, struct item item);

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) || !nf_extract(pkt, &ip)) {
        nf_drop(pkt, "not IPv4");
        return;
    }
    struct item item = {ip.src, nf_ntohs(ip.length), ip.ttl, 0, {0}};
    nf_enqueue(work, pkt, item);
}

NF_ON(host);
void work(nf_pkt pkt, struct item item)
{
    uint8_t digits[10] = {'0', '1', '2', '3', '4', '5', '6', '7', '8', '9'};
    struct item before = item;
    spell(&item, digits, 10);
    uint64_t sum = crc32(0, &item, sizeof(item));
    sum += weigh(&before, 3);
    nf_add_value(&sums, item.source, sum);
    int64_t calls = count_calls(-1);
    if (calls < 0)
        nf_update(&seen, 0, (uint64_t)-calls);
    nf_add_value(&seen, is_odd(item.length) ? 1 : 2, 1);
    nf_reset(pkt);
    nf_emit(pkt, &item);
    nf_send(pkt, 1 - nf_port(pkt));
}
