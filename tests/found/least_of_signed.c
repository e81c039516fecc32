/* Searches through a table by a signed number, of which several are equal: the key decides, byte by
 * byte. */
#include <nicforge.h>

struct seen {
    uint8_t flags;
    int16_t level;
};

NF_TABLE(hash, levels, uint32_t, struct seen, 64);

void net_recv(nf_pkt pkt)
{
    struct {
        uint32_t key;
        int16_t level;
    } in;
    struct {
        uint32_t key;
        int16_t level;
        uint8_t found;
    } out = {0};
    if (nf_extract(pkt, &in)) {
        nf_update(&levels, in.key & 0x30003, (struct seen){1, in.level >> 12});
        if ((in.key & 0xc) == 0)
            nf_delete(&levels, in.key & 0x10003);
        uint32_t key = 0;
        struct seen least = {0};
        out.found = nf_least(&levels, level, &key, &least);
        out.key = key;
        out.level = least.level;
        nf_emit(pkt, &out);
    }
    nf_send(pkt, 0);
}
