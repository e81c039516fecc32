/* Members of packed structs that are changed in place, at odd offsets of the values of several
 * kinds of tables. */
#include <nicforge.h>

struct key {
    uint8_t first;
};

struct odd {
    uint8_t kind;
    uint32_t packets;
    uint16_t last;
    uint8_t spare[2];
    uint32_t most;
} __attribute__((packed));

struct wide {
    uint8_t kind[3];
    uint64_t bytes;
} __attribute__((packed));

struct even {
    uint32_t packets;
    uint64_t bytes;
    uint8_t kind;
} __attribute__((packed));

NF_TABLE(hash, flows, struct key, struct odd, 64);
NF_TABLE(array, sizes, uint32_t, struct wide, 4);
NF_TABLE(ternary, rules, struct key, struct odd, 4);
NF_TABLE(ternary, marks, struct key, struct even, 4);
NF_BUF_TABLE(hash, texts, struct key, struct wide, 16, 8);

void net_recv(nf_pkt pkt)
{
    struct key key;
    struct odd flow;
    struct wide text = {{1, 2, 3}, 0};
    if (!nf_extract(pkt, &key)) {
        nf_drop(pkt, "short");
        return;
    }
    nf_add(&flows, key, packets, 1);
    nf_max(&flows, key, most, nf_len(pkt));
    nf_add(&sizes, key.first & 3, bytes, nf_len(pkt));
    nf_add(&rules, key, packets, 1);
    nf_add(&marks, key, packets, 1);
    if (nf_lookup(&flows, key, &flow) && (flow.packets & 1)) {
        flow.last = (uint16_t)flow.most;
        nf_update(&flows, key, flow);
    }
    nf_update(&texts, key, text);
    nf_add(&texts, key, bytes, 7);
    nf_buf_append(&texts, key, key);
    nf_send(pkt, 0);
}
