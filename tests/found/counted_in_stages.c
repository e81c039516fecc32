/* Handlers of two stages add to one counter and use one LRU table, which nobody looks at elsewhere.
 */
#include <nicforge.h>

struct key {
    uint8_t first;
};

NF_TABLE(hash, seen, struct key, uint32_t, 64);
NF_TABLE(array, bytes, uint32_t, uint64_t, 2);
NF_TABLE(lru, names, struct key, uint16_t, 16);

void count(nf_pkt pkt, struct key key);

void net_recv(nf_pkt pkt)
{
    struct key key;
    uint16_t name;
    if (!nf_extract(pkt, &key)) {
        nf_drop(pkt, "short");
        return;
    }
    nf_add_value(&seen, key, 1);
    nf_add_value(&bytes, 1, nf_len(pkt));
    if (nf_lookup(&names, key, &name))
        nf_log("name {}", name);
    nf_enqueue(count, pkt, key);
}

void count(nf_pkt pkt, struct key key)
{
    uint16_t name;
    nf_add_value(&seen, key, 256);
    nf_add_value(&bytes, 1, 1);
    if (nf_contains(&names, key))
        nf_add_value(&bytes, 0, 1);
    nf_send(pkt, key.first & 1);
}
