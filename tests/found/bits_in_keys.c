/* Bits of a key that no member has are zero, wherever the key comes from. */
#include <nicforge.h>

struct part {
    uint8_t three : 3;
};

struct key {
    struct part parts[3];
} __attribute__((packed));

NF_TABLE(hash, seen, struct key, struct part, 58);

void net_recv(nf_pkt pkt)
{
    struct key key;
    if (nf_extract(pkt, &key))
        nf_update(&seen, key, key.parts[1]);
    nf_emit(pkt, &key);
    nf_send(pkt, 0);
}

void host_send(struct key key)
{
    struct part part;
    nf_update(&seen, key, part);
}
